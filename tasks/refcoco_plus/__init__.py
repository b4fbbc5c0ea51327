"""RefCOCO+: segment or box the referent of an expression without words of place."""
