"""Zero-shot Qwen2.5-VL and Qwen3-VL: prompted for boxes, which a segmenter turns into masks."""
