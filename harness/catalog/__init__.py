"""What plugins offer and need, read from their source: nothing is imported to list them."""
