"""Training methods: each takes a model and tasks, and writes a checkpoint (`harness train`)."""

if not __name__.startswith("harness."):
    raise ImportError(f"import harness.{__name__}, not {__name__}: the package is harness")
