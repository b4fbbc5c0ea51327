"""Make `import torchvision` work beside a torch without CUDA, only where it does not.

PyPI's torchvision wheel is built for CUDA. Beside PyTorch's CPU build its compiled operators do
not load, and importing it fails with "operator torchvision::nms does not exist", because it
registers shape functions for operators that were never defined. Then transformers cannot import
its processors. Declaring the two operators is enough; `nms` gets a plain implementation so that
nothing computes with an empty operator.
"""

import importlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.errors import MissingDependency

if TYPE_CHECKING:
    from torch import Tensor
    from torch.library import Library

BROKEN = "operator torchvision::"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@lru_cache
def ensure_torchvision() -> bool:
    """Import torchvision, mending it if its compiled part is missing; whether it was mended.

    Raises:
        MissingDependency: it is not installed, or fails for another reason.
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        raise _missing_torchvision("it is not installed") from error
    except RuntimeError as error:
        if BROKEN not in str(error):
            raise _missing_torchvision(str(error)) from error
    else:
        return False
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # half imported
    _declare()
    importlib.import_module("torchvision")
    return True


def _missing_torchvision(found: str) -> MissingDependency:
    return MissingDependency(
        "torchvision",
        expected="the release that belongs to the installed torch",
        found=found,
        fix='Install both together: pip install "visual-reasoning-harness[torch]"',
    )


@lru_cache(maxsize=1)
def _declare() -> "Library":
    """Declare the operators; the library object must live as long as they are used."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("nms", non_maximum_suppression, "CPU")
    return library


def non_maximum_suppression(boxes: "Tensor", scores: "Tensor", threshold: float) -> "Tensor":
    """Indices of the boxes that stay, by falling score; `boxes` is n × 4 (x1, y1, x2, y2)."""
    import torch

    return torch.tensor(list(_keep_boxes(boxes, scores, threshold)), dtype=torch.int64)


def _keep_boxes(boxes: "Tensor", scores: "Tensor", threshold: float) -> Iterator[int]:
    import torch

    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    order = scores.argsort(descending=True, stable=True)
    while order.numel():
        best, rest = order[0], order[1:]
        yield int(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        shared = (high - low).clamp(min=0).prod(dim=1)
        order = rest[shared / (areas[best] + areas[rest] - shared) <= threshold]
