"""Methods that adapt a network to each test sample, without its target, before it answers."""
