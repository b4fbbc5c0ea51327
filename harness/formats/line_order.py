"""Refuse lines without ids that are not in the order of a benchmark's samples.

The commands that messages print call `checked` before they give lines the samples' ids.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.foreign_forms import truths_of
from harness.types import Sample

QUESTIONS = ("question", "query", "prompt")


def checked(samples: Iterable[Sample], path: str) -> list[Sample]:
    """Return a task's samples, if the questions and ground truths in a file's lines are theirs.

    A text counts if it is that of some sample.

    Raises:
        DataError: a line has the question or the ground truth of another sample.
    """
    listed = list(samples)
    lines = filter(str.strip, Path(path).read_text(encoding="utf-8").splitlines())
    rows = [json.loads(line) for line in lines]
    for keys_of, texts_of in ((truths_of, _truths), (_questions, _asked)):
        _check(path, rows, listed, keys_of, texts_of)
    return listed


def _check(
    path: str,
    rows: list[Mapping[str, Any]],
    samples: list[Sample],
    keys_of: Callable[[Mapping[str, Any]], list[str]],
    texts_of: Callable[[Sample], set[str]],
) -> None:
    texts = list(map(texts_of, samples))
    known = set[str]().union(*texts)
    differing = [
        (number, key, row[key])
        for number, (row, own) in enumerate(zip(rows, texts, strict=False), start=1)
        for key in keys_of(row)
        if (text := _plain(row[key])) in known and text not in own
    ]
    if differing:
        number, key, value = differing[0]
        raise DataError(
            f"{path}, line {number}: {key!r}",
            expected=f"that of the sample {samples[number - 1].id!r}, if lines are in their order",
            found=f"{str(value)[:60]!r}, of another sample ({len(differing)} such lines)",
            fix="Sort the lines as the samples are, or write each with its id.",
        )


def _questions(row: Mapping[str, Any]) -> list[str]:
    return [key for key in QUESTIONS if key in row]


def _asked(sample: Sample) -> set[str]:
    return {_plain(sample.query.text)}


def _truths(sample: Sample) -> set[str]:
    """Return the ground truth of a sample as texts: of a choice, its letter and its option."""
    if sample.target is None:
        return set()
    answer, options = sample.target.answer, sample.query.options
    chosen = ord(answer.choice) - ord("A") if answer.choice and len(answer.choice) == 1 else -1
    option = options[chosen] if 0 <= chosen < len(options) else None
    values = (answer.text, answer.choice, option, answer.count, answer.number)
    known = [*(value for value in values if value is not None), *sample.target.references]
    return set(map(_plain, known))


def _plain(value: object) -> str:
    """Return a value's text without case, blanks around it and a last full stop."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value)
    return text.strip().casefold().removesuffix(".")
