"""RVTBench, summary (Shen et al., 2025): a summary of a video with regard to a question.

The records, and the mapping that they are read by, are those of `harness.tasks.rvtbench`.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.task import build
from harness.tasks.rvtbench.text import TEXT as PROTOCOLS
from harness.tasks.rvtbench.text import text_target
from harness.types import AnswerForm


def rvtbench_summary(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "rvtbench/text",
    mapping: Path | None = None,
) -> Task:
    """One sample per request for a summary.

    Args:
        protocol: `rvtbench/text`, or `rvtbench/text_simple` without Java.
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    return build(
        data,
        "rvtbench_summary",
        "summary",
        AnswerForm.TEXT,
        text_target,
        scoring,
        split=split,
        mapping=mapping,
    )
