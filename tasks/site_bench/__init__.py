"""SITE-Bench: spatial questions on images, scored against chance."""
