"""SA-Co VEval: every instance of a noun phrase in a video, or none."""
