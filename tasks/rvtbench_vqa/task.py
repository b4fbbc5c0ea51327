"""RVTBench, VQA (Shen et al., 2025): questions about a video that are answered in words.

The records, and the mapping that they are read by, are those of `harness.tasks.rvtbench`.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.task import build, no_options
from harness.tasks.rvtbench.text import CHOICE, TEXT, choice_target, options_of, text_target
from harness.types import AnswerForm

PROTOCOLS = {**TEXT, CHOICE.name: CHOICE}


def rvtbench_vqa(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "rvtbench/text",
    mapping: Path | None = None,
) -> Task:
    """One sample per question that is answered in words.

    Args:
        protocol: `rvtbench/text`, `rvtbench/text_simple` without Java, or `rvtbench/choice`, which
            shows the records' options and asks for a letter.
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    chosen = protocol == CHOICE.name
    return build(
        data,
        "rvtbench_vqa",
        "vqa",
        AnswerForm.CHOICE if chosen else AnswerForm.TEXT,
        choice_target if chosen else text_target,
        scoring,
        split=split,
        mapping=mapping,
        options=options_of if chosen else no_options,
    )
