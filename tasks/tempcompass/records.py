"""Reader of TempCompass' questions, from the repository's JSON files or the Hugging Face tables.

A question belongs to a video, one of its temporal aspects (such as speed), and one of four formats.
The JSON of a format is `{video: {aspect: [{"question": …, "answer": …}, …]}}`; a table has one row
per question, with COLUMNS.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from harness.errors import DataError
from harness.foreign import listed
from harness.layout import JsonFile, JsonIndex, field, rows
from harness.metrics.tempcompass import ASPECTS

Format: TypeAlias = Literal["multi-choice", "yes_no", "caption_matching", "captioning"]
FORMATS: tuple[Format, ...] = get_args(Format)
COLUMNS = ("video_id", "question", "answer", "dim")  # `dim` is the aspect
JUDGE_COLUMNS = ("mc_question", "mc_answer")
"""Further columns of captions: the multiple-choice question that a judge answers from a caption."""


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    format: Format
    video: str
    aspect: str
    question: str
    """Text of the question, followed by its options, one per line."""
    answer: str
    judge_question: tuple[str, str] | None = None
    """For a caption: the multiple-choice question that a judge answers from it, and its answer."""
    aspect_type: str = ""
    """Finer aspect, such as "absolute speed"; empty if meta_info.json does not have it."""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Files with the questions of some formats."""

    root: Path
    formats: tuple[Format, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that decide samples and ground truth; their hashes go into the run's record."""
        paths = [path for name in self.formats for path in self.files_of(name)]
        if "captioning" in self.formats:
            # The hub's table of captions holds the judge's questions itself.
            judge_files = [path for path in self.files_of("multi-choice") if path.suffix == ".json"]
            paths += [path for path in judge_files if path not in paths]
        meta = self.root / "meta_info.json"
        return (*paths, *([meta] if meta.is_file() else []))

    def files_of(self, form: Format) -> tuple[Path, ...]:
        """Return the files of one format: the JSON file, or else the hub's table."""
        path = self.root / "questions" / f"{form}.json"
        if path.is_file():
            return (path,)
        return tuple(listed(self.root / form, "test-*.parquet"))


class RawQuestion(NamedTuple):
    """A question with its unchecked fields, from a table or a JSON file."""

    where: str
    """File and position of the question, for messages."""
    video: str
    aspect: str
    number: int
    """Number among the questions of this format on this aspect of the video, from 0."""
    fields: Mapping[str, Any]


def read_records(listing: Listing) -> Iterator[Record | DataError]:
    """Yield every question in order, or an error in place of a question or of the rest of a file.

    Raises:
        DataError: meta_info.json, or for captions the JSON of multiple choice, is damaged.
    """
    meta = listing.root / "meta_info.json"
    types = JsonIndex(JsonFile(meta)) if meta.is_file() else {}
    for form in listing.formats:
        is_json = any(path.suffix == ".json" for path in listing.files_of(form))
        judge_fields = _judge_fields(listing) if form == "captioning" and is_json else None
        for raw in _raw_questions(listing, form):
            if isinstance(raw, DataError):
                yield raw
                continue
            try:
                if judge_fields is not None:
                    raw = raw._replace(fields={**raw.fields, **judge_fields(raw.video, raw.aspect)})
                yield _record(form, raw, _finer_aspect(types, raw.video, raw.aspect, str(meta)))
            except DataError as error:
                yield error


def _raw_questions(listing: Listing, form: Format) -> Iterator[RawQuestion | DataError]:
    """Yield the questions of a format; an error stands for a question or the rest of a file."""
    # Tables do not number the questions on a (video, aspect); the count runs on from file to file.
    numbers: Counter[tuple[str, str]] = Counter()
    for path in listing.files_of(form):
        try:
            if path.suffix.lower() == ".parquet":
                yield from _questions_of_table(path, form, numbers)
            else:
                yield from _questions_of_json(path)
        except DataError as error:
            yield error


def _questions_of_table(
    path: Path, form: Format, numbers: Counter[tuple[str, str]]
) -> Iterator[RawQuestion]:
    """Yield a table's questions; `numbers` counts those so far of each (video, aspect)."""
    columns = (*COLUMNS, *(JUDGE_COLUMNS if form == "captioning" else ()))
    for number, row in enumerate(rows(path, columns)):
        key = str(row["video_id"]), str(row["dim"])
        yield RawQuestion(f"{path}, row {number}", *key, numbers[key], row)
        numbers[key] += 1


def _questions_of_json(path: Path) -> Iterator[RawQuestion | DataError]:
    """Yield a JSON file's questions, or an error in place of the rest of a video."""
    for entry in JsonFile(path).entries():
        try:
            yield from _questions_of_video(entry.parse(), str(entry.key), path)
        except DataError as error:
            yield error


def _questions_of_video(plain: Any, video: str, path: Path) -> Iterator[RawQuestion]:
    """Yield the questions of `{aspect: [question, …]}`, the entry of one video."""
    aspects = field({video: plain}, video, dict, str(path))
    for aspect in aspects:
        where = f"{path}, video {video!r}, {aspect}"
        for number, entry in enumerate(field(aspects, aspect, list, where)):
            if not isinstance(entry, dict):
                raise DataError(where, expected="questions", found=repr(entry)[:60])
            yield RawQuestion(f"{where}, question {number}", video, aspect, number, entry)


def _judge_fields(listing: Listing) -> Callable[[str, str], dict[str, str]]:
    """Return a function from (video, aspect) to the fields JUDGE_COLUMNS for a caption.

    The fields are the first multiple-choice question on the aspect, or {} if there is none. The
    repository's JSON of captions lacks them; the hub's table of captions has them.
    """
    indices = [
        JsonIndex(JsonFile(path))
        for path in listing.files_of("multi-choice")
        if path.suffix == ".json"
    ]

    def look_up(video: str, aspect: str) -> dict[str, str]:
        for index in indices:
            for raw in _questions_of_video(index.get(video, {}), video, index.file.path):
                if raw.aspect == aspect:
                    return {
                        "mc_question": field(raw.fields, "question", str, raw.where),
                        "mc_answer": field(raw.fields, "answer", str, raw.where),
                    }
        return {}

    return look_up


def _finer_aspect(types: Mapping[str, Any], video: str, aspect: str, meta: str) -> str:
    """Return the finer aspect of a video's aspect, from meta_info.json; empty if it has none."""
    if aspect == "order":
        return aspect  # meta_info.json gives no type for it; the official table shows it as its own
    plain = types.get(video)
    if plain is None:
        return ""
    dimension = field(plain, "eval_dim", dict, f"{meta}, video {video!r}").get(aspect)
    finer = dimension.get("type") if isinstance(dimension, dict) else None
    return finer if isinstance(finer, str) else ""


def _record(form: Format, raw: RawQuestion, aspect_type: str) -> Record:
    """Return a question's record after a check of its fields and of its answer for the format."""
    question, answer = (field(raw.fields, key, str, raw.where) for key in ("question", "answer"))
    if raw.aspect not in ASPECTS:
        raise DataError(raw.where, expected=" or ".join(ASPECTS), found=repr(raw.aspect)[:40])
    options = tuple(question.split("\n")[1:])
    if form in ("multi-choice", "caption_matching") and answer not in options:
        raise DataError(
            f"{raw.where}: 'answer'",
            expected="one of the question's lines",
            found=repr(answer)[:60],
        )
    if form == "yes_no" and answer not in ("yes", "no"):
        raise DataError(f"{raw.where}: 'answer'", expected="yes or no", found=repr(answer)[:60])
    judge_question = None
    if form == "captioning":
        text, right = (field(raw.fields, key, str, raw.where) for key in JUDGE_COLUMNS)
        judge_question, options = (text, right), tuple(text.split("\n")[1:])
    return Record(
        id=f"{form}/{raw.video}/{raw.aspect}/{raw.number}",
        format=form,
        video=raw.video,
        aspect=raw.aspect,
        question=question,
        answer=answer,
        judge_question=judge_question,
        aspect_type=aspect_type,
        options=options if form != "yes_no" else (),
    )
