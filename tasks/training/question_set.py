"""`question_set` makes the format of training tasks whose questions are a file in Video-R1's form.

Video-R1-260k and SR-91k use it; `questions` has the reader of one record.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.layout import path_inside
from harness.media import Media
from harness.task import Problem
from harness.tasks.qa.images import image_problems, open_images
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos
from harness.tasks.training.questions import read_questions
from harness.tasks.training.subsets import RandomSubset
from harness.types import AnswerForm

FORMS = (AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.TEXT)
"""Forms of answers in files of Video-R1's form."""


def question_set(
    name: str,
    path: Path,
    videos: Videos,
    sampled: RandomSubset,
    *,
    is_selected: Callable[[Question], bool],
    extended: Callable[[Question], Question] = lambda question: question,
    other_files: tuple[Path, ...] = (),
) -> QuestionFormat:
    """Return the format of the selected questions of a file; images and videos lie beside it.

    Malformed records are left out, and `check` names them: one bad record of a hundred thousand
    must not stop a training.

    Args:
        name: The task's name.
        path: The file of questions.
        videos: The videos.
        sampled: The choice of questions.
        is_selected: Returns True if a question belongs to the task.
        extended: Returns a question with the data that other files have about it.
        other_files: The files that `extended` reads, whose content decides the questions too.
    """

    def read() -> Iterator[Question | DataError]:
        """Yield the selected questions, and the errors of malformed records."""
        for question in read_questions(path, path.parent):
            if isinstance(question, DataError):
                yield question
            elif not question.group:  # frames, which only STV-205k's questions have
                yield DataError(
                    f"{path}, question {question.id!r}: 'path'", expected="text", found="none"
                )
            elif is_selected(question):
                yield extended(question)

    def read_valid() -> Iterator[Question]:
        """Return the selected questions without the errors."""
        return (question for question in read() if isinstance(question, Question))

    return QuestionFormat(
        files=(path, *other_files),
        read=read,
        choose=partial(sampled.choose, read_valid, name),
        open=partial(_open, videos, path.parent),
        problems=partial(_problems, videos, path.parent),
        opens_all=False,
    )


def _open(videos: Videos, root: Path, question: Question) -> tuple[Media, ...]:
    """Open a question's video, or its images, which must lie below `root`."""
    if isinstance(question.media, str):
        return videos.open(question)
    path_inside(root, question.group)
    return open_images(question)


def _problems(videos: Videos, root: Path, question: Question) -> Iterator[Problem]:
    """Yield the faults of a question's images, or that its video is missing.

    Videos are not opened: there are too many.
    """
    if not isinstance(question.media, str):
        yield from image_problems(question, partial(_open, videos, root))
        return
    try:
        videos.path(question.media)
    except DataError as error:
        yield Problem(question.media, str(error))
