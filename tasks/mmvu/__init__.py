"""MMVU: expert questions on videos of 27 subjects, with options and without."""
