"""Read questions in the form of Video-R1's JSON, which SpaceR and STV-205k use as well.

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
"""The problem types in Video-R1's and SpaceR's files."""

REQUIRED_FIELDS = {
    "problem": "question",
    "data_type": "image or video",
    "problem_type": "what is asked for",
    "solution": "answer in its tags",
}


def read_questions(
    path: Path, root: Path, *, problem_types: Sequence[str] = VIDEO_R1
) -> Iterator[Question | DataError]:
    """Yield every record of a `.json` list or a `.jsonl` file in order, or the error that it has.

    Records without an id get their index in the file as id; repeated ids are made `distinct`.

    Args:
        path: The file.
        root: The folder that the paths of images are below.
        problem_types: The types of problem that there may be.

    Raises:
        DataError: the file is missing or no JSON.
    """

    def read() -> Iterator[Question | DataError]:
        for number, (where, plain) in enumerate(_read_plain(path)):
            try:
                yield read_question(plain, where, number, root=root, problem_types=problem_types)
            except DataError as error:
                yield error

    return distinct(read())


def distinct(entries: Iterable[Question | DataError]) -> Iterator[Question | DataError]:
    """Yield the entries; `#2`, `#3`, … is appended to a repeated id."""
    n_seen: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, Question):
            n_seen[entry.id] += 1
            occurrence = n_seen[entry.id]
            if occurrence > 1:
                entry = replace(entry, id=f"{entry.id}#{occurrence}")
        yield entry


def _read_plain(path: Path) -> Iterator[tuple[str, object]]:
    """Yield (place for errors, record) of each entry of a JSON list or line of a `.jsonl` file."""
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
    problem_types: Sequence[str] = VIDEO_R1,
) -> Question:
    """Return the question of one record after a check of its fields.

    The caller checks its `frames`, and that its path stays below `root`. Without a `problem_id`,
    the question's id is `number`.

    Raises:
        DataError: a field is missing, or not what its type of problem needs.
    """
    for key in REQUIRED_FIELDS:
        field(plain, key, (str, int), where)
    assert isinstance(plain, Mapping), "`field` raises for anything else"
    problem_type, medium = text(plain, "problem_type", where), text(plain, "data_type", where)
    if problem_type not in problem_types:
        raise DataError(
            f"{where}: 'problem_type'",
            expected=f"one of {', '.join(problem_types)}",
            found=repr(problem_type)[:40],
        )
    if medium not in ("image", "video"):
        raise DataError(f"{where}: 'data_type'", expected="image or video", found=repr(medium)[:40])
    options = _options(plain.get("options"), where) if problem_type == "multiple choice" else ()
    solution, path = _solution(plain, where), _path(plain, where)
    media: str | tuple[Path, ...] = path  # the name of a video, or the files of an image
    if medium == "image" or not path:
        media = (root / path,) if path else ()
    # Video-R1's reward compares the decimals of a number, so its text is kept as well.
    number_text = {"solution": solution} if FORMS[problem_type] is AnswerForm.NUMBER else {}
    return Question(
        id=str(field({"problem_id": number, **plain}, "problem_id", (str, int), where)),
        text=text(plain, "problem", where).strip(),
        media=media,
        options=options,
        answer=_answer(solution, problem_type, len(options), f"{where}: 'solution'"),
        group=path,
        problem_type=problem_type,
        categories={
            "type": problem_type,
            "source": str(plain.get("data_source", "")) or "unknown",
            "medium": medium,
        },
        extra={"problem_type": problem_type, **number_text},
        row=plain,
    )


def _path(plain: Mapping[str, object], where: str) -> str:
    """Return a record's path below the data folder, "x" for "./x" and "/x" too.

    It is empty if the record lists frames instead.
    """
    if "path" not in plain and "frames" in plain:
        return ""
    path = text(plain, "path", where).strip()
    return path.removeprefix(".").lstrip("/") if path.startswith(("./", "/")) else path


def _options(value: object, where: str) -> tuple[str, ...]:
    """Check the options, and return them without their letters."""
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise DataError(f"{where}: 'options'", expected="a list of texts", found=repr(value)[:60])
    return texts(value, where)


def _solution(plain: Mapping[str, object], where: str) -> str:
    """Return the text in `<answer>…</answer>`, or all of the solution without these tags."""
    solution = text(plain, "solution", where)
    inner = tag_text(solution, "answer")
    return solution.strip() if inner is None else inner


def _answer(solution: str, problem_type: str, options: int, where: str) -> Answer:
    """Parse a solution; `options` is the number of options, and `where` names it in errors."""
    if problem_type == "multiple choice":
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:options]
        letter = solution.rstrip(".").strip()
        if len(letter) != 1 or letter not in letters:
            raise DataError(
                where, expected=f"a letter from A to {letters[-1]}", found=solution[:40]
            )
        return Answer(choice=letter)
    if FORMS[problem_type] is AnswerForm.NUMBER:
        return Answer(number=_number(solution, where))
    if problem_type == "IoU":
        return Answer(boxes=(Box(*_numbers(solution, 4, where)),))
    if problem_type == "IoU 3D":
        return Answer(boxes_3d=(Box3D(*_numbers(solution, 6, where)),))
    if not solution:
        raise DataError(where, expected="text", found="none")
    return Answer(text=solution)


def _number(solution: str, where: str) -> float:
    """Parse a number as Video-R1's reward does: without its commas."""
    try:
        number = float(solution.replace(",", ""))
    except ValueError:
        number = math.nan
    if not abs(number) < 1e15:
        raise DataError(where, expected="a number", found=solution[:40])
    return number


def _numbers(solution: str, count: int, where: str) -> list[float]:
    """Parse a JSON list of `count` numbers."""
    try:
        return list(finite_numbers(loads_strict(solution), count, where))
    except ParseError as error:
        raise DataError(where, expected=f"[{count} numbers]", found=solution[:60]) from error
