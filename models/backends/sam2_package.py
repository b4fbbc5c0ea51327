"""SAM 2 through its authors' package `sam2`, from one of its configurations and a `.pt` file.

Nothing is unpickled: weights are read with `weights_only=True`. The package's operator for CUDA,
which fills small holes of masks in videos, is not used: masks are those of a CPU everywhere, and
those of transformers.
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
from harness.models.backends.checkpoint_part import CheckpointFiles, place
from harness.models.backends.loading import check_report, loading, memory
from harness.models.backends.torchvision_cpu import ensure_torchvision

if TYPE_CHECKING:
    from torch import Tensor

IMAGES = "sam2.modeling.sam2_base.SAM2Base"
VIDEOS = "sam2.sam2_video_predictor.SAM2VideoPredictor"

HUB_PARTS = 3
"""Owner, repository and file."""
STABLE: Mapping[str, object] = {
    "dynamic_multimask_via_stability": True,
    "dynamic_multimask_stability_delta": 0.05,
    "dynamic_multimask_stability_thresh": 0.98,
}
"""Settings that the package's own builders add to every configuration of the mask decoder."""


def configurations() -> dict[str, Path]:
    """The package's configurations by their names, such as `sam2.1_hiera_l`.

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
        path.stem: path for part in ("sam2", "sam2.1") for path in folder.glob(f"{part}/*.yaml")
    }


def find_checkpoint(
    plugin: str, checkpoint: str | None, *, config: str
) -> tuple[CheckpointFiles, str]:
    """A file of weights, looked at and not loaded, and the name of its configuration.

    Args:
        plugin: What errors call the caller.
        checkpoint: A `.pt` file of the package's, such as sam2.1_hiera_large.pt, or one of a
            repository on the hub that lies in its cache:
            facebook/sam2-hiera-large/sam2_hiera_large.pt.
        config: The name of a configuration, or its path in the package.

    Raises:
        MissingDependency: the package is not installed.
        UsageError: it has no such configuration, or no checkpoint is given.
        ModelError: there is no such file.
    """
    known = configurations()
    name = config.rpartition("/")[2].removesuffix(".yaml")
    if name not in known:
        raise UsageError(
            f"{plugin}(config=…)", expected=", ".join(sorted(known)), found=repr(config)[:80]
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
    """A network of the package, `IMAGES` or `VIDEOS`, in evaluation mode, on its device.

    Raises:
        ModelError: its weights are not exactly those of the configuration, or it holds none.
        OutOfMemory: it does not fit on the device.
    """
    name = checkpoint.name
    with loading(f"checkpoint {name}"):
        network = empty_network(kind, config=config)
        missing, unexpected = network.load_state_dict(weights(checkpoint), strict=False)
    check_report(f"checkpoint {name}", {"missing_keys": missing, "unexpected_keys": unexpected})
    with memory():
        return network.to(place(device)).eval()


def empty_network(kind: str, *, config: str) -> Any:
    """Return a network of the package, `IMAGES` or `VIDEOS`, with random weights."""
    ensure_torchvision()
    instantiate = import_module("hydra.utils").instantiate
    plain = import_module("omegaconf").OmegaConf.load(configurations()[config])
    plain.model._target_ = kind
    plain.model.sam_mask_decoder_extra_args = dict(STABLE)
    return instantiate(plain.model, _recursive_=True)


def weights(checkpoint: Path) -> dict[str, "Tensor"]:
    """The tensors of a `.pt` file; nothing in it is run.

    Raises:
        ModelError: it is cut, holds more than tensors, or lacks the table `model`.
    """
    import torch

    what, expected = f"checkpoint {checkpoint.name}", "a whole .pt file of nothing but tensors"
    damaged = pickle.UnpicklingError, EOFError, OSError, RuntimeError, ValueError
    fix = "Fetch it again from its authors; it may have been cut off."
    with raised_as(ModelError, what, expected, *damaged, fix=fix):
        whole = torch.load(checkpoint, map_location="cpu", weights_only=True)
    table = whole.get("model") if isinstance(whole, dict) else None
    if not isinstance(table, dict):
        raise ModelError(what, expected="a table of weights called 'model'", found="none")
    return table


def precision(network: Any, dtype: str) -> AbstractContextManager[object]:
    """Return a context in which a network of the package computes in `dtype`."""
    import torch

    if dtype in ("auto", "float32"):
        return nullcontext()
    return torch.autocast(network.device.type, dtype=getattr(torch, dtype))
