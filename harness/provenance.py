"""What a run was made with: code, packages, machine. Nothing here reads a clock."""

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import harness

PACKAGES = (
    "visual-reasoning-harness", "av", "numpy", "opencv-python-headless", "pillow", "pycocotools",
    "scipy", "torch", "torchvision", "transformers", "accelerate", "peft", "trl", "safetensors",
    "sam2", "lmms-eval", "vllm", "pycocoevalcap", "bert-score",
)  # fmt: skip
SCORING = frozenset({"pycocoevalcap", "bert-score"})
"""Packages that change scores but no prediction."""


def collect() -> dict[str, Any]:
    """Commit, package versions, interpreter and platform, as plain data."""
    commit, dirty = code_revision(Path(harness.__file__).resolve().parent)
    return {
        "commit": commit,
        "dirty": dirty,
        "packages": packages(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device(),
    }


def packages() -> dict[str, str]:
    """Versions of the packages that can change a score, as far as they are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def code_revision(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether tracked files are changed) of the checkout that holds the code."""
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
    """The accelerator, if torch was loaded and sees one; else "cpu"."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return "cpu"
