"""What each command takes. No command is imported to parse what was typed."""
