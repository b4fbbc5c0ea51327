"""STI-Bench: precise questions on space and time in videos of desktops, rooms and streets."""
