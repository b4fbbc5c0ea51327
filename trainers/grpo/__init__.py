"""Group-relative policy optimisation (GRPO): the parts that all methods trained with it share."""
