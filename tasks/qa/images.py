"""A question's images as media."""

from collections.abc import Iterator
from pathlib import Path

from harness.errors import MediaError
from harness.media import Media, image_bytes, open_image, placeholder_media
from harness.task import Problem
from harness.tasks.qa.questions import Question


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
