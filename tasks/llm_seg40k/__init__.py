"""LLM-Seg40K: segment the object of a question that a language model wrote."""
