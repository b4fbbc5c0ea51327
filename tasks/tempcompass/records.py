"""TempCompass' questions: the repository's JSON files, or the hub's tables."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from harness.errors import DataError
from harness.layout import JsonFile, JsonIndex, field, rows
from harness.metrics.tempcompass import ASPECTS

Format = Literal["multi-choice", "yes_no", "caption_matching", "captioning"]
FORMATS: tuple[Format, ...] = ("multi-choice", "yes_no", "caption_matching", "captioning")
COLUMNS = {"video_id": "file", "question": "question", "answer": "ground_truth", "dim": "aspect"}
JUDGED = {"mc_question": "question for the judge", "mc_answer": "its ground truth"}


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    format: Format
    video: str
    aspect: str
    question: str
    """Text with its options, each on a line."""
    answer: str
    about: tuple[str, str] | None = None
    """For a caption: the question that checks it, and its answer."""
    kind: str = ""
    """Finer aspect, if the meta data have it."""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Files with the questions of some formats."""

    place: Path
    formats: tuple[Format, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that decide samples and ground truth."""
        requested = [path for one in self.formats for path in self.files_of(one)]
        if "captioning" in self.formats and (again := self.files_of("multi-choice")):
            requested += [
                path for path in again if path.suffix == ".json" and path not in requested
            ]
        meta = self.place / "meta_info.json"
        return (*requested, *([meta] if meta.is_file() else []))

    def files_of(self, format: Format) -> tuple[Path, ...]:
        """The files of one format: JSON, or the hub's table."""
        path = self.place / "questions" / f"{format}.json"
        return (
            (path,)
            if path.is_file()
            else tuple(sorted((self.place / format).glob("test-*.parquet")))
        )


def read_records(listing: Listing) -> Iterator[Record | DataError]:
    """Every question in order, or why it cannot be read."""
    meta = listing.place / "meta_info.json"
    kinds = JsonIndex(JsonFile(meta)) if meta.is_file() else {}
    for format in listing.formats:
        numbers: Counter[tuple[str, str]] = Counter()
        for path in listing.files_of(format):
            given = (
                _rows(path, format, numbers) if path.suffix == ".parquet" else _iter_nested(path)
            )
            about = _first_choices(listing) if format == "captioning" else None
            for where, video, aspect, number, plain in given:
                try:
                    if about is not None and path.suffix == ".json":
                        plain = {**plain, **about(video, aspect)}
                    yield _record(
                        format,
                        video,
                        aspect,
                        number,
                        plain,
                        where,
                        _finer_aspect(kinds, video, aspect, str(meta)),
                    )
                except DataError as error:
                    yield error


Placed: TypeAlias = tuple[str, str, str, int, Mapping[str, object]]
"""Place of a question, its video, its aspect, its number among theirs, and the question."""


def _rows(path: Path, format: Format, numbers: "Counter[tuple[str, str]]") -> Iterator[Placed]:
    more = JUDGED if format == "captioning" else {}
    for number, row in enumerate(rows(path, {**COLUMNS, **more})):
        key = str(row["video_id"]), str(row["dim"])
        yield f"{path}, row {number}", *key, numbers[key], row
        numbers[key] += 1


def _iter_nested(path: Path) -> Iterator[Placed]:
    for entry in JsonFile(path).entries():
        yield from _of_video(entry.parse(), str(entry.key), path)


def _of_video(plain: object, video: str, path: Path) -> Iterator[Placed]:
    aspects = field({video: plain}, video, dict, str(path))
    for aspect in aspects:
        where = f"{path}, video {video!r}, {aspect}"
        for number, one in enumerate(field(aspects, aspect, list, where)):
            if not isinstance(one, dict):
                raise DataError(where, expected="questions", found=repr(one)[:60])
            yield f"{where}, question {number}", video, aspect, number, one


def _first_choices(listing: Listing) -> Callable[[str, str], dict[str, str]]:
    """Return the first multiple-choice question on an aspect of a video, which captions must
    answer.
    """
    indices = [
        JsonIndex(JsonFile(path))
        for path in listing.files_of("multi-choice")
        if path.suffix == ".json"
    ]

    def about(video: str, aspect: str) -> dict[str, str]:
        for index in indices:
            for where, _, found, _, plain in _of_video(
                index.get(video, {}), video, index.file.path
            ):
                if found == aspect:
                    return {
                        "mc_question": field(plain, "question", str, where),
                        "mc_answer": field(plain, "answer", str, where),
                    }
        return {}

    return about


def _finer_aspect(kinds: Mapping[str, object], video: str, aspect: str, meta: str) -> str:
    """Return the finer aspect of a video's aspect, from meta_info.json; empty where it has none."""
    if aspect == "order":
        return aspect  # of which the file names no type, and the official table does
    plain = kinds.get(video)
    if plain is None:
        return ""
    info = field(plain, "eval_dim", dict, f"{meta}, video {video!r}").get(aspect)
    kind = info.get("type") if isinstance(info, dict) else None
    return kind if isinstance(kind, str) else ""


def _record(
    format: Format,
    video: str,
    aspect: str,
    number: int,
    plain: Mapping[str, object],
    where: str,
    kind: str,
) -> Record:
    question, answer = (field(plain, key, str, where) for key in ("question", "answer"))
    if aspect not in ASPECTS:
        raise DataError(where, expected=" or ".join(ASPECTS), found=repr(aspect)[:40])
    options = tuple(question.split("\n")[1:])
    if format in ("multi-choice", "caption_matching") and answer not in options:
        raise DataError(
            f"{where}: 'answer'", expected="one of the question's lines", found=repr(answer)[:60]
        )
    if format == "yes_no" and answer not in ("yes", "no"):
        raise DataError(f"{where}: 'answer'", expected="yes or no", found=repr(answer)[:60])
    about = None
    if format == "captioning":
        about = field(plain, "mc_question", str, where), field(plain, "mc_answer", str, where)
        options = tuple(about[0].split("\n")[1:])
    return Record(
        id=f"{format}/{video}/{aspect}/{number}",
        format=format,
        video=video,
        aspect=aspect,
        question=question,
        answer=answer,
        about=about,
        kind=kind,
        options=options if format != "yes_no" else (),
    )
