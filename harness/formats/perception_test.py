"""Read answers in the form of Perception Test's challenge: a list of `answer_id` by video.

    {"video_10": [{"id": 0, "answer_id": 2, "answer": "the text of option 2"}]}

`id` numbers the questions of a video from 0, in the order of the user's table or in the task's own
ids, which are the table's rows. The option's text in `answer` shows which: the file is read by the
first numbering, and by the second if the first does not fit and the second fits all of it.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import ascii_uppercase
from typing import TypeAlias

from harness.errors import DataError
from harness.formats.matching import Matched
from harness.interchange.rows import Row
from harness.layout import field, read_json
from harness.types import Sample

Numbered: TypeAlias = Mapping[str, Mapping[int, Sample]]
"""Samples by video and number of the question."""


def perception_test(
    path: Path, samples: Sequence[Sample], requested: Collection[str] | None = None
) -> Matched:
    """Return a row for each answer, by the numbering that fits the file.

    Raises:
        DataError: the file is not such an object, or an answer is not the text of its option.
    """
    plain = read_json(path)
    if not isinstance(plain, dict):
        expected = "an object with a list of answers by video"
        raise DataError(f"predictions {path}", expected=expected, found=type(plain).__name__)
    in_video: dict[str, dict[int, Sample]] = defaultdict(dict)
    in_table: dict[str, dict[int, Sample]] = defaultdict(dict)
    for sample in samples:
        video = Path(sample.group).stem
        in_video[video][len(in_video[video])] = sample
        number = sample.id.rpartition("/")[2]
        in_table[video][int(number) if number.isdecimal() else -1] = sample
    for numbers in (in_video, in_table):
        with suppress(DataError):
            matched = _rows(plain, numbers, path, requested)
            if not matched.unmatched:
                return matched
    return _rows(plain, in_video, path, requested)


def _rows(
    plain: Mapping[str, object], by_video: Numbered, path: Path, requested: Collection[str] | None
) -> Matched:
    """Return a row for each answer, by one numbering of the questions."""
    rows: dict[str, Row] = {}
    unmatched = []
    for video, answers in plain.items():
        sample_of_question = by_video.get(video, {})
        if not isinstance(answers, list):
            raise DataError(f"{path}, {video!r}", expected="a list", found=type(answers).__name__)
        for answer in answers:
            question_number = field(answer, "id", int, f"{path}, {video!r}")
            where = f"{path}, {video!r}, question {question_number}"
            sample = sample_of_question.get(question_number)
            if sample is None or (requested is not None and sample.id not in requested):
                unmatched.append(where)
                continue
            if sample.id in rows:
                raise DataError(where, expected="one answer a question", found="another one")
            letter = _letter(answer, sample, where)
            rows[sample.id] = Row(sample.id, "answer", letter, None, where)
    return Matched(rows, tuple(unmatched))


def _letter(answer: dict[str, object], sample: Sample, where: str) -> str:
    """Return the letter of option `answer_id`; raise DataError if its text is not the answer's."""
    number, options = field(answer, "answer_id", int, where), sample.query.options
    text = field(answer, "answer", str, where)
    option = options[number] if 0 <= number < len(options) else None
    if option is None or option.split() != text.split():
        raise DataError(
            where,
            expected=f"option {number} of {sample.id!r}, {str(option)[:40]!r}",
            found=repr(text)[:40],
            fix="Is it the right split, and is the table in its order?",
        )
    return ascii_uppercase[number]
