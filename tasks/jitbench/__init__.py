"""JiTBench: segment what an implicit question is about, in every frame."""
