"""The node `ocr`: PP-OCR by the package rapidocr, whose wheel holds the weights."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np

from harness.media import Media
from harness.node import Kind, Node, NodeKind, Output, Word, Words
from harness.plugins import missing_dependency
from harness.types import Box


@dataclass(frozen=True, kw_only=True)
class OCR(Node):
    """Text of each described frame, line by line."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.WORDS, summary="text in the image")
    threshold: float
    package: str
    """Version of rapidocr, which decides the weights."""
    _held: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    name = "ocr"

    def prepare(self) -> None:
        """Load the networks."""
        self._engine()

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Words:
        """Read the described frames."""
        found: list[Word] = []
        engine = self._engine()
        for index in indices:
            read = engine(np.ascontiguousarray(media.frame(index)[..., ::-1]))
            for corners, text, score in zip(
                *([] if part is None else part for part in (read.boxes, read.txts, read.scores)),
                strict=True,
            ):
                if score >= self.threshold:
                    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
                    box = Box(float(left), float(top), float(right), float(bottom))
                    found.append(Word(index, box, str(text), float(score)))
        return Words(tuple(found))

    def _engine(self) -> Any:
        with self._lock:
            if not self._held:
                from rapidocr import RapidOCR

                self._held["engine"] = RapidOCR(params={"Global.log_level": "error"})
        return self._held["engine"]


def ocr(*, threshold: float = 0.5) -> OCR:
    """Text by PP-OCR (Apache-2.0), whose weights come with the package rapidocr.

    Args:
        threshold: Least score of a line.

    Raises:
        MissingDependency: the extra `ocr` is not installed.
    """
    try:
        import onnxruntime  # noqa: F401 - rapidocr runs its networks by it
        import rapidocr  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_dependency("node ocr", error) from error
    return OCR(threshold=threshold, package=version("rapidocr"))
