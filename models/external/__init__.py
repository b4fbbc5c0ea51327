"""External programs: run in their own environment, with files for input and output."""
