"""What the benchmarks of spatial and temporal questions share: replies, tables and videos."""
