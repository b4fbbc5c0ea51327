"""ReasonVOS: segment what an expression of world knowledge or of motion means, in every frame."""
