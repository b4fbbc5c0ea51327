"""The index of runs: a database of records and headline numbers, made again from run folders."""
