"""Read what a response states: one vocabulary of numbers and times, and one of options' letters.

Every reader of ours gives the value that is stated, or a failure; never another value. What is not
known to be a spelling of the value is a failure, and so is what can be read in two ways. Official
readers of benchmarks are not here: theirs is their own rule. docs/reading-responses.md shows both.
"""
