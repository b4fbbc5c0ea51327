"""MeViS: segment the referents of an expression about motion, in every frame."""
