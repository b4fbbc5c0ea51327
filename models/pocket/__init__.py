"""pocket: a small Qwen2.5-VL that this project trained on the generated world, and ships."""

from pathlib import Path

FOLDER = Path(__file__).parent / "checkpoint"
"""The weights, for `from_pretrained`."""
BASE = Path(__file__).parent / "base"
"""An earlier checkpoint of the same training, which has room to learn."""
