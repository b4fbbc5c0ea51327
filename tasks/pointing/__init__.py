"""Questions answered by points, which count where they lie in the true region of the image."""
