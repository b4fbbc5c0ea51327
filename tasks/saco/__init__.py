"""SA-Co Gold and Silver: every instance of a noun phrase, or none."""
