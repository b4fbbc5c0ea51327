"""Video-MMMU: what models learn from lectures, and how much better they answer by it."""
