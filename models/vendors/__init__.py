"""Settings with which vendors evaluate their own networks, which are data."""
