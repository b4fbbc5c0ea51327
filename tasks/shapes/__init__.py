"""What the benchmarks in the generated world's own layout share."""
