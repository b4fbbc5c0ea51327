"""RefCOCO+ (Yu et al., 2016): like RefCOCO, but expressions must not use words for locations."""

from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.refer.scoring import PROTOCOLS
from harness.tasks.refer.task import AnswerKind, Benchmark, Layout, refer

__all__ = ["PROTOCOLS", "refcoco_plus"]

REFCOCO_PLUS = Benchmark(
    name="refcoco_plus", folder="refcoco+", copies="refcocoplus", boxes="RefCOCOplus"
)


def refcoco_plus(
    data: Path,
    *,
    split: Literal["train", "val", "testA", "testB"] = "val",
    protocol: str = "res/expression",
    answer: AnswerKind = "mask",
    split_by: Literal["unc"] = "unc",
    layout: Layout = "auto",
) -> Task:
    """One sample per expression.

    Args:
        split: Split of the expressions: `testA` is about people, `testB` is not.
        protocol: One of the card's; those of `rec/` ask for boxes.
        answer: `box` replaces a protocol `res/…` by its counterpart `rec/…`.
        split_by: Division into splits; there is only UNC's.
        layout: `refer`, `visionreasoner` or `lmms`; `auto` takes the first that is there.
    """
    return refer(
        data,
        REFCOCO_PLUS,
        split=split,
        protocol=protocol,
        answer=answer,
        split_by=split_by,
        layout=layout,
    )
