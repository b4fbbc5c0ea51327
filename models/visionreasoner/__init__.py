"""VisionReasoner's prompt, grammar and canvas: one copy for adapters and trainers."""
