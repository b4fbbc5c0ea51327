"""The propagator `cutie`: Cutie from a local checkout of its official code."""

from pathlib import Path

from harness.models.propagators.checkout import Checkout, find_checkout


def cutie(
    *, repo: Path, weights: Path, size: int = 480, device: str = "auto", timeout: float = 600.0
) -> Checkout:
    """Cutie (Cheng et al., CVPR 2024), XMem's successor, from a checkout of its official code.

    The settings are those of the official evaluation on DAVIS: every fifth frame is a memory
    frame, there are at most five of them, and each place reads the 30 most similar places. The
    weights tell the base network from the small one.

    Args:
        repo: A checkout of https://github.com/hkchengrex/Cutie; its code runs in a separate
            process.
        weights: A weights file such as cutie-base-mega.pth of its releases; it is read without
            unpickling.
        size: Frames with a longer shorter side are shrunk to this many pixels.
        device: `cuda:1`, `cpu`, …; `auto`: CUDA if there is a GPU, else the CPU.
        timeout: Longest time in seconds for one frame, or to load.

    Raises:
        MissingDependency: the folder or the file does not exist.
        UsageError: the folder is another project's checkout, or a number is out of range.
    """
    return find_checkout("cutie", repo, weights, size=size, device=device, timeout=timeout)
