"""Tiny random networks in the real architectures, saved as checkpoints; made once a session."""

import copy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import media
from harness.testing import tiny_checkpoint
from harness.types import AnswerForm, Query, query_id


def saved(factory: pytest.TempPathFactory, family: str, *, seed: int = 0) -> Path:
    """The checkpoint folder of a tiny random network."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return tiny_checkpoint(family, factory.mktemp("checkpoints") / f"tiny-{family}", seed=seed)


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random Qwen2.5-VL."""
    return saved(tmp_path_factory, "qwen2_5_vl")


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random Qwen3-VL."""
    return saved(tmp_path_factory, "qwen3_vl")


@pytest.fixture(scope="session")
def tiny_qwen35(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random Qwen3.5."""
    return saved(tmp_path_factory, "qwen3_5", seed=4)


@pytest.fixture(scope="module", autouse=True)
def networks_are_read_once() -> Iterator[None]:
    """Networks and processors of a checkpoint after the first are copies: a third of a load."""
    try:
        from harness.models.backends import networks
        from harness.models.backends.torchvision_cpu import ensure_torchvision
    except ImportError:  # no torch
        yield
        return
    loader = networks.loader
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(networks, "loader", lambda folder: Once(loader(folder)))
        if "transformers" in sys.modules:  # else nothing of this module reads a checkpoint
            ensure_torchvision()
            import transformers

            patched.setattr(transformers, "AutoProcessor", Once(transformers.AutoProcessor))
        yield


class Once:
    """A class of transformers whose `from_pretrained` reads the same files once."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def from_pretrained(self, folder: Path, **given: Any) -> Any:
        files = sorted((one.name, one.stat().st_mtime_ns) for one in Path(folder).iterdir())
        key = repr((self.kind.__name__, str(folder), files, sorted(given.items())))
        if key not in READ:
            READ[key] = self.kind.from_pretrained(folder, **given)
        return copy.deepcopy(READ[key])


READ: dict[str, Any] = {}
"""What `from_pretrained` gave, by class, checkpoint and settings; never handed out itself."""


@pytest.fixture(scope="session")
def ask() -> Callable[..., Query]:
    """Makes queries about generated images and videos."""

    def made(
        form: AnswerForm | tuple[AnswerForm, ...] = AnswerForm.MASK,
        *,
        size: tuple[int, int] = (120, 90),
        frames: int = 1,
        text: str = "Where is the disc?",
        name: str = "",
        **given: Any,
    ) -> Query:
        images = [image(size, index) for index in range(frames)]
        shown = media.pixels(
            images, times=[index / 4 for index in range(frames)], is_video=frames > 1, id="test"
        )
        forms = form if isinstance(form, tuple) else (form,)
        return Query(id=query_id(name or text), text=text, media=(shown,), forms=forms, **given)

    return made


def image(size: tuple[int, int], step: int) -> Any:
    """A bright disc that moves to the right, on a dark gradient."""
    width, height = size
    rows, columns = np.mgrid[:height, :width]
    frame = np.stack([columns * 40 // width, rows * 40 // height, rows * 0 + 30], axis=2)
    radius = min(size) / 5
    centre = (width * (0.35 + 0.04 * step), height * 0.5)
    frame[(columns - centre[0]) ** 2 + (rows - centre[1]) ** 2 < radius**2] = (220, 180, 60)
    return frame.astype(np.uint8)
