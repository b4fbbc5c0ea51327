"""pocket: a small Qwen2.5-VL that this project trained on the generated world, and ships."""

from harness.models.backends.checkpoint import SHIPPED

FOLDER = SHIPPED["pocket"]
"""Folder of the weights, for `from_pretrained`."""
BASE = SHIPPED["pocket-base"]
"""An earlier checkpoint of the same training, which has room to learn."""
