"""Revisions, each after the one that it names."""
