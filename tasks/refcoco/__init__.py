"""RefCOCO: segment or box what a short expression refers to."""
