"""RefCOCOg (Mao et al., 2016): find the object of a full description, written without a game."""

from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.refer.scoring import PROTOCOLS
from harness.tasks.refer.task import AnswerKind, Benchmark, Layout, refer

__all__ = ["PROTOCOLS", "refcocog"]

REFCOCOG = Benchmark(name="refcocog", folder="refcocog", copies="refcocog", boxes="RefCOCOg")


def refcocog(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "val",
    protocol: str = "res/expression",
    answer: AnswerKind = "mask",
    split_by: Literal["umd", "google"] = "umd",
    layout: Layout = "auto",
) -> Task:
    """One sample per expression.

    Args:
        split: Split of the expressions; `google` has no `test`.
        protocol: One of the card's; those of `rec/` ask for boxes.
        answer: `box` replaces a protocol `res/…` by its counterpart `rec/…`.
        split_by: Division into splits; UMD's, whose splits share no image, is the usual one.
        layout: `refer`, `visionreasoner` or `lmms`; `auto` takes the first that is there.
    """
    return refer(
        data,
        REFCOCOG,
        split=split,
        protocol=protocol,
        answer=answer,
        split_by=split_by,
        layout=layout,
    )
