"""Zero-shot Qwen2.5-VL and Qwen3-VL: asked for boxes, segmented by something else."""
