"""A question's images as media."""

from collections.abc import Callable, Iterator
from pathlib import Path

from harness.media import Media, image_or_placeholder
from harness.task import Problem
from harness.tasks.qa.questions import Question


def image_files(question: Question) -> list[Path]:
    """Return the files of a question's images; those held in memory have none."""
    return [image for image in question.media if isinstance(image, Path)]


def open_images(question: Question, *, size: tuple[int, int] = (1, 1)) -> tuple[Media, ...]:
    """Open a question's images; a stand-in of this size for each that is missing or damaged."""
    name = f"of question {question.id!r}"
    images = (image for image in question.media if not isinstance(image, str))
    return tuple(image_or_placeholder(image, name, size=size) for image in images)


def image_problems(
    question: Question, open: Callable[[Question], tuple[Media, ...]] = open_images
) -> Iterator[Problem]:
    """Yield the faults of a question's images, which `open` opens."""
    for media in open(question):
        if media.fault:
            yield Problem(f"question {question.id!r}", media.fault)
