"""`shapes`: a generated world of coloured shapes with exact ground truth, and the questions about
it.
"""
