"""shapes_referring: masks in the generated world, for the subject of a text."""
