"""GroundMoRe: a mask in every frame for the object of a question about motion."""
