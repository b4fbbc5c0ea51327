"""Group-relative policy optimisation on TRL: what the methods that train with it share."""
