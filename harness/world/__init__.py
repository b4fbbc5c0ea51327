"""`shapes`: a generated world of coloured shapes with exact truth, and the questions about it."""
