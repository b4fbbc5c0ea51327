"""Metrics that need a network; they are in this room so that scoring imports no framework."""
