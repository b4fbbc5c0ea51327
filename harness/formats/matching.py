"""Whose sample each reply of a file is."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.formats.entries import Entry
from harness.interchange import Row
from harness.replies import storable
from harness.types import Sample

BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Matched:
    """The rows of a file by the id of their sample, and what was left over."""

    rows: Mapping[str, Row]
    unmatched: tuple[str, ...] = ()
    """Entries that are of no sample: their place and what they are called."""
    repeated: tuple[str, ...] = ()
    """Ids that came again with the same reply, as sharded runs pad them; counted once."""


def match(entries: Iterable[Entry], samples: Sequence[Sample]) -> Matched:
    """The rows that entries make, by sample.

    Raises:
        DataError: two replies to one question differ.
    """
    finder = _Finder(samples)
    rows: dict[str, Row] = {}
    unmatched: list[str] = []
    repeated: list[str] = []
    for entry in entries:
        sample = finder.find(entry)
        if sample is None:
            named = next(iter(entry.ids), "") or entry.question[:40]
            unmatched.append(f"{entry.where}, {named!r}")
            continue
        row = Row(sample.id, "reply", storable(entry.reply), None, entry.where)
        earlier = rows.setdefault(sample.id, row)
        if earlier is not row:
            if earlier.value != row.value:
                raise DataError(f"{entry.where}: sample {sample.id!r}", expected="one reply a "
                                f"question, that of {earlier.where}",
                                found="another one")  # fmt: skip
            repeated.append(sample.id)
    return Matched(rows, tuple(unmatched), tuple(repeated))


class _Finder:
    """Finds the sample that an entry is about."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples
        self.by_id = {sample.id: sample for sample in samples}
        self.by_question: dict[tuple[str, str], Sample | None] = {}
        for sample in samples:
            question = _plain(_question(sample))
            for key in ((Path(sample.group).stem, question), ("", question)):
                # What stands for two samples stands for none.
                self.by_question[key] = None if key in self.by_question else sample

    def find(self, entry: Entry) -> Sample | None:
        """The sample; None if nothing about the entry tells it."""
        for name in entry.ids:
            if name in self.by_id and self._fits(entry, self.by_id[name]):
                return self.by_id[name]
        if entry.question:
            asked = _plain(entry.question)
            found = self.by_question.get((Path(entry.video).stem, asked))
            if found is not None:
                return found
        if entry.place is not None and 0 <= entry.place < len(self.samples):
            sample = self.samples[entry.place]
            if entry.question and self._fits(entry, sample):
                return sample
        return None

    def _fits(self, entry: Entry, sample: Sample) -> bool:
        """Whether what the entry shows of its question speaks for this sample, if it shows any."""
        if not entry.question:
            return True
        asked, known = _plain(entry.question), _plain(_question(sample))
        return known in asked or asked in known


def _question(sample: Sample) -> str:
    """The question as files of others have it: without our options, which stand apart."""
    return sample.query.text


def _plain(text: str) -> str:
    return BLANKS.sub(" ", text).strip().casefold()
