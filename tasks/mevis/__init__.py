"""MeViS: segment what an expression about motion refers to, in every frame."""
