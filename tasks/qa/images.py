"""A question's images, as tables hold them (bytes, or the name of a file) and as media."""

from collections.abc import Iterator
from pathlib import Path

from harness.errors import DataError, MediaError
from harness.layout import path_inside
from harness.media import Media, image_bytes, open_image, placeholder_media
from harness.task import Problem
from harness.tasks.qa.questions import Question


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
