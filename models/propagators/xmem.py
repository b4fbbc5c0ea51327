"""The propagator `xmem`: XMem from a local checkout of its official code."""

from pathlib import Path

from harness.models.propagators.checkout import Checkout, find_checkout


def xmem(
    *, repo: Path, weights: Path, size: int = 480, device: str = "auto", timeout: float = 600.0
) -> Checkout:
    """XMem (Cheng, Schwing, ECCV 2022), VideoSeg-R1's propagator, from a checkout of its code.

    The settings are those of the official evaluation: every fifth frame is a memory frame, there
    is long-term memory, and each place reads the 30 most similar places.

    Args:
        repo: A checkout of https://github.com/hkchengrex/XMem; its code runs in a separate
            process.
        weights: A weights file such as XMem.pth of its releases; it is read without unpickling.
        size: Shorter side in pixels that all frames are resized to.
        device: `cuda:1`, `cpu`, …; `auto`: CUDA if there is a GPU, else the CPU.
        timeout: Longest time in seconds for one frame, or to load.

    Raises:
        MissingDependency: the folder or the file does not exist.
        UsageError: the folder is another project's checkout, or a number is out of range.
    """
    return find_checkout("xmem", repo, weights, size=size, device=device, timeout=timeout)
