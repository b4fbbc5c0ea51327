"""Boards, comparison and the gate."""

if not __name__.startswith("harness."):
    raise ImportError(f"import harness.{__name__}, not {__name__}: the package is harness")
