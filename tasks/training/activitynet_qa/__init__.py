"""ActivityNet-QA: short answers to questions about activities."""
