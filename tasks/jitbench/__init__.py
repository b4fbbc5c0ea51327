"""JiTBench: segment the objects of an implicit question, in every frame."""
