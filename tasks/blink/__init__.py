"""BLINK: fourteen tasks of perception, with one to four images a question."""
