"""LLM-Seg40K: segment what a question that a language model wrote is about."""
