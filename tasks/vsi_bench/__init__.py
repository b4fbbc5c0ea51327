"""VSI-Bench: thinking in space from videos of rooms."""
