"""Video-R1: questions about videos, reasoned about before they are answered."""
