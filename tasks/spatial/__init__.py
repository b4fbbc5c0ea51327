"""Questions of space and time about the generated world, for the writers of fixtures."""
