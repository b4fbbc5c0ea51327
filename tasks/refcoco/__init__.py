"""RefCOCO: segment or box the referent of a short expression."""
