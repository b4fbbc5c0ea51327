"""The perception node `ocr`: PP-OCR by the package rapidocr, whose wheel holds the weights."""

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
    """Reads the text of each described frame, line by line, with boxes in pixels."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.WORDS, summary="text in the image")
    threshold: float
    """Smallest score of a line."""
    package: str
    """Version of rapidocr, which determines the weights."""

    name = "ocr"

    def prepare(self) -> None:
        """Load the networks."""
        assert self.engine is not None, "loading raises otherwise"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Words:
        """Read the described frames."""
        lines: list[Word] = []
        for index in indices:
            result = self.engine(np.ascontiguousarray(media.frame(index)[..., ::-1]))
            if result.boxes is None:  # there is no text
                continue
            for corners, text, score in zip(result.boxes, result.txts, result.scores, strict=True):
                if score >= self.threshold:
                    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
                    box = Box(float(left), float(top), float(right), float(bottom))
                    lines.append(Word(index, box, str(text), float(score)))
        return Words(tuple(lines))

    @loaded_once
    def engine(self) -> Any:
        """The networks; called with a BGR image, it returns boxes, texts and scores."""
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
