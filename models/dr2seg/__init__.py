"""DR2Seg: reasoning, a self-contained description, and places; one copy of its prompts."""
