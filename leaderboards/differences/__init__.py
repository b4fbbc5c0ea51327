"""Why two numbers differ, and what a number is made of: the same predictions, scored otherwise."""
