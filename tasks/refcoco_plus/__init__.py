"""RefCOCO+: what an expression without words of place refers to."""
