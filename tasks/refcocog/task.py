"""RefCOCOg (Mao et al., 2016): objects by whole descriptions, made without a game."""

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
        answer: `box` turns a protocol of `res/` into the one of `rec/`.
        split_by: Who divided the data: UMD's splits share no image, and are the usual ones.
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
