"""RVTBench, grounding (Shen et al., 2025): a box in every frame for the subject of a question.

The records, and the mapping that they are read by, are those of `harness.tasks.rvtbench`.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.boxes import PROTOCOLS, boxes_target
from harness.tasks.rvtbench.task import build
from harness.types import AnswerForm


def rvtbench_grounding(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "rvtbench/boxes",
    mapping: Path | None = None,
) -> Task:
    """One sample per question that asks for boxes.

    Args:
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    return build(
        data,
        "rvtbench_grounding",
        "grounding",
        AnswerForm.BOX_TRACK,
        boxes_target,
        scoring,
        split=split,
        mapping=mapping,
    )
