"""Video-STR: spatio-temporal questions answered in words; what its relatives share is here."""
