"""LISA by its `chat.py`, which is asked with each image and phrase; images only."""

from protocol import Files, apart, converse, noted

# isort: split
import chat
from model.LISA import LISAForCausalLM

files, emitted = Files(), noted(LISAForCausalLM, apart)
converse(files, chat.main, emitted, prompt="{} Please output segmentation mask.")
