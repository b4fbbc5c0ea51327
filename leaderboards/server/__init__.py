"""A test server: labels stay on it, predictions are uploaded, scores are released by the Ladder."""
