"""RefCOCO (Yu et al., 2016): find the object of a short expression from a two-player game."""

from pathlib import Path
from typing import Literal

from harness.task import Task
from harness.tasks.refer.scoring import PROTOCOLS
from harness.tasks.refer.task import AnswerKind, Benchmark, Layout, refer

__all__ = ["PROTOCOLS", "refcoco"]

REFCOCO = Benchmark(name="refcoco", folder="refcoco", copies="refcoco", boxes="RefCOCO")


def refcoco(
    data: Path,
    *,
    split: Literal["train", "val", "testA", "testB", "test"] = "val",
    protocol: str = "res/expression",
    answer: AnswerKind = "mask",
    split_by: Literal["unc", "google"] = "unc",
    layout: Layout = "auto",
) -> Task:
    """One sample per expression.

    Args:
        split: Split of the expressions; `testA` and `testB` with `unc`, `test` with `google`.
        protocol: One of the card's; those of `rec/` ask for boxes.
        answer: `box` replaces a protocol `res/…` by its counterpart `rec/…`.
        split_by: Division into splits; UNC's is the usual one.
        layout: `refer`, `visionreasoner` or `lmms`; `auto` takes the first that is there.
    """
    return refer(
        data,
        REFCOCO,
        split=split,
        protocol=protocol,
        answer=answer,
        split_by=split_by,
        layout=layout,
    )
