"""Video-STR: spatio-temporal questions answered in words; Video-R1 and SpaceR share its code."""
