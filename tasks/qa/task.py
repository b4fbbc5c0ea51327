"""Make a `Task` of a benchmark's questions: their samples, and the check of their files.

A benchmark with one record a question calls `table_task` with its `Fields`; others build a
`QuestionFormat` and call `question_task`.
"""

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
from harness.tasks.qa.videos import Choose, FrameSelection, find, open_video, video_or_lost
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

LETTERED = (AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.TEXT)
"""Forms of answer whose targets have the true letter and the letters of options in `extra`."""


@dataclass(frozen=True, slots=True)
class Videos:
    """A benchmark's videos: files, or folders of frames."""

    folders: tuple[Path, ...]
    frames: int | Spec | None = None
    """Rule of `harness.frames` for the frames of a question; None: all frames, of which a model
    chooses by its own rule."""
    patterns: tuple[str, ...] = ("{}",)
    """File names of a video, with braces for the name in records; the first that exists counts."""
    frames_per_second: float = 1.0
    """Frame rate of videos that are folders of frames."""

    def __post_init__(self) -> None:
        FrameSelection(self.frames)  # raises UsageError now, and not at the first question

    @property
    def selection(self) -> FrameSelection:
        """The rule `frames` as a value; its `str` is for the record."""
        return FrameSelection(self.frames)

    def path(self, name: str) -> Path:
        """Return the path of a video.

        Raises:
            DataError: the name leaves the folder.
            MediaError: it is missing.
        """
        return find(self.folders, name, patterns=self.patterns)

    def open(self, question: Question) -> tuple[Media, ...]:
        """Open a question's video, or a placeholder if it is missing or damaged."""
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


def _within(question: Question, choose_frames: Choose | None) -> Choose | None:
    """Return `choose_frames` limited to the question's part of the video, if it has one."""
    return choose_frames if question.clip is None else question.clip.choose(choose_frames)


def plain_text(question: Question, media: Media) -> str:
    """Return the question's text as the record has it."""
    return question.text


def wording_of(package: str, prompt: str) -> Callable[[Question, Media], str]:
    """Return a function that fills a prompt of a package's `prompts.toml` for a question.

    The prompt's fields are `question`, `options` and those of the record. The entry `option` of the
    file, such as `({letter}) {text}`, is the form of an option; by default `A. left`.
    """

    def text(question: Question, media: Media) -> str:
        wordings = templates(package)
        form = wordings.get("option", "{letter}. {text}")
        pairs = zip(ascii_uppercase, question.options, strict=False)
        options = "\n".join(form.format(letter=letter, text=text) for letter, text in pairs)
        fields = {**question.row, "question": question.text, "options": options}
        return wordings[prompt].format_map(fields)

    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFormat:
    """Functions that read a benchmark's questions, open their media and write their prompts."""

    files: Sequence[Path]
    """The annotation files, whose content decides the questions."""
    read: Callable[[], Iterator[Question | DataError]]
    """Yields each question, or the error of its record."""
    choose: Callable[[], Iterator[Question]] | None = None
    """Yields the questions that become samples; None: all, up to the first error."""
    open: Callable[[Question], tuple[Media, ...]]
    """Opens a question's media; an unreadable one becomes a placeholder."""
    problems: Callable[[Question], Iterable[Problem]]
    """Yields the faults of a question's media and of files that belong to them, as subtitles."""
    opens_all: bool = True
    """True if every fault that `problems` finds also shows in `open` (a placeholder) or in `text`
    (a DataError)."""
    text: Callable[[Question, Media], str] = plain_text
    """Returns the question's text, from the question and the first of its media."""
    separate_options: bool = True
    """True if options are in `Query.options`; False: they are part of the text."""
    answer_as_text: bool = False
    """True if the form of answer is TEXT, and the scorer finds the letter in the response."""

    def samples(self) -> Iterator[Sample]:
        """Yield one sample a question, in the order of the files.

        Raises:
            DataError: a record is invalid.
        """
        yield from map(self._sample, self.choose() if self.choose else sound(self.read()))

    def check(self) -> Iterator[Problem]:
        """Yield the faults of all records, and those of each medium (or part of a video) once."""
        looked_at: set[object] = set()
        question = None
        try:
            for question in self.read():
                if isinstance(question, DataError):
                    yield self._as_problem(question)
                    continue
                try:
                    yield from self._new_problems(question, looked_at)
                except DataError as error:
                    yield self._as_problem(error, f"question {question.id!r}")
        except DataError as error:
            yield self._as_problem(error)
        else:
            if question is None:
                yield Problem(str(self.files[0]), "holds no questions")

    def _new_problems(self, question: Question, looked_at: set[object]) -> Iterable[Problem]:
        """Return the faults of media that are not in `looked_at`, and add the media to it."""
        medium_key = question.media, question.clip, question.size
        if medium_key in looked_at:
            return ()
        if bytes not in map(type, question.media):  # encoded images would fill the memory
            looked_at.add(medium_key)
        return self.problems(question)

    def _as_problem(self, error: DataError, default: str = "") -> Problem:
        """Return an error as a problem of the file that it names, else of `default`."""
        paths = [str(path) for path in self.files]
        files = [path for path in paths if f"{path}," in str(error) or f"{path}:" in str(error)]
        return Problem(files[0] if files else default or paths[0], str(error))

    def _sample(self, question: Question) -> Sample:
        """Return the sample of a question, with its media opened."""
        media = self.open(question)
        letter = None if question.answer is None else question.answer.choice
        answer_as_text = self.answer_as_text and (letter is not None or question.answer is None)
        return Sample(
            id=question.id,
            query=Query(
                id=query_id(question.id),
                text=self.text(question, media[0]),
                media=media,
                forms=(AnswerForm.TEXT if answer_as_text else form_of(question),),
                options=question.options if self.separate_options else (),
                objects=question.objects,
                problem_type=question.problem_type,
            ),
            target=_target(question, as_text=answer_as_text),
            unit=question.unit,
            group=question.group or media[0].id,
            categories={name: value for name, value in question.categories.items() if value},
        )


