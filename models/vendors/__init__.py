"""Settings with which vendors evaluate their own networks, one TOML file each."""
