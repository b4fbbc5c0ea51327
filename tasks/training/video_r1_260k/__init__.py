"""Video-R1-260k: questions about images and videos that a reward can grade."""
