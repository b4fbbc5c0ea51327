"""Propagators that run official code from a local checkout: the class behind `xmem` and `cutie`.

The code runs in a separate process (`checkout_child`), because its modules have general names such
as `model` and `util`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from harness.errors import MissingDependency, ModelError, UsageError
from harness.masks import BoolArray
from harness.media import Media
from harness.models.child_process import ChildProcess
from harness.models.factory import at_least
from harness.models.propagators.cores import Labels
from harness.models.propagators.walks import Walker
from harness.provenance import code_revision

Kind: TypeAlias = Literal["xmem", "cutie"]

SOURCES: Mapping[Kind, str] = {
    "xmem": "https://github.com/hkchengrex/XMem",
    "cutie": "https://github.com/hkchengrex/Cutie",
}
"""Repositories, for errors."""
IDENTIFYING_FILES: Mapping[Kind, tuple[str, ...]] = {
    "xmem": ("model/network.py", "inference/inference_core.py"),
    "cutie": ("cutie/model/cutie.py", "cutie/inference/inference_core.py"),
}
"""Files that identify a checkout."""
MIN_SIZE = 96  # pixels; the networks need at least 30 cells of 16 × 16 pixels, the number they read
MAX_OBJECTS = 255  # labels are bytes


@dataclass(frozen=True, kw_only=True)
class Checkout(Walker):
    """XMem or Cutie from a checkout; its process starts at the first use.

    All objects share one propagation. Only objects whose masks overlap need separate propagations,
    because the networks assign one object to each pixel. An empty mask stays empty. Memory: one
    frame and its labels, a copy of the start masks, and the run-lengths of the result.
    """

    name: Kind
    repo: Path
    revision: str | None
    """The checkout's commit; None if it is not a git repository."""
    changed: bool | None
    """True if tracked files of the checkout were changed; None without git."""
    weights_file: Path
    weights: str
    """Hash of the weights file."""
    size: int
    """Shorter side in pixels of the resized frames."""
    device: str
    timeout: float
    """Longest time in seconds for one answer of the process, also while it loads."""

    @cached_property
    def child(self) -> ChildProcess:
        """The process, with the network loaded."""
        child = ChildProcess(
            "harness.models.propagators.checkout_child",
            f"{self.name} from {self.repo}",
            timeout=self.timeout,
        )
        child.ask(
            {
                "kind": self.name,
                "repo": str(self.repo.resolve()),
                "size": self.size,
                "weights": str(self.weights_file.resolve()),
                "device": self.device,
            }
        )
        return child

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of the process."""
        return (self.device,)

    def prepare(self) -> None:
        """Start the process and load the weights.

        Raises:
            ModelError: the code or the weights cannot be loaded.
        """
        assert self.child is not None, "starting it raises otherwise"

    def _groups(self, masks: Sequence[BoolArray]) -> list[list[int]]:
        """Return the indices of the masks of each propagation."""
        return layers(masks)

    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Iterable[BoolArray]]]:
        """Yield (index, masks of all objects) of each frame after the first, in order."""
        try:
            for index, labels in self._labels(video, order, masks):
                # object k has the label k; masks are made one by one
                yield index, map(partial(np.equal, labels), range(1, len(masks) + 1))
        except ModelError:
            self.__dict__.pop("child", None)  # the next propagation starts a new process
            raise

    def _labels(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Labels]]:
        """Send masks and frames to the process; yield the labels of each frame after the first.

        Raises:
            ModelError: the process fails, or its labels do not have the video's size.
        """
        child, shape = self.child, (video.size[1], video.size[0])
        with child.lock:
            head = {"what": "masks", "shape": (len(masks), *shape), "frames": len(order)}
            child.ask(head, np.stack(masks).view(np.uint8).reshape(-1).data)
            for index in order:
                frame = np.ascontiguousarray(video.frame(index))
                header = {"what": "frame", "shape": frame.shape, "last": index == order[-1]}
                _, labels = child.ask(header, frame.tobytes())
                if len(labels) != shape[0] * shape[1]:
                    raise ModelError(
                        child.what,
                        expected=f"labels of {shape[0]} × {shape[1]} pixels",
                        found=f"{len(labels)} of them",
                    )
                if index != order[0]:
                    yield index, np.frombuffer(labels, np.uint8).reshape(shape)


def layers(masks: Sequence[BoolArray]) -> list[list[int]]:
    """Group the masks that are not empty so that none overlap within a group; return indices."""
    groups: list[tuple[list[int], BoolArray]] = []
    for index, mask in enumerate(masks):
        if not mask.any():
            continue
        for members, covered in groups:
            if len(members) < MAX_OBJECTS and not (covered & mask).any():
                members.append(index)
                covered |= mask
                break
        else:  # it overlaps every group
            groups.append(([index], mask.copy()))
    return [members for members, _ in groups]


def find_checkout(
    kind: Kind, repo: Path, weights: Path, *, size: int, device: str, timeout: float
) -> Checkout:
    """Check the checkout and its weights, and return the propagator.

    Raises:
        MissingDependency: the folder or the file does not exist.
        UsageError: the folder is another project's checkout, or a number is out of range.
    """
    at_least(kind, MIN_SIZE, size=size)
    if not timeout > 0:
        raise UsageError(f"{kind}(timeout=…)", expected="more than 0", found=str(timeout))
    if not repo.is_dir():
        raise MissingDependency(
            f"{kind}(repo={repo})",
            expected=f"a checkout of {SOURCES[kind]}",
            found="no such folder",
            fix=f"git clone {SOURCES[kind]}",
        )
    _check_known(kind, repo)
    if not weights.is_file():
        raise MissingDependency(
            f"{kind}(weights={weights})",
            expected="a file of weights",
            found="no such file",
            fix=f"The releases of {SOURCES[kind]} hold them.",
        )
    git = (repo / ".git").exists()  # without it, git would describe a repository around the folder
    revision, changed = code_revision(repo) if git else (None, None)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return Checkout(
        name=kind,
        repo=repo,
        revision=revision,
        changed=changed,
        weights_file=weights,
        weights=digest,
        size=size,
        device=device,
        timeout=timeout,
    )


def _check_known(kind: Kind, repo: Path) -> None:
    """Raise UsageError if the folder lacks the files that identify a checkout of `kind`."""
    missing = [path for path in IDENTIFYING_FILES[kind] if not (repo / path).is_file()]
    if not missing:
        return
    others = [
        name
        for name, paths in IDENTIFYING_FILES.items()
        if all((repo / path).is_file() for path in paths)
    ]
    raise UsageError(
        f"{kind}(repo={repo})",
        expected=f"a checkout of {SOURCES[kind]}, with {missing[0]}",
        found=f"one of {SOURCES[others[0]]}" if others else "a folder without it",
        fix=f"Use propagator={others[0]}(…)." if others else "",
    )
