"""Programs of other people: run in their own environment, spoken to through files."""
