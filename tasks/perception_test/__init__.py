"""Perception Test: questions with three options on short videos."""
