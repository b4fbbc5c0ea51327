"""ReVOS: segment the referents of an expression or a question, in every frame."""
