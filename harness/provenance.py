"""Record of the code, packages and machine of a run, for its manifest.

Nothing here reads a clock: equal runs have equal records.
"""

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = (
    "visual-reasoning-harness",
    "av",
    "numpy",
    "opencv-python-headless",
    "pillow",
    "pycocotools",
    "scipy",
    "torch",
    "torchvision",
    "transformers",
    "accelerate",
    "peft",
    "trl",
    "safetensors",
    "sam2",
    "lmms-eval",
    "vllm",
    "pycocoevalcap",
    "bert-score",
)
"""Packages that can change a prediction or a score; the versions installed are recorded."""
PLUGINS = "plugins"
"""Field of a record with the code of third-party plugins; absent if they have none."""
SCORING_PACKAGES = frozenset({"pycocoevalcap", "bert-score"})
"""Packages that change scores but no prediction."""
CPU, AUTO = "cpu", "auto"
REHEARSAL = "HARNESS_REHEARSAL"
"""Variable of the environment that processes of a rehearsal have (`harness.rehearsal`)."""


def is_rehearsal() -> bool:
    """Return True if this process belongs to a rehearsal: its networks are stand-ins."""
    return REHEARSAL in os.environ


def collect(
    where: str | None = None, *, plugins: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return commit, package versions, interpreter, platform and device, as plain data.

    In a rehearsal it has `"rehearsal": true`.

    Args:
        where: The device; None: that of this process, for which torch is loaded.
        plugins: Code of third-party plugins (`harness.plugin_code`).
    """
    commit, dirty = _own_revision()
    return {
        "commit": commit,
        "dirty": dirty,
        "packages": packages(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device() if where is None else where,
        **({"plugins": dict(plugins)} if plugins else {}),
        **({"rehearsal": True} if is_rehearsal() else {}),
    }


def repeatable(
    made_with: Mapping[str, Any], *, without: Sequence[str] = ("commit", "dirty")
) -> dict[str, Any]:
    """Return the part of a record of `collect` that must be equal for work to be resumed.

    The code of plugins is left out: `harness.plugin_code.code_changes` compares it.

    Args:
        made_with: The record.
        without: Further fields to leave out.
    """
    record = {name: value for name, value in made_with.items() if name not in (*without, PLUGINS)}
    versions = made_with["packages"].items()
    record["packages"] = {
        name: release for name, release in versions if name not in SCORING_PACKAGES
    }
    return record


def packages() -> dict[str, str]:
    """Return the version of each installed package of `PACKAGES`, by name."""
    return {name: release for name in PACKAGES if (release := installed_version(name)) is not None}


@cache  # the files of a package take a millisecond, and a process goes on with what it imported
def installed_version(name: str) -> str | None:
    """Return the version of a package; None: it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def _own_revision() -> tuple[str | None, bool | None]:
    """Return the revision of the code that this process runs, when it first asks."""
    return code_revision(Path(__file__).resolve().parent)


def code_revision(folder: Path) -> tuple[str | None, bool | None]:
    """Return (commit, True if tracked files are changed) of the checkout that holds the code."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        dirty = _git(folder, "status", "--porcelain", "--untracked-files=no", ":/")
    except (OSError, subprocess.SubprocessError):
        return None, None
    return commit, bool(dirty)


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout.strip()


def device() -> str:
    """Return the GPU that this process takes by default, else "cpu". Loads torch if installed."""
    return _device_name(AUTO)


def device_of(devices: Iterable[str]) -> str:
    """Return the names of the GPUs that a model computes on (`Model.devices`), else "cpu".

    The result follows from settings alone, so that it is the same before anything is loaded and
    after. A device is `cpu`, `cuda:1`, or `auto`, which is CUDA where there is a GPU. Torch is
    loaded only where one of them is not the CPU.

    >>> device_of(["cpu"])
    'cpu'
    """
    names = dict.fromkeys(map(_device_name, devices))
    return ", ".join(name for name in names if name != CPU) or CPU


def _device_name(setting: str) -> str:
    """Return the name of a CUDA device, `cpu`, or the name of another kind of device unchanged."""
    device_type, _, index = setting.partition(":")
    if device_type not in (AUTO, "cuda"):
        return CPU if device_type == CPU else setting
    cuda = _cuda()
    if cuda is None:
        return CPU
    if not index:
        return str(cuda.get_device_name())
    exists = index.isdigit() and int(index) < cuda.device_count()
    # The model refuses a device that does not exist, when it is loaded.
    return str(cuda.get_device_name(int(index))) if exists else setting


def _cuda() -> ModuleType | None:
    """Return `torch.cuda` if torch is installed and sees a GPU, else None."""
    try:
        torch = import_module("torch")  # by name: nothing that scores needs it
    except ImportError:
        return None
    cuda: ModuleType = torch.cuda
    return cuda if cuda.is_available() else None
