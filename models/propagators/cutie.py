"""Cutie from a local checkout of its official code."""

from pathlib import Path

from harness.models.propagators.checkout import Checkout, find_checkout


def cutie(
    *, repo: Path, weights: Path, size: int = 480, device: str = "auto", timeout: float = 600.0
) -> Checkout:
    """Cutie (Cheng et al., CVPR 2024), XMem's successor, from a checkout of its official code.

    Its settings are those of the official evaluation on DAVIS: a memory frame in five, at most
    five of them, the 30 most similar places. Base and small networks are told apart by their
    weights.

    Args:
        repo: A folder with https://github.com/hkchengrex/Cutie, whose code is run in a separate
            process.
        weights: Such as cutie-base-mega.pth of its releases; read without unpickling.
        size: Frames whose shorter side has more pixels are shrunk to it inside the network.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        timeout: Seconds that the process may take for one frame, or to load.

    Raises:
        MissingDependency: there is no such folder or file.
        UsageError: the folder is a checkout of something else, or a number is out of range.
    """
    return find_checkout("cutie", repo, weights, size=size, device=device, timeout=timeout)
