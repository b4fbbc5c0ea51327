"""Code that a model wrote, run where it can reach nothing: `pool.open_sandbox`."""
