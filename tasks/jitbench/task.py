"""JiTBench (Shen et al., 2025): masks in every frame for the objects of an implicit question.

The records are read as those of RVTBench, by another mapping; three levels, three categories.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.segmentation import PROTOCOLS, masks_target
from harness.tasks.rvtbench.task import Source, build, mapped
from harness.types import AnswerForm

__all__ = ["PROTOCOLS", "jitbench"]

DEFAULT = Path(__file__).parent / "mapping.toml"


def jitbench(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "rvos/mevis",
    mapping: Path | None = None,
) -> Task:
    """One sample a question.

    Args:
        data: The folder that holds one folder a benchmark.
        split: All of it.
        protocol: `rvos/mevis`.
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root, known = mapped(data, "jitbench", mapping, DEFAULT)
    source = Source(
        name="jitbench",
        root=root,
        mapping=known,
        kind="segmentation",
        form=AnswerForm.MASK_TRACK,
        ground_truth=masks_target,
    )
    return build(source, split=split, protocol=scoring)
