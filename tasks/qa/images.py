"""Open the images of a question, and report those that are missing or damaged."""

from collections.abc import Callable, Iterator
from pathlib import Path

from harness.media import Media, image_or_placeholder
from harness.task import Problem
from harness.tasks.qa.questions import Question


def image_files(question: Question) -> list[Path]:
    """Return the paths of a question's images, without those that are bytes of a table."""
    return [image for image in question.media if isinstance(image, Path)]


def open_images(question: Question, *, size: tuple[int, int] = (1, 1)) -> tuple[Media, ...]:
    """Open a question's images; a missing or damaged one becomes a placeholder of this size."""
    name = f"of question {question.id!r}"
    images = (image for image in question.media if not isinstance(image, str))
    return tuple(image_or_placeholder(image, name, size=size) for image in images)


def image_problems(
    question: Question, open: Callable[[Question], tuple[Media, ...]] = open_images
) -> Iterator[Problem]:
    """Yield a problem for each of a question's images that `open` cannot read."""
    for media in open(question):
        if media.fault:
            yield Problem(question.place or f"question {question.id!r}", media.fault)
