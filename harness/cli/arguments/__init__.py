"""Arguments of the commands. No command is imported to parse its arguments."""
