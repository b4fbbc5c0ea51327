"""ReasonSeg's `train`, with the wordings that `reason_seg(split=train)` leaves out.

The files are ReasonSeg's own, at `ROOT/reason_seg/ReasonSeg/train`: `text` of an annotation lists
wordings of one meaning, of which evaluation uses the first. LISA trains on some of them, drawn
again each time.
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
    """One sample a wording, or one an image.

    Args:
        texts: `all`; `one` of each image, drawn by `seed`; or the `first`, which is
            `reason_seg(split=train)` by another name.
        seed: Decides which wording `one` takes.
        protocol: One of ReasonSeg's.
    """
    whole = reason_seg(data, split=split, protocol=protocol, layout="lisa")
    wordings = _Wordings(data / "reason_seg" / "ReasonSeg" / split, texts, seed)
    return replace(
        whole,
        name="reason_seg_train",
        samples=partial(_samples, whole, wordings),
        arguments={"split": split, "texts": texts, "seed": seed, "protocol": protocol},
    )


@dataclass(frozen=True, slots=True)
class _Wordings:
    place: Path
    texts: Texts
    seed: int

    def wordings_of(self, stem: str) -> Sequence[tuple[int, str]]:
        """Return (number, wording) of each chosen wording of an image; blank ones are skipped."""
        wordings, _, _ = read_annotation(self.place / f"{stem}.json")
        text = [(number, text.strip()) for number, text in enumerate(wordings) if text.strip()]
        if self.texts == "all":
            return text
        if self.texts == "first":
            return text[:1]
        return [Draws(self.seed, "training", "reason_seg", stem).choice(text)]


def _samples(whole: Task, wordings: _Wordings) -> Iterator[Sample]:
    for sample in whole.samples():
        for number, text in wordings.wordings_of(sample.id):
            # The first wording keeps the image's id. That it is a sample of ReasonSeg is found by
            # its image and question: ids of two tasks are not compared.
            name = f"{sample.id}#{number}" if number else sample.id
            query = replace(sample.query, id=query_id(name), text=text)
            yield replace(sample, id=name, unit=name, query=query)
