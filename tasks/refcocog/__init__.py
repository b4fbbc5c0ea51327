"""RefCOCOg: what a longer expression refers to."""
