"""Seg-Zero's training: its reward, soft or strict, term by term, and its settings."""
