"""Judges: models that compare a free answer with the true one by a rubric."""
