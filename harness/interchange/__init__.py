"""Answers and predictions as plain JSON: the journal's form, and the form for other programs."""
