"""Video-R1-260k: questions about pictures and videos that a reward can grade."""
