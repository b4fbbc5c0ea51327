"""RVTBench, VQA (Shen et al., 2025): questions about a video that are answered in words.

The records, and the mapping that they are read by, are those of `harness.tasks.rvtbench`.
"""

from pathlib import Path
from typing import Literal

from harness.task import Task, choose
from harness.tasks.rvtbench.task import Source, build, mapped
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
    """One sample a question that is answered in words.

    Args:
        data: The folder that holds one folder a benchmark.
        split: All of it.
        protocol: `rvtbench/text`, `rvtbench/text_simple` without Java, or `rvtbench/choice`, which
            shows the records' options and asks for a letter.
        mapping: A TOML file that says how the records are read; see docs/tasks/rvtbench.md.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root, known = mapped(data, "rvtbench", mapping)
    if protocol == CHOICE.name:
        source = Source(
            name="rvtbench_vqa",
            root=root,
            mapping=known,
            kind="vqa",
            form=AnswerForm.CHOICE,
            ground_truth=choice_target,
            options=options_of,
        )
    else:
        source = Source(
            name="rvtbench_vqa",
            root=root,
            mapping=known,
            kind="vqa",
            form=AnswerForm.TEXT,
            ground_truth=text_target,
        )
    return build(source, split=split, protocol=scoring)
