"""Benchmarks without Python: a table of records, and a TOML file that names its fields."""
