"""Readers of the value that a response states: a letter, a number, an interval, yes or no.

`strict` protocols, grammars and rewards call them. A reader returns the value that is stated or
raises ParseError: an unknown spelling is a failure, and so is a text that can be read in two ways.
Official readers of benchmarks are in `harness.metrics`. docs/reading-responses.md shows both.
"""
