"""Propagators that run official code from a checkout that the user names.

The code runs in a process of its own (`checkout_child`): its modules have names such as `model`
and `util`, and nothing of it enters this process.
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
NEEDED: Mapping[Kind, tuple[str, ...]] = {
    "xmem": ("model/network.py", "inference/inference_core.py"),
    "cutie": ("cutie/model/cutie.py", "cutie/inference/inference_core.py"),
}
"""Files that identify a checkout."""
MIN_SIZE = 96  # pixels; the networks read the 30 most similar places of 16 × 16 pixels
MAX_OBJECTS = 255  # labels are bytes


@dataclass(frozen=True, kw_only=True)
class Checkout(Walker):
    """XMem or Cutie from a checkout, started when first used.

    All objects are followed in one propagation, and keep their numbers; objects whose masks overlap
    are followed in different ones, because the networks know one object a pixel. An empty mask
    stays empty. Memory: one frame and the labels in it, and at first the masks once more, besides
    the run-lengths that are returned.
    """

    name: Kind
    repo: Path
    revision: str | None
    """The checkout's commit; None if it is not a git repository."""
    changed: bool | None
    """True if tracked files of it were changed."""
    weights_file: Path
    weights: str
    """A hash of the file."""
    size: int
    """Pixels of the shorter side that frames are brought to."""
    device: str
    timeout: float
    """Seconds that one answer may take, loading included."""

    @cached_property
    def child(self) -> ChildProcess:
        """The process, loaded."""
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
        """Its setting."""
        return (self.device,)

    def prepare(self) -> None:
        """Start the process and load the weights.

        Raises:
            ModelError: the code or the weights cannot be loaded.
        """
        assert self.child is not None, "it raises otherwise"

    def _groups(self, masks: Sequence[BoolArray]) -> list[list[int]]:
        return layers(masks)

    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Iterable[BoolArray]]]:
        try:
            for index, labels in self._labels(video, order, masks):
                yield index, map(partial(np.equal, labels), range(1, len(masks) + 1))
        except ModelError:
            self.__dict__.pop("child", None)  # what failed is not asked again
            raise

    def _labels(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Labels]]:
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
    """Return the numbers of the masks that are not empty, in groups without overlap."""
    groups: list[tuple[list[int], BoolArray]] = []
    for index, mask in enumerate(masks):
        if not mask.any():
            continue
        for members, covered in groups:
            if len(members) < MAX_OBJECTS and not (covered & mask).any():
                members.append(index)
                covered |= mask
                break
        else:
            groups.append(([index], mask.copy()))
    return [members for members, _ in groups]


def find_checkout(
    kind: Kind, repo: Path, weights: Path, *, size: int, device: str, timeout: float
) -> Checkout:
    """The propagator, after its checkout and its weights were looked at.

    Raises:
        MissingDependency: there is no such folder or file.
        UsageError: the folder is a checkout of something else, or a number is out of range.
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
    git = (repo / ".git").exists()  # else git would look at what lies around the folder
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
    lacking = [path for path in NEEDED[kind] if not (repo / path).is_file()]
    if not lacking:
        return
    others = [
        name for name, paths in NEEDED.items() if all((repo / path).is_file() for path in paths)
    ]
    raise UsageError(
        f"{kind}(repo={repo})",
        expected=f"a checkout of {SOURCES[kind]}, with {lacking[0]}",
        found=f"one of {SOURCES[others[0]]}" if others else "a folder without it",
        fix=f"Use propagator={others[0]}(…)." if others else "",
    )
