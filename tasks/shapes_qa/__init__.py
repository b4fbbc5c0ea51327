"""shapes_qa: questions about the generated world, answered by a choice or a number."""
