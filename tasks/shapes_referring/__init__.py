"""shapes_referring: masks in the generated world, for what a text describes or implies."""
