"""Questions to samples and checks, the same for every benchmark of questions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_uppercase

from harness.errors import DataError
from harness.foreign import listed
from harness.layout import folder
from harness.media import Media
from harness.spec import Spec
from harness.task import Problem, Protocol, Task, choose, lost_media
from harness.tasks.qa.images import image_problems, open_images
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.tasks.qa.tables import SUFFIXES, sound
from harness.tasks.qa.videos import (
    Choose,
    FrameSelection,
    find,
    open_video,
    video_or_lost,
)
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

LETTERED = (AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.TEXT)
"""Forms of answer that a benchmark of lettered options has."""


@dataclass(frozen=True, slots=True)
class Videos:
    """A benchmark's videos: files, or folders of frames."""

    folders: tuple[Path, ...]
    frames: int | Spec | None = None
    """Rule of `harness.frames` for the frames that a question has; None: all of them, of which a
    model shows those of its own rule."""
    patterns: tuple[str, ...] = ("{}",)
    """Names of a video's file, with braces for the one that records have; the first that exists
    counts."""
    frames_per_second: float = 1.0
    """Rate of videos that are folders of frames."""

    def __post_init__(self) -> None:
        FrameSelection(self.frames)  # raises UsageError now, and not at the first question

    @property
    def selection(self) -> FrameSelection:
        """Rule as a value; its `str` is for the record."""
        return FrameSelection(self.frames)

    def path(self, name: str) -> Path:
        """Return the path of a video.

        Raises:
            DataError: the name leaves the folder.
            MediaError: it is missing.
        """
        return find(self.folders, name, patterns=self.patterns)

    def open(self, question: Question) -> tuple[Media, ...]:
        """Open a question's video, or a stand-in if it is missing or damaged."""
        media = video_or_lost(
            self.folders,
            str(question.media),
            _within(question, self.selection.choose),
            patterns=self.patterns,
            frames_per_second=self.frames_per_second,
        )
        return (media,)

    def problems(self, question: Question) -> Iterator[Problem]:
        """Yield the faults of a question's video."""
        path = str(question.media)
        try:
            video = self.path(path)
            path = str(video)
            open_video(video, _within(question, None), frames_per_second=self.frames_per_second)
        except DataError as error:
            yield Problem(path, str(error))


def _within(question: Question, choose: Choose | None) -> Choose | None:
    return choose if question.clip is None else question.clip.choose(choose)


def plain_text(question: Question, media: Media) -> str:
    """Return the question's text in the record."""
    return question.text


def wording_of(package: str, prompt: str) -> Callable[[Question, Media], str]:
    """The wording of a package's `prompts.toml`, with the fields `question`, `options` and those of
    the record.

    The file's `option`, such as `({letter}) {text}`, is how an option is written; without it
    `A. left` is.
    """

    def text(question: Question, media: Media) -> str:
        wordings = templates(package)
        written = wordings.get("option", "{letter}. {text}")
        pairs = zip(ascii_uppercase, question.options, strict=False)
        options = "\n".join(written.format(letter=letter, text=text) for letter, text in pairs)
        fields = {**question.row, "question": question.text, "options": options}
        return wordings[prompt].format_map(fields)

    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFormat:
    """Functions that read a benchmark's questions, open their media and word them."""

    files: Sequence[Path]
    """The files whose content decides the questions."""
    read: Callable[[], Iterator[Question | DataError]]
    choose: Callable[[], Iterator[Question]] | None = None
    """Function that yields the questions that become samples; None: all, up to the first error."""
    open: Callable[[Question], tuple[Media, ...]]
    """Function that opens a question's media; an unreadable one becomes a stand-in."""
    problems: Callable[[Question], Iterable[Problem]]
    """Function that yields the faults of a question's media and of their companion files."""
    opens_all: bool = True
    """True if `problems` finds nothing that `open` and `text` do not show as a lost medium or a
    DataError."""
    text: Callable[[Question, Media], str] = plain_text
    """Function that returns the question's text, given it and the first of its media."""
    apart: bool = True
    """True if options are given beside the text."""
    as_text: bool = False
    """True if the answer is requested as text, so that the scorer finds the letter."""

    def samples(self) -> Iterator[Sample]:
        """One sample a question, in the order of the files.

        Raises:
            DataError: a record is not as it should be.
        """
        yield from map(self._sample, self.choose() if self.choose else sound(self.read()))

    def check(self) -> Iterator[Problem]:
        """Everything that is wrong with the records, and with each file or clip of one once."""
        looked_at: set[object] = set()
        question = None
        try:
            for question in self.read():
                if isinstance(question, DataError):
                    yield self._problem(question)
                    continue
                try:
                    yield from self._problems(question, looked_at)
                except DataError as error:
                    yield self._problem(error, f"question {question.id!r}")
        except DataError as error:
            yield self._problem(error)
        else:
            if question is None:
                yield Problem(str(self.files[0]), "holds no questions")

    def _problems(self, question: Question, looked_at: set[object]) -> Iterable[Problem]:
        """Return the faults of a question's media, unless they were looked at before."""
        part = question.media, question.clip, question.size
        if part in looked_at:
            return ()
        if bytes not in map(type, question.media):  # images without a name are not remembered
            looked_at.add(part)
        return self.problems(question)

    def _problem(self, error: DataError, place: str = "") -> Problem:
        """Return an error as a problem of the file that it names, else of `place`."""
        paths = [str(path) for path in self.files]
        named = [path for path in paths if f"{path}," in str(error) or f"{path}:" in str(error)]
        return Problem(named[0] if named else place or paths[0], str(error))

    def _sample(self, question: Question) -> Sample:
        media = self.open(question)
        letter = None if question.answer is None else question.answer.choice
        as_text = self.as_text and (letter is not None or question.answer is None)
        return Sample(
            id=question.id,
            query=Query(
                id=query_id(question.id),
                text=self.text(question, media[0]),
                media=media,
                forms=(AnswerForm.TEXT if as_text else form_of(question),),
                options=question.options if self.apart else (),
                objects=question.objects,
                problem_type=question.problem_type,
            ),
            target=_target(question, as_text=as_text),
            unit=question.unit,
            group=question.group or media[0].id,
            categories={name: value for name, value in question.categories.items() if value},
        )


