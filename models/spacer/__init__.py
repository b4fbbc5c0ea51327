"""SpaceR: spatial questions answered with the help of a 10 × 10 map."""
