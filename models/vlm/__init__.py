"""Chat VLMs of other families, each by its own request and grammar, which are data."""
