"""Video-MME: questions with four options on short, medium and long videos."""
