"""A question's images as media."""

from collections.abc import Iterator

from harness.media import Media, image_or_placeholder
from harness.task import Problem
from harness.tasks.qa.questions import Question


def open_images(question: Question) -> tuple[Media, ...]:
    """Open a question's images; a stand-in for each that is missing or damaged."""
    images = (image for image in question.media if not isinstance(image, str))
    return tuple(image_or_placeholder(one, f"of question {question.id!r}") for one in images)


def image_problems(question: Question) -> Iterator[Problem]:
    """Yield the faults of a question's images."""
    for media in open_images(question):
        if media.fault:
            yield Problem(f"question {question.id!r}", media.fault)
