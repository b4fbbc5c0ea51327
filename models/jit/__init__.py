"""JiT: just-in-time digital twins, without training."""
