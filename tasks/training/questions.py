"""Questions in the form of Video-R1's JSON, which SpaceR's and STV-205k use as well.

    {"problem_id": 2, "problem": "What appears on the screen …?", "data_type": "video",
     "problem_type": "multiple choice", "options": ["A. …", "B. …"],
     "solution": "<answer>A</answer>", "path": "./LLaVA-Video-178K/…/ytb_7nRmsEw7nsE.mp4",
     "data_source": "LLaVA-Video-178K/…"}

A file is one JSON list, or one object a line. STV-205k's lines have `frames` and `rate` in place of
`path`, and two more types of problem.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import DataError, ParseError
from harness.layout import JsonFile, field
from harness.responses import finite_numbers, loads_strict, tag_text
from harness.tasks.qa.options import texts
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import records, text
from harness.types import Answer, AnswerForm, Box, Box3D

FORMS: Mapping[str, AnswerForm] = {
    "multiple choice": AnswerForm.CHOICE,
    "numerical": AnswerForm.NUMBER,
    "regression": AnswerForm.NUMBER,
    "free-form": AnswerForm.TEXT,
    "OCR": AnswerForm.TEXT,
    "IoU": AnswerForm.BOXES,
    "IoU 3D": AnswerForm.BOX_3D,
}
"""The form of answer of each `problem_type`; the last two are STV-205k's."""

VIDEO_R1 = ("multiple choice", "numerical", "regression", "free-form", "OCR")
"""The types that Video-R1's and SpaceR's files have."""

NEEDED = {
    "problem": "question",
    "data_type": "image or video",
    "problem_type": "what is asked for",
    "solution": "answer in its tags",
}


def read_questions(
    path: Path, root: Path, *, kinds: Sequence[str] = VIDEO_R1
) -> Iterator[Question | DataError]:
    """Yield every record of a `.json` list or a `.jsonl` file in order, or the error that it has.

    A record without an id has its number in the file, from 0, for an id; ids are `distinct`.

    Args:
        path: The file.
        root: The folder that the paths of images are below.
        kinds: The types of problem that there may be.

    Raises:
        DataError: the file is missing or no JSON.
    """

    def read() -> Iterator[Question | DataError]:
        for number, (where, plain) in enumerate(_read_plain(path)):
            try:
                yield read_question(plain, where, number, root=root, kinds=kinds)
            except DataError as error:
                yield error

    return distinct(read())


def distinct(entries: Iterable[Question | DataError]) -> Iterator[Question | DataError]:
    """Yield what was read, with `#2`, `#3`, … behind an id that comes again."""
    seen: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, Question):
            seen[entry.id] += 1
            again = seen[entry.id]
            entry = entry if again == 1 else replace(entry, id=f"{entry.id}#{again}")
        yield entry


def _read_plain(path: Path) -> Iterator[tuple[str, object]]:
    if path.suffix == ".jsonl":
        yield from records(path, {})
    else:
        members = JsonFile(path).items()
        yield from ((f"{path}, entry {entry.key}", entry.parse()) for entry in members)


def read_question(
    plain: object,
    where: str,
    number: int = 0,
    *,
    root: Path = Path(),
    kinds: Sequence[str] = VIDEO_R1,
) -> Question:
    """Check one record, whose number is its id if it names none.

    Whether its path stays below `root` is for those who open it; its frames are not looked at.

    Raises:
        DataError: a field is missing, or not what its type of problem needs.
    """
    for key in NEEDED:
        field(plain, key, (str, int), where)
    assert isinstance(plain, Mapping), "it has fields"
    kind, medium = text(plain, "problem_type", where), text(plain, "data_type", where)
    if kind not in kinds:
        raise DataError(
            f"{where}: 'problem_type'", expected=f"one of {', '.join(kinds)}", found=repr(kind)[:40]
        )
    if medium not in ("image", "video"):
        raise DataError(f"{where}: 'data_type'", expected="image or video", found=repr(medium)[:40])
    options = _options(plain.get("options"), where) if kind == "multiple choice" else ()
    solution, path = _solution(plain, where), _path(plain, where)
    media: str | tuple[Path, ...] = path
    if medium == "image" or not path:
        media = (root / path,) if path else ()
    # A number as it was written, with its decimals and commas: Video-R1's reward compares decimals.
    written = {"solution": solution} if FORMS[kind] is AnswerForm.NUMBER else {}
    return Question(
        id=str(field({"problem_id": number, **plain}, "problem_id", (str, int), where)),
        text=text(plain, "problem", where).strip(),
        media=media,
        options=options,
        answer=_answer(solution, kind, len(options), f"{where}: 'solution'"),
        group=path,
        problem_type=kind,
        categories={
            "type": kind,
            "source": str(plain.get("data_source", "")) or "unknown",
            "medium": medium,
        },
        extra={"problem_type": kind, **written},
        row=plain,
    )


def _path(plain: Mapping[str, object], where: str) -> str:
    """Return the path below the data's folder: files contain `./x` or `/x`; empty if the record
    lists frames.
    """
    if "path" not in plain and "frames" in plain:
        return ""
    path = text(plain, "path", where).strip()
    return path.removeprefix(".").lstrip("/") if path.startswith(("./", "/")) else path


def _options(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise DataError(f"{where}: 'options'", expected="a list of texts", found=repr(value)[:60])
    return texts(value, where)


def _solution(plain: Mapping[str, object], where: str) -> str:
    whole = text(plain, "solution", where)
    inner = tag_text(whole, "answer")
    return whole.strip() if inner is None else inner


def _answer(text: str, kind: str, options: int, what: str) -> Answer:
    if kind == "multiple choice":
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:options]
        letter = text.rstrip(".").strip()
        if len(letter) != 1 or letter not in letters:
            raise DataError(what, expected=f"a letter from A to {letters[-1]}", found=text[:40])
        return Answer(choice=letter)
    if FORMS[kind] is AnswerForm.NUMBER:
        return Answer(number=_number(text, what))
    if kind == "IoU":
        return Answer(boxes=(Box(*_numbers(text, 4, what)),))
    if kind == "IoU 3D":
        return Answer(boxes_3d=(Box3D(*_numbers(text, 6, what)),))
    if not text:
        raise DataError(what, expected="text", found="none")
    return Answer(text=text)


def _number(text: str, what: str) -> float:
    """A number as Video-R1's reward reads it: without commas."""
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        number = math.nan
    if not abs(number) < 1e15:
        raise DataError(what, expected="a number", found=text[:40])
    return number


def _numbers(text: str, count: int, what: str) -> list[float]:
    try:
        return list(finite_numbers(loads_strict(text), count, what))
    except ParseError as error:
        raise DataError(what, expected=f"[{count} numbers]", found=text[:60]) from error
