"""SAM 3 by phrase: all instances of a concept, without a language model."""
