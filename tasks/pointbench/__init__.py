"""PointBench (PointArena): point at what a question asks for, once or at every instance."""
