"""Parse counts in logs of lmms-eval by the rules of its tasks (version 0.7.3).

`harness score` and `harness diff` wrap a model's reader in `Counting` for such a log.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from harness.interchange.answers import MAX_COUNT
from harness.metrics.numeric import NUMBER_WORDS
from harness.model import RecordedReader
from harness.segmentation import Propagator, Segmenter
from harness.types import Answer, AnswerForm, Call, Prediction, Query

LOG = re.compile(r"_samples_(.+)\Z")  # 20260801_120000_samples_countbench
COUNT_OF_WORD = {"none": 0} | {word: value for word, value in NUMBER_WORDS.items() if value <= 20}
MAX_DIGITS = len(str(MAX_COUNT))


def exact(response: str) -> int | None:
    """Return the count of a response that is digits and nothing else, or None (`countbenchqa`).

    >>> exact(" 3 "), exact("03"), exact("3 dogs")
    (3, None, None)
    """
    text = response.strip()
    plain = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if plain and str(int(text)) == text else None


def parse_number_word(response: str) -> int | None:
    """Return the count of `exact`, or of one of the words from none to twenty (`countbench`).

    >>> [parse_number_word(response) for response in ("Three", "none", "3", "three dogs")]
    [3, 0, 3, None]
    """
    text = response.strip().lower()
    return COUNT_OF_WORD.get(text, exact(text))


def first_number(response: str) -> int | None:
    """Return the first run of digits in a response as a count, or None (`pixmo_count`).

    >>> first_number("There are 3, or 4"), first_number("three")
    (3, None)
    """
    match = re.search(r"[0-9]+", response)
    return int(match[0]) if match and len(match[0]) <= MAX_DIGITS else None


RULES: Mapping[str, Callable[[str], int | None]] = MappingProxyType(
    {"countbench": parse_number_word, "pixmo_count": first_number}
)
"""The rule of each task by lmms-eval's name; other tasks have `exact`."""


def task_of(path: Path) -> str:
    """Return the task in a log's name: `…_samples_<task>.jsonl`, or the older `<task>.json`."""
    match = LOG.search(path.stem)
    return match[1] if match else path.stem


@dataclass(frozen=True, slots=True)
class Counting:
    """A reader that parses a count as lmms-eval's task does, and else calls an inner reader."""

    reader: RecordedReader
    task: str

    @property
    def devices(self) -> tuple[str, ...]:
        """The reader's devices."""
        return self.reader.devices

    def describe(self) -> Mapping[str, object]:
        """The reader's settings."""
        return self.reader.describe()

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Return the count in a single response to a counting question, or the inner prediction."""
        if query.forms == (AnswerForm.COUNT,) and len(responses) == 1:
            count = RULES.get(self.task, exact)(responses[0])
            if count is not None and count <= MAX_COUNT:
                return Prediction(
                    query_id=query.id, answer=Answer(count=count), responses=tuple(responses)
                )
        return self.reader.read(query, responses, calls)

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that the inner reader writes."""
        return self.reader.write(query, answer)

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return a copy whose reader has this segmenter and propagator."""
        return type(self)(self.reader.with_perception(segmenter, propagator), self.task)
