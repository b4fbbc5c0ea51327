"""JiTBench (Shen et al., 2025): masks in every frame for the objects of an implicit question.

The records are read as those of RVTBench, by another mapping; three levels, three categories.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.segmentation import PROTOCOLS, segmentation_task

DEFAULT_MAPPING = Path(__file__).parent / "mapping.toml"


def jitbench(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "rvos/mevis",
    mapping: Path | None = None,
) -> Task:
    """One sample per question.

    Args:
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    return segmentation_task(
        data,
        "jitbench",
        scoring=scoring,
        split=split,
        mapping=mapping,
        benchmark="jitbench",
        default=DEFAULT_MAPPING,
    )
