"""Load SAM 2 by its authors' package `sam2`, from one of its configurations and a `.pt` file.

The segmenter and the propagator of that package use it. Loading runs no code of the file: weights
are read with `weights_only=True`. The package's CUDA operator, which fills small holes of masks in
videos, is not used, so that masks are the same on a CPU, on a GPU, and by transformers.
"""

import hashlib
import pickle
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import MissingDependency, ModelError, UsageError, raised_as
from harness.models.backends import checkpoint as hub
from harness.models.backends.checkpoint_part import CheckpointFiles, resolve_device
from harness.models.backends.loading import check_report, loading, memory
from harness.models.backends.torchvision_cpu import ensure_torchvision

if TYPE_CHECKING:
    from torch import Tensor

IMAGES = "sam2.modeling.sam2_base.SAM2Base"
VIDEOS = "sam2.sam2_video_predictor.SAM2VideoPredictor"
"""The package's classes of networks for still images, and for videos."""

HUB_PARTS = 3  # of "owner/repository/file.pt"
DECODER_SETTINGS: Mapping[str, object] = {
    "dynamic_multimask_via_stability": True,
    "dynamic_multimask_stability_delta": 0.05,
    "dynamic_multimask_stability_thresh": 0.98,
}
"""Settings that the package's own builders add to every configuration of the mask decoder."""


def configurations() -> dict[str, Path]:
    """Return the files of the package's configurations by name, such as `sam2.1_hiera_l`.

    Raises:
        MissingDependency: the package is not installed.
    """
    package = find_spec("sam2")
    if package is None or not package.submodule_search_locations:
        raise MissingDependency(
            "package sam2",
            expected="it for config=",
            found="it is not installed",
            fix='pip install "visual-reasoning-harness[sam2]", or leave config= out and name a '
            "checkpoint in transformers' format.",
        )
    folder = Path(package.submodule_search_locations[0]) / "configs"
    return {
        path.stem: path
        for release in ("sam2", "sam2.1")
        for path in folder.glob(f"{release}/*.yaml")
    }


def find_checkpoint(
    plugin: str, checkpoint: str | None, *, config: str
) -> tuple[CheckpointFiles, str]:
    """Return a file of weights with its hash, and the name of its configuration.

    Args:
        plugin: Name of the plugin that asks, for errors.
        checkpoint: Path of a `.pt` file of the package, such as sam2.1_hiera_large.pt, or
            owner/repository/file of one in the local cache of the hub, such as
            facebook/sam2-hiera-large/sam2_hiera_large.pt.
        config: Name of a configuration, or its path in the package.

    Raises:
        MissingDependency: the package is not installed.
        UsageError: it has no such configuration, or `checkpoint` is None.
        ModelError: there is no such file.
    """
    names = configurations()
    name = config.rpartition("/")[2].removesuffix(".yaml")
    if name not in names:
        raise UsageError(
            f"{plugin}(config=…)", expected=", ".join(sorted(names)), found=repr(config)[:80]
        )
    if checkpoint is None:
        raise UsageError(
            f"{plugin}(config={name})",
            expected="checkpoint=, a .pt file of that network",
            found="none",
        )
    path = Path(checkpoint)
    if not path.is_file() and len(path.parts) == HUB_PARTS and not path.is_absolute():
        path = hub.find(str(path.parent)) / path.name
    if not path.is_file():
        raise ModelError(
            f"checkpoint {checkpoint}",
            expected="a .pt file of SAM 2",
            found="no such file",
            fix="Name one on the hub as facebook/sam2-hiera-large/sam2_hiera_large.pt, after "
            "`hf download` has fetched it. Without config=, a folder or a name in transformers' "
            "format is taken.",
        )
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16))
    files = CheckpointFiles(checkpoint=path.name, weights=digest.hexdigest(), files="", folder=path)
    return files, name


def build_network(kind: str, checkpoint: Path, *, config: str, device: str) -> Any:
    """Return a network of the package in evaluation mode on a device; `kind`: `IMAGES` or `VIDEOS`.

    Raises:
        ModelError: the file's weights are missing, or not exactly those of the configuration.
        OutOfMemory: it does not fit on the device.
    """
    name = checkpoint.name
    with loading(f"checkpoint {name}"):
        network = empty_network(kind, config=config)
        missing, unexpected = network.load_state_dict(weights(checkpoint), strict=False)
    check_report(f"checkpoint {name}", {"missing_keys": missing, "unexpected_keys": unexpected})
    with memory():
        return network.to(resolve_device(device)).eval()


def empty_network(kind: str, *, config: str) -> Any:
    """Return a network of the package, `IMAGES` or `VIDEOS`, with random weights."""
    ensure_torchvision()
    instantiate = import_module("hydra.utils").instantiate
    settings = import_module("omegaconf").OmegaConf.load(configurations()[config])
    settings.model._target_ = kind
    settings.model.sam_mask_decoder_extra_args = dict(DECODER_SETTINGS)
    return instantiate(settings.model, _recursive_=True)


def weights(checkpoint: Path) -> dict[str, "Tensor"]:
    """Return the tensors of a `.pt` file by name; no code in it is run.

    Raises:
        ModelError: the file is truncated, holds more than tensors, or lacks the table `model`.
    """
    import torch

    what, expected = f"checkpoint {checkpoint.name}", "a whole .pt file of nothing but tensors"
    damaged = pickle.UnpicklingError, EOFError, OSError, RuntimeError, ValueError
    fix = "It may be truncated: download it again from its authors."
    with raised_as(ModelError, what, expected, *damaged, fix=fix):
        content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    table = content.get("model") if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise ModelError(what, expected="a table of weights called 'model'", found="none")
    return table


def precision(network: Any, dtype: str) -> AbstractContextManager[object]:
    """Return a context in which a network of the package computes in `dtype`."""
    import torch

    if dtype in ("auto", "float32"):
        return nullcontext()
    return torch.autocast(network.device.type, dtype=getattr(torch, dtype))
