"""Reasons that two numbers differ, and the parts of one: the same predictions, scored otherwise."""
