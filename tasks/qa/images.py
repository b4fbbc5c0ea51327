"""A question's images, as tables hold them (bytes, or the name of a file) and as media."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from harness.errors import DataError, MediaError
from harness.layout import folder, path_inside
from harness.media import Media, image_bytes, open_image, placeholder_media
from harness.task import Problem, Protocol, Task
from harness.tasks.qa.questions import Question, read_records
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import QuestionFormat, question_task
from harness.types import Answer, AnswerForm


def images_of(value: object, where: str, place: Path) -> tuple[bytes | Path, ...]:
    """Return each image's bytes, or its file below the folder where the table has none.

    Args:
        value: A cell: one image or a list of them, each `{"bytes": …, "path": …}` or a name.
        where: Where it stands, for messages.
        place: The folder of files that are named.

    Raises:
        DataError: there is no image, or one without bytes and name; a name leaves the folder.
    """
    entries = value if isinstance(value, list) else [value]
    found: list[bytes | Path] = []
    for entry in entries:
        data = entry.get("bytes") if isinstance(entry, dict) else None
        name = entry.get("path") if isinstance(entry, dict) else entry
        if data:
            found.append(data)
        elif name:
            found.append(path_inside(place, name))
        else:
            raise DataError(
                f"{where}: 'image'",
                expected="bytes or a path for each image",
                found=repr(entry)[:60],
            )
    if not found:
        raise DataError(f"{where}: 'image'", expected="at least one image", found="none")
    return tuple(found)


def open_images(question: Question) -> tuple[Media, ...]:
    """Open a question's images; a stand-in for each that is missing or damaged."""
    return tuple(_media(image, question) for image in question.media if not isinstance(image, str))


def image_problems(question: Question) -> Iterator[Problem]:
    """Yield the faults of a question's images."""
    for media in open_images(question):
        if media.fault:
            yield Problem(f"question {question.id!r}", media.fault)


def _media(image: bytes | Path, question: Question) -> Media:
    try:
        if isinstance(image, Path):
            return open_image(image)
        return image_bytes(image, f"of question {question.id!r}")
    except MediaError as error:
        return placeholder_media(error, size=(1, 1))


def lettered_question(
    row: Mapping[str, object],
    where: str,
    *,
    id: str,
    media: tuple[bytes | Path, ...],
    categories: Mapping[str, str],
    options: object = (),
    letters: str = "",
) -> Question:
    """The question of a row with the fields `question` and `answer`, a letter.

    Args:
        row: The row.
        where: Where it stands, for messages.
        id: The question's id.
        media: Its images.
        categories: Its breakdowns.
        options: Texts of the options; none where they stand in the question's text.
        letters: The letters of the options, where they stand in the text.

    Raises:
        DataError: the answer is no letter of an option, or options are no texts.
    """
    given: list[Any] = list(options) if isinstance(options, (list, tuple)) else [None]
    if not all(isinstance(one, str) for one in given):
        raise DataError(f"{where}: options", expected="texts", found=repr(options)[:60])
    known, answer = letters or ascii_uppercase[: len(given)], row["answer"]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in known:
        raise DataError(
            f"{where}: 'answer'", expected=f"one of {', '.join(known)}", found=repr(answer)[:40]
        )
    return Question(
        id=id,
        text=text(row, "question", where).replace("<image>", "").strip(),
        media=media,
        answer=Answer(choice=answer),
        options=tuple(map(str, given)),
        categories=categories,
        extra={"letters": known},
    )


def image_task(
    name: str,
    files: Sequence[Path],
    columns: Mapping[str, str],
    make: Callable[[Mapping[str, object], str], Question],
    *,
    protocol: Protocol,
    split: str,
    forms: Sequence[AnswerForm] = (AnswerForm.CHOICE,),
) -> Task:
    """The task of a benchmark whose records `make` turns into questions; see `read_records`."""
    layout = QuestionFormat(
        files=files,
        read=partial(read_records, files, columns, make),
        open=open_images,
        problems=image_problems,
    )
    return question_task(layout, name, protocol=protocol, split=split, forms=forms, arguments={})


def parts(place: Path, pattern: str, *, fix: str) -> tuple[Path, ...]:
    """The files of a split, in order.

    Raises:
        DataError: there is none.
    """
    found = tuple(sorted(folder(place, fix=fix).glob(pattern)))
    if not found:
        raise DataError(f"folder {place}", expected=pattern, found="no such file", fix=fix)
    return found
