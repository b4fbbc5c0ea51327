"""ReVOS: segment what an expression or a question refers to, in every frame."""
