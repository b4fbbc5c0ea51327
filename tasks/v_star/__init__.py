"""V-STaR: what happens in a video, when, and where, asked in two chains."""
