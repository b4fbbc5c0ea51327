"""RefCOCOg: segment or box the referent of a longer expression."""