def form_of(question: Question) -> AnswerForm:
    """Return the form of answer, which the question names; else an option, where there are options
    or the ground truth is a letter; else that of the ground truth.
    """
    answer = question.answer
    if question.form is not None:
        return question.form
    if question.options or answer is None or answer.choice is not None:
        return AnswerForm.CHOICE
    for form, truth in (
        (AnswerForm.COUNT, answer.count),
        (AnswerForm.POINTS, answer.points),
        (AnswerForm.INTERVAL, answer.interval),
        (AnswerForm.BOXES, answer.boxes),
        (AnswerForm.BOX_3D, answer.boxes_3d),
        (AnswerForm.NUMBER, answer.number),
    ):
        if truth is not None:
            return form
    return AnswerForm.TEXT


def _target(question: Question, *, as_text: bool) -> Target | None:
    answer = question.answer
    if answer is None:
        return None
    letters: dict[str, object] = {}
    if form_of(question) in LETTERED:
        letters = {"letter": answer.choice, "letters": ascii_uppercase[: len(question.options)]}
    return Target(
        answer=Answer(text=answer.choice) if as_text else answer,
        references=question.references,
        extra={**letters, **question.extra},
    )


def question_task(
    requested: QuestionFormat,
    name: str,
    *,
    protocol: Protocol,
    arguments: Mapping[str, object],
    forms: Sequence[AnswerForm] = (AnswerForm.CHOICE,),
    split: str = "test",
    version: int = 1,
    submission: Callable[..., Path] | None = None,
) -> Task:
    """The task of a benchmark's questions.

    Args:
        requested: The functions that read, open and word the questions.
        name: The task's name.
        protocol: What scores them.
        arguments: The task's arguments with defaults filled in, for the record.
        forms: The forms of answer.
        split: The split's name.
        version: Raised when samples, question text or scoring change.
        submission: What writes the organisers' file, where the ground truth is hidden.
    """
    return Task(
        name=name,
        version=version,
        split=split,
        protocol=protocol,
        forms=(AnswerForm.TEXT,) if requested.as_text else tuple(forms),
        samples=requested.samples,
        annotations=requested.files,
        check=requested.check,
        check_samples=lost_media if requested.opens_all else None,
        submission=submission,
        arguments={"split": split, "protocol": protocol.name, **arguments},
    )


def table_task(
    name: str,
    place: Path,
    pattern: str,
    fields: Fields | Mapping[str, str],
    protocols: Mapping[str, Protocol],
    split: str,
    protocol: str,
    *,
    read: Callable[..., Question | None] | None = None,
    forms: Sequence[AnswerForm] = (AnswerForm.CHOICE,),
    videos: Videos | None = None,
    open: Callable[[Question], tuple[Media, ...]] = open_images,
    problems: Callable[[Question], Iterable[Problem]] = image_problems,
    arguments: Mapping[str, object] | None = None,
    fix: str = "",
    version: int = 1,
) -> Task:
    """The task of a benchmark whose questions stand in tables or lists, one a record.

    Args:
        name: The task's name.
        place: The benchmark's folder.
        pattern: What the files of the split are called below it.
        fields: The fields of a record; those that are needed, where `read` makes the questions.
        protocols: The benchmark's protocols.
        split: The split's name.
        protocol: The name of one of the protocols.
        read: Makes a question of a record, where it stands, and `place`, or None of one that is not
            in the split; by default `fields` do.
        forms: The forms of answer.
        videos: The benchmark's videos; None: questions have images.
        open: Opens a question's images, where there are no videos.
        problems: Yields the faults of a question's images, all of which `open` shows.
        arguments: Further arguments of the task, for the record; by default the choice of frames.
        fix: How the files are had; by default the command that says so of tasks with a card.
        version: Raised when samples, question text or scoring change.

    Raises:
        DataError: there are no files.
        UsageError: there is no such protocol.
    """
    scoring = choose("protocol", protocols, protocol)
    files = parts(place, pattern, name, fix=fix)
    if arguments is None:
        arguments = {"frames": str(videos.selection)} if videos else {}
    columns, optional = (
        (fields.columns, fields.optional) if isinstance(fields, Fields) else (fields, {})
    )
    if isinstance(fields, Fields):
        read = read or fields.read_record
    assert read is not None, "nothing else makes questions"
    make = partial(read, place=place)
    every = partial(read_records, files, columns, make, optional=optional)
    layout = QuestionFormat(
        files=files,
        read=lambda: (question for question in every() if question is not None),
        open=videos.open if videos else open,
        problems=videos.problems if videos else problems,
    )
    return question_task(
        layout,
        name,
        protocol=scoring,
        split=split,
        forms=forms,
        arguments=arguments,
        version=version,
    )


def parts(place: Path, pattern: str, name: str, *, fix: str = "") -> tuple[Path, ...]:
    """The files of a split of a task that `records` reads, in order.

    Raises:
        DataError: there is none.
    """
    fix = fix or f"`harness list tasks {name}` prints the source of the data."
    every = listed(folder(place, fix=fix), pattern)
    files = tuple(path for path in every if path.suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(f"folder {place}", expected=pattern, found="no such file", fix=fix)
    return files
