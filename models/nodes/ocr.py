"""The node `ocr`: PP-OCR by the package rapidocr, whose wheel holds the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np

from harness.media import Media
from harness.models.backends.loading import loaded_once
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

    name = "ocr"

    def prepare(self) -> None:
        """Load the networks."""
        assert self.engine is not None, "it raises otherwise"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Words:
        """Read the described frames."""
        words: list[Word] = []
        for index in indices:
            result = self.engine(np.ascontiguousarray(media.frame(index)[..., ::-1]))
            for corners, text, score in zip(
                *(
                    [] if part is None else part
                    for part in (result.boxes, result.txts, result.scores)
                ),
                strict=True,
            ):
                if score >= self.threshold:
                    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
                    box = Box(float(left), float(top), float(right), float(bottom))
                    words.append(Word(index, box, str(text), float(score)))
        return Words(tuple(words))

    @loaded_once
    def engine(self) -> Any:
        """The networks."""
        from rapidocr import RapidOCR

        return RapidOCR(params={"Global.log_level": "error"})


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
