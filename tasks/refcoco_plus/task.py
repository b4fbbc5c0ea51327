"""RefCOCO+ (Yu et al., 2016): as RefCOCO, but words of place were forbidden."""

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
        answer: `box` turns a protocol of `res/` into the one of `rec/`.
        split_by: Who divided the data: only UNC did.
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
