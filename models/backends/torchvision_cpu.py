"""Make `import torchvision` work beside PyTorch's CPU build, if it fails there.

PyPI's torchvision wheel is built for CUDA. Beside PyTorch's CPU build its compiled operators do
not load, and importing it fails with "operator torchvision::nms does not exist", because it
registers shape functions for operators that were never defined. Then transformers cannot import
its processors. `ensure_torchvision` declares the two operators, which is enough: nothing here uses
them, and calling one raises torch's error "not implemented". Whatever loads a processor calls it.
"""

import importlib
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.errors import MissingDependency

if TYPE_CHECKING:
    from torch.library import Library

MISSING_OPERATOR_MESSAGE = "operator torchvision::"  # part of the error of the failed import
OPERATOR_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@lru_cache
def ensure_torchvision() -> bool:
    """Import torchvision; if its compiled part is missing, declare its operators and return True.

    Raises:
        MissingDependency: it is not installed, or fails for another reason.
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        raise _missing_torchvision("it is not installed") from error
    except RuntimeError as error:
        if MISSING_OPERATOR_MESSAGE not in str(error):
            raise _missing_torchvision(str(error)) from error
    else:
        return False
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # the failed import left it incomplete
    _declare()
    importlib.import_module("torchvision")
    return True


def _missing_torchvision(present: str) -> MissingDependency:
    """Return the error for a torchvision that does not work; `present` says what was found."""
    return MissingDependency(
        "torchvision",
        expected="the release that belongs to the installed torch",
        found=present,
        fix='Install both together: pip install "visual-reasoning-harness[torch]"',
    )


@lru_cache(maxsize=1)
def _declare() -> "Library":
    """Declare the operators; the library object must live as long as they are used."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in OPERATOR_SCHEMAS:
        library.define(schema)
    return library
