"""DR2Seg's training: a second pass over its own descriptions, and rewards that both passes earn."""
