"""ReasonSeg's `train`, with the wordings that `reason_seg(split=train)` leaves out.

The files are ReasonSeg's own, at `ROOT/reason_seg/ReasonSeg/train`. `text` of an annotation lists
wordings of one meaning, of which evaluation uses the first. LISA draws wordings anew for each
training step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from harness.task import Task
from harness.tasks.reason_seg.task import read_annotation, reason_seg
from harness.tasks.segmentation.protocols import PROTOCOLS
from harness.types import Sample, query_id
from harness.world.draws import Draws

__all__ = ["PROTOCOLS", "reason_seg_train"]

Texts: TypeAlias = Literal["all", "one", "first"]


def reason_seg_train(
    data: Path,
    *,
    split: Literal["train"] = "train",
    texts: Texts = "all",
    seed: int = 0,
    protocol: str = "seg/lisa",
) -> Task:
    """One sample per wording, or one per image.

    Args:
        texts: `all`; `one` of each image, drawn by `seed`; or the `first`, which is
            `reason_seg(split=train)` by another name.
        seed: Decides which wording `one` takes.
        protocol: One of ReasonSeg's.
    """
    base_task = reason_seg(data, split=split, protocol=protocol, layout="lisa")
    wordings = _Wordings(data / "reason_seg" / "ReasonSeg" / split, texts, seed)
    return replace(
        base_task,
        name="reason_seg_train",
        samples=partial(_samples, base_task, wordings),
        arguments={"split": split, "texts": texts, "seed": seed, "protocol": protocol},
    )


@dataclass(frozen=True, slots=True)
class _Wordings:
    """Choice of the wordings that are asked of each image."""

    folder: Path
    """The folder of annotations."""
    texts: Texts
    seed: int

    def wordings_of(self, stem: str) -> Sequence[tuple[int, str]]:
        """Return (number, wording) of each chosen wording of an image; blank ones are skipped."""
        wordings, _, _ = read_annotation(self.folder / f"{stem}.json")
        numbered = [(number, text.strip()) for number, text in enumerate(wordings) if text.strip()]
        if self.texts == "all":
            return numbered
        if self.texts == "first":
            return numbered[:1]
        return [Draws(self.seed, "training", "reason_seg", stem).choice(numbered)]


def _samples(base_task: Task, wordings: _Wordings) -> Iterator[Sample]:
    """Yield ReasonSeg's samples, each once for every chosen wording of its image."""
    for sample in base_task.samples():
        for number, text in wordings.wordings_of(sample.id):
            # The first wording keeps the image's id. Overlap with ReasonSeg is found by image and
            # question: ids of two tasks are not compared.
            name = f"{sample.id}#{number}" if number else sample.id
            query = replace(sample.query, id=query_id(name), text=text)
            yield replace(sample, id=name, unit=name, query=query)
