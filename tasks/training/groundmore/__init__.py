"""GroundMoRe: a mask in every frame for what a question about motion means."""
