"""Video-STR: spatio-temporal questions answered in words, and the code that its relatives share."""
