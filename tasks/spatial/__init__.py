"""Shared code of the benchmarks of spatial and temporal questions: responses, tables and videos."""
