"""V-STaR: questions for events of a video, their time and place, in two chains."""
