"""Settings and needs of plugins, read from their source: nothing is imported to list them."""
