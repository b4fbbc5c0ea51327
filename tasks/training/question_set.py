"""Tasks of questions in Video-R1's form: reader, samples and checks of such a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.layout import path_inside
from harness.media import Media, image_or_placeholder
from harness.task import Problem
from harness.tasks.qa.tables import check_each
from harness.tasks.qa.videos import FrameSelection, find, video_or_lost
from harness.tasks.training.questions import TrainingQuestion, read_questions
from harness.tasks.training.subsets import RandomSubset
from harness.types import AnswerForm, Query, Sample, Target, query_id


def _written_number(question: TrainingQuestion) -> dict[str, str]:
    """A true number as it was written: Video-R1's reward compares decimals."""
    return {"solution": question.solution} if question.form is AnswerForm.NUMBER else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """A file of questions, with the choice of questions and their media."""

    name: str
    path: Path
    root: Path
    """The folder that the paths of images and videos are below."""
    selection: FrameSelection
    sampled: RandomSubset
    is_selected: Callable[[TrainingQuestion], bool] = lambda question: True
    more: Callable[[TrainingQuestion], Mapping[str, object]] = lambda question: {}
    """Function that returns additions to a target's `extra`."""
    objects: Callable[[TrainingQuestion], tuple[str, ...]] = lambda question: ()
    """Function that returns the objects that a query names beside its text."""

    def questions(self) -> Iterator[TrainingQuestion]:
        """Yield the chosen questions, in the file's order; malformed records are left out.

        `check` names those: among some hundred thousand of other people's records, one that says
        nothing is not the end of a training.
        """
        return self.sampled.choose(self._all_questions, self.name)

    def _all_questions(self) -> Iterator[TrainingQuestion]:
        for question in read_questions(self.path):
            if isinstance(question, TrainingQuestion) and self.is_selected(question):
                yield question

    def samples(self) -> Iterable[Sample]:
        """One sample a question."""
        return map(self._sample, self.questions())

    def _sample(self, question: TrainingQuestion) -> Sample:
        return Sample(
            id=question.id,
            query=Query(
                id=query_id(question.id),
                text=question.problem,
                media=(self._media(question),),
                forms=(question.form,),
                options=question.options,
                objects=self.objects(question),
                problem_type=question.kind,
            ),
            target=Target(
                answer=question.answer,
                extra={
                    "problem_type": question.kind,
                    **_written_number(question),
                    **self.more(question),
                },
            ),
            group=question.path,
            categories={
                "type": question.kind,
                "source": question.source or "unknown",
                "medium": "video" if question.video else "image",
            },
        )

    def _media(self, question: TrainingQuestion) -> Media:
        if question.video:
            return video_or_lost((self.root,), question.path, self.selection.choose)
        return image_or_placeholder(path_inside(self.root, question.path))

    def check(self) -> Iterator[Problem]:
        """Malformed records, and images and videos that are not there."""
        looked_at: set[str] = set()

        def look(question: TrainingQuestion) -> Iterator[Problem]:
            if self.is_selected(question) and question.path not in looked_at:
                looked_at.add(question.path)
                yield from self._check_question(question)

        return check_each(read_questions(self.path), str(self.path), look)

    def _check_question(self, question: TrainingQuestion) -> Iterator[Problem]:
        try:
            if question.video:
                find((self.root,), question.path)
            elif fault := self._media(question).fault:
                yield Problem(question.path, fault)
        except DataError as error:
            yield Problem(question.path, str(error))


FORMS = (AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.TEXT)
"""Forms of answer in such a file."""


def of_medium(medium: str) -> Callable[[TrainingQuestion], bool]:
    """Return a test that a question is about a medium: `image`, `video`, or `all`."""
    return lambda question: medium == "all" or question.video == (medium == "video")
