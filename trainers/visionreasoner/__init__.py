"""VisionReasoner's training: its reward, term by term, and its settings."""
