"""Reader of `questions.jsonl`: one question for each line, read line by line."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import DataError, MediaError, raised_as
from harness.layout import field, path_inside, read_lines
from harness.media import Media, frame_files, header_size, open_image, placeholder_media
from harness.responses import refuse_duplicate_keys
from harness.task import Problem

QUESTIONS = "questions.jsonl"
MAX_LINE = 200_000  # bytes


def lines(place: Path) -> Iterator[tuple[str, bytes]]:
    """Each line of a split's questions with the words that name it; blank lines are skipped.

    Raises:
        DataError: the file cannot be read, or a line is longer than `MAX_LINE`.
    """
    path = place / QUESTIONS
    for number, line in read_lines(path, MAX_LINE):
        where = f"{path}, line {number}"
        if len(line) > MAX_LINE:
            raise DataError(where, expected=f"at most {MAX_LINE} bytes", found="a longer line")
        yield where, line


def parse(line: bytes, where: str) -> dict[str, Any]:
    """One line as a JSON object with an `id` that is text.

    Raises:
        DataError: it is none.
    """
    with raised_as(DataError, where, "one JSON object", ValueError, RecursionError):
        plain = json.loads(
            line.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=refuse_duplicate_keys
        )
        json.dumps(plain, ensure_ascii=False).encode()  # no half of a surrogate pair
    read_text(plain, "id", where)
    assert isinstance(plain, dict), "it has a field"
    return plain


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def read_text(plain: object, key: str, where: str) -> str:
    """A field that is text and not blank.

    Raises:
        DataError: it is missing, no text or blank.
    """
    text = field(plain, key, str, where)
    if not text.strip():
        raise DataError(f"{where}: {key!r}", expected="text", found="blanks")
    return text


def read_texts(plain: object, key: str, where: str) -> list[str]:
    """A field that is a list of different texts, none of them blank.

    Raises:
        DataError: it is missing or another.
    """
    value = field(plain, key, list, where)
    if not all(isinstance(one, str) and one.strip() for one in value):
        raise DataError(f"{where}: {key!r}", expected="a list of texts", found=repr(value)[:60])
    if len(set(value)) < len(value):
        raise DataError(f"{where}: {key!r}", expected="different texts", found=repr(value)[:60])
    assert isinstance(value, list), "field saw its type"
    return value


def paths(place: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """Return the paths of a record's images, inside the split's folder.

    Raises:
        DataError: a name leaves it.
    """
    return tuple(path_inside(place, name) for name in names)


def media(files: Sequence[Path], *, size: tuple[int, int] = (1, 1)) -> Media:
    """Open an image, or a video of one frame a second; a stand-in if it is missing.

    `size` is what the ground truth is measured in, for the latter.
    """
    try:
        for path in files[1:]:
            header_size(path)  # `frame_files` looks at the first one only
        return open_image(files[0]) if len(files) == 1 else frame_files(files)
    except MediaError as error:
        return placeholder_media(error, size=size, frames=len(files))


def unreadable(files: Sequence[Path]) -> Iterator[Problem]:
    """Yield faults in the headers of images: missing, none, or of different sizes."""
    sizes = set()
    for path in files:
        try:
            sizes.add(header_size(path))
        except MediaError as error:
            yield Problem(str(path), str(error) if path.exists() else "is missing")
    if len(sizes) > 1:
        yield Problem(str(files[0].parent), f"holds frames of different sizes: {sorted(sizes)}")


def check(place: Path, look: Callable[[bytes, str], Iterator[Problem]]) -> Iterator[Problem]:
    """Yield what is wrong with each line, by `look` or its DataError; and that there is none."""
    path, empty = str(place / QUESTIONS), True
    try:
        for where, line in lines(place):
            empty = False
            try:
                yield from look(line, where)
            except DataError as error:
                yield Problem(path, str(error))
    except DataError as error:
        yield Problem(path, str(error))
    else:
        if empty:
            yield Problem(path, "holds no questions")


def categories(plain: Mapping[str, object], keys: Sequence[str], where: str) -> dict[str, str]:
    """Breakdowns that a record names itself.

    Raises:
        DataError: one is missing.
    """
    return {key: read_text(plain, key, where) for key in keys}
