"""RefCOCO-M: the expressions of RefCOCO's validation set with masks that were drawn anew."""
