"""DR2Seg: reasoning, a description that stands for itself, and places; one copy of its prompts."""
