"""gRefCOCO: expressions that mean one object, several, or none."""
