"""XMem from a local checkout of its official code."""

from pathlib import Path

from harness.models.propagators.checkout import Checkout, find_checkout


def xmem(
    *, repo: Path, weights: Path, size: int = 480, device: str = "auto", timeout: float = 600.0
) -> Checkout:
    """XMem (Cheng, Schwing, ECCV 2022), VideoSeg-R1's propagator, from a checkout of its code.

    Its settings are those of the official evaluation: a memory frame in five, long-term memory,
    the 30 most similar places.

    Args:
        repo: A folder with https://github.com/hkchengrex/XMem, whose code is run in a separate
            process.
        weights: Such as XMem.pth of its releases; read without unpickling.
        size: Pixels of the shorter side that frames are brought to.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        timeout: Seconds that the process may take for one frame, or to load.

    Raises:
        MissingDependency: there is no such folder or file.
        UsageError: the folder is a checkout of something else, or a number is out of range.
    """
    return find_checkout("xmem", repo, weights, size=size, device=device, timeout=timeout)
