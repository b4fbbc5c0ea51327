"""A stand-in of XMem's official code, which a configuration names as a folder.

XMem is not in a package: `propagators.xmem` runs the code of a checkout. The checkout that is
written here has the same interface; its propagation returns the masks it was given.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.models.propagators.checkout import Checkout, Kind

XMEM_FILES = {
    "model/__init__.py": "",
    "inference/__init__.py": "",
    "model/resnet.py": """\
def resnet18(pretrained=True, extra_dim=0):
    return None


def resnet50(pretrained=True, extra_dim=0):
    return None
""",
    "model/network.py": """\
class XMem:
    def __init__(self, config):
        self.sizes = config["key_dim"], config["value_dim"], config["hidden_dim"]

    def load_weights(self, weights, init_as_zero_if_needed):
        pass

    def to(self, device):
        return self

    def eval(self):
        return self
""",
    "inference/inference_core.py": """\
import torch


class InferenceCore:
    def __init__(self, network, config):
        self.mask = None

    def set_all_labels(self, labels):
        self.labels = labels

    def step(self, image, mask=None, valid_labels=None, end=False):
        self.mask = self.mask if mask is None else mask
        return torch.cat([0.5 * (1 - self.mask.sum(0, keepdim=True)), self.mask])
""",
}
"""Text of each file of the checkout, by its path."""
WEIGHT_SHAPES = {
    "key_proj.key_proj.weight": (64, 8, 1, 1),
    "value_encoder.fuser.block2.conv2.weight": (512, 8, 1, 1),
    "decoder.hidden_update.transform.weight": (192, 8, 1, 1),
}
"""Shapes of the weights by which the official code infers its sizes."""


def replace_checkouts(folder: Path) -> None:
    """Make `xmem` use the stand-in if the folder that a SPEC names does not exist."""
    xmem: Any = import_module("harness.models.propagators.xmem")
    find = xmem.find_checkout

    def find_checkout(
        kind: Kind, repo: Path, weights: Path, *, size: int, device: str, timeout: float
    ) -> Checkout:
        if not repo.is_dir():
            repo, weights = write_checkout(folder)
        checkout: Checkout = find(kind, repo, weights, size=size, device=device, timeout=timeout)
        return checkout

    xmem.find_checkout = find_checkout


def write_checkout(folder: Path) -> tuple[Path, Path]:
    """Write the stand-in's code and weights, unless they are there; return their paths."""
    repo, weights = folder / "XMem", folder / "XMem.pth"
    for name, text in XMEM_FILES.items():
        write_once(repo / name, partial(Path.write_text, data=text, encoding="utf-8"))

    def save(path: Path) -> None:
        torch: Any = import_module("torch")
        torch.save({name: torch.zeros(shape) for name, shape in WEIGHT_SHAPES.items()}, path)

    write_once(weights, save)
    return repo, weights


def write_once(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file unless it is there; several processes may do so at once."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        write(part)
        part.replace(path)
