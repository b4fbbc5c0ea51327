"""Video-MME-v2: groups of four questions on a video, scored together and not linearly."""
