"""PixMo-Count and CountBench: count the objects of a kind."""
