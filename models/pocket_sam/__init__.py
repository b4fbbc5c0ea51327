"""pocket-sam: a small SAM 2 that this project trained on the generated world, and ships."""

from pathlib import Path

from harness.models.backends import sam2
from harness.models.backends.checkpoint_part import CheckpointFiles

NAME = "pocket-sam"
FOLDER = Path(__file__).parent
"""Folder of the weights, for `from_pretrained`."""


def find_checkpoint(checkpoint: str | None, *, memory: bool) -> CheckpointFiles:
    """Return the checkpoint in a folder, or the shipped one; raises as `sam2.find_checkpoint`."""
    if checkpoint is None:
        return sam2.find_checkpoint(str(FOLDER), memory=memory, name=NAME)
    return sam2.find_checkpoint(checkpoint, memory=memory)
