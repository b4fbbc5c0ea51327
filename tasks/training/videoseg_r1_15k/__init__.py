"""VideoSeg-R1's mixture of three video sets."""