def form_of(question: Question) -> AnswerForm:
    """Return the form of answer of a question.

    It is the form that the question names; else CHOICE if it has options, a true letter or no true
    answer; else the form of the true answer.
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
    """Return the target of a question; None: the true answer is secret."""
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
    """Return the task of a benchmark's questions.

    Args:
        requested: The questions, and the functions on them.
        name: Name of the task.
        protocol: Protocol that scores the answers.
        arguments: Arguments of the task with defaults filled in, for the record.
        forms: Forms of answer.
        split: Name of the split.
        version: Raised when samples, question text or scoring change.
        submission: Writes the file for the organisers, if they keep the true answers.
    """
    return Task(
        name=name,
        version=version,
        split=split,
        protocol=protocol,
        forms=(AnswerForm.TEXT,) if requested.answer_as_text else tuple(forms),
        samples=requested.samples,
        annotations=requested.files,
        check=requested.check,
        check_samples=lost_media if requested.opens_all else None,
        submission=submission,
        arguments={"split": split, "protocol": protocol.name, **arguments},
    )


def table_task(
    name: str,
    root: Path,
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
    """Return the task of a benchmark whose files have one record a question.

    Args:
        name: Name of the task.
        root: Folder of the benchmark.
        pattern: Glob pattern of the split's files below it.
        fields: Declaration of a record's fields; with `read`, only the required ones by name.
        protocols: Protocols of the benchmark by name.
        split: Name of the split.
        protocol: Name of the chosen protocol.
        read: Function of a record, its position and `root`, that returns the question, or None if
            the record is not in the split; by default `fields.read_record`.
        forms: Forms of answer.
        videos: Videos of the benchmark; None: questions have images.
        open: Opens a question's images, if there are no videos.
        problems: Yields the faults of a question's images; each must also show in `open`.
        arguments: Further arguments of the task, for the record; by default the choice of frames.
        fix: Remedy in errors about missing files; by default the command that names their source.
        version: Raised when samples, question text or scoring change.

    Raises:
        DataError: there are no files.
        UsageError: there is no such protocol.
    """
    scoring = choose("protocol", protocols, protocol)
    files = split_files(root, pattern, name, fix=fix)
    if arguments is None:
        arguments = {"frames": str(videos.selection)} if videos else {}
    optional: Mapping[str, str] = {}
    if isinstance(fields, Fields):
        columns: Mapping[str, str] = fields.columns
        optional = fields.optional
        read = read or fields.read_record
    else:
        columns = fields
    assert read is not None, "without Fields, `read` is required"
    results = partial(
        read_records, files, columns, lambda row, where: read(row, where, root), optional=optional
    )
    question_format = QuestionFormat(
        files=files,
        read=lambda: (question for question in results() if question is not None),
        open=videos.open if videos else open,
        problems=videos.problems if videos else problems,
    )
    return question_task(
        question_format,
        name,
        protocol=scoring,
        split=split,
        forms=forms,
        arguments=arguments,
        version=version,
    )


def split_files(root: Path, pattern: str, name: str, *, fix: str = "") -> tuple[Path, ...]:
    """Return the files of a split, in order: those of `pattern` with a suffix of `SUFFIXES`.

    Raises:
        DataError: there are none.
    """
    fix = fix or f"`harness list tasks {name}` prints the source of the data."
    paths = listed(folder(root, fix=fix), pattern)
    files = tuple(path for path in paths if path.suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(f"folder {root}", expected=pattern, found="no such file", fix=fix)
    return files
