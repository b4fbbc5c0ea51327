"""RVTBench, segmentation (Shen et al., 2025): masks in every frame for the subject of a question.

The records, and the mapping that they are read by, are those of `harness.tasks.rvtbench`.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.segmentation import PROTOCOLS, segmentation_task


def rvtbench_seg(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "rvos/mevis",
    mapping: Path | None = None,
) -> Task:
    """One sample per question that asks for masks.

    Args:
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    return segmentation_task(data, "rvtbench_seg", scoring=scoring, split=split, mapping=mapping)
