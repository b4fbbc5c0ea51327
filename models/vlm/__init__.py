"""Chat VLMs of several families; each family's request and grammar is a TOML file."""
