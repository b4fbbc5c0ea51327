"""Shared code of the benchmarks in the generated world's own layout."""
