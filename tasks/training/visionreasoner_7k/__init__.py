"""VisionReasoner's 7,000 questions for several objects at once."""
