"""TempCompass' questions: the repository's JSON files, or the hub's tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import field, inside, read_json, rows
from harness.metrics.tempcompass import ASPECTS

Format = Literal["multi-choice", "yes_no", "caption_matching", "captioning"]
FORMATS: tuple[Format, ...] = ("multi-choice", "yes_no", "caption_matching", "captioning")
COLUMNS = {"video_id": "file", "question": "question", "answer": "truth", "dim": "aspect"}
JUDGED = {"mc_question": "question for the judge", "mc_answer": "its truth"}


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    format: Format
    video: str
    aspect: str
    question: str
    """With its options, each on a line."""
    answer: str
    about: tuple[str, str] | None = None
    """For a caption: the question that tells whether it is right, and its answer."""
    kind: str = ""
    """The finer aspect, where the meta data tell it."""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Where the questions of some formats lie."""

    place: Path
    formats: tuple[Format, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """What decides samples and truth."""
        asked = [path for one in self.formats for path in self.of(one)]
        if "captioning" in self.formats and (again := self.of("multi-choice")):
            asked += [path for path in again if path.suffix == ".json" and path not in asked]
        meta = self.place / "meta_info.json"
        return (*asked, *([meta] if meta.is_file() else []))

    def of(self, format: Format) -> tuple[Path, ...]:
        """The files of one format: JSON, or the hub's table."""
        path = self.place / "questions" / f"{format}.json"
        return (path,) if path.is_file() else tuple(
            sorted((self.place / format).glob("test-*.parquet"))
        )  # fmt: skip


def read(listing: Listing) -> Iterator[Record | DataError]:
    """Every question in order, or why it cannot be read."""
    kinds = _kinds(listing.place / "meta_info.json")
    for format in listing.formats:
        numbers: dict[tuple[str, str], int] = {}
        for where, video, aspect, plain in _plain(listing, format):
            number = numbers.setdefault((video, aspect), 0)
            numbers[video, aspect] += 1
            try:
                yield _record(format, video, aspect, number, plain, where, kinds)
            except DataError as error:
                yield error


def _plain(listing: Listing, format: Format) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for path in listing.of(format):
        if path.suffix == ".parquet":
            more = JUDGED if format == "captioning" else {}
            for number, row in enumerate(rows(path, {**COLUMNS, **more})):
                yield f"{path}, row {number}", str(row["video_id"]), str(row["dim"]), row
            continue
        about = _first_choices(listing) if format == "captioning" else {}
        for where, video, aspect, plain in _nested(path):
            yield where, video, aspect, {**plain, **about.get((video, aspect), {})}


def _nested(path: Path) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    plain = read_json(path)
    for video in plain if isinstance(plain, dict) else _no_object(path):
        for aspect, questions in field(plain, video, dict, str(path)).items():
            where = f"{path}, video {video!r}, {aspect}"
            for number, one in enumerate(field(plain[video], aspect, list, where)):
                if not isinstance(one, dict):
                    raise DataError(where, expected="questions", found=repr(questions)[:60])
                yield f"{where}, question {number}", video, aspect, one


def _no_object(path: Path) -> tuple[str, ...]:
    raise DataError(f"file {path}", expected="an object by video", found="something else")


def _first_choices(listing: Listing) -> dict[tuple[str, str], dict[str, Any]]:
    """The first multiple-choice question on each aspect of each video: what captions must tell."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in listing.of("multi-choice"):
        for where, video, aspect, plain in _nested(path):
            found.setdefault((video, aspect), {
                "mc_question": field(plain, "question", str, where),
                "mc_answer": field(plain, "answer", str, where),
            })  # fmt: skip
    return found


def _kinds(path: Path) -> dict[tuple[str, str], str]:
    """The finer aspect of a video's aspect, from meta_info.json."""
    if not path.is_file():
        return {}
    plain, found = read_json(path), {}
    for video in plain if isinstance(plain, dict) else _no_object(path):
        aspects = field(plain[video], "eval_dim", dict, f"{path}, video {video!r}")
        for aspect, told in aspects.items():
            if isinstance(told, dict) and isinstance(told.get("type"), str):
                found[video, aspect] = told["type"]
    return found


def _record(
    format: Format, video: str, aspect: str, number: int, plain: Mapping[str, Any], where: str,
    kinds: Mapping[tuple[str, str], str],
) -> Record:  # fmt: skip
    question, answer = (field(plain, key, str, where) for key in ("question", "answer"))
    if aspect not in ASPECTS:
        raise DataError(where, expected=" or ".join(ASPECTS), found=repr(aspect)[:40])
    options = tuple(question.split("\n")[1:])
    if format in ("multi-choice", "caption_matching") and answer not in options:
        raise DataError(f"{where}: 'answer'", expected="one of the question's lines",
                        found=repr(answer)[:60])  # fmt: skip
    if format == "yes_no" and answer not in ("yes", "no"):
        raise DataError(f"{where}: 'answer'", expected="yes or no", found=repr(answer)[:60])
    about = None
    if format == "captioning":
        about = field(plain, "mc_question", str, where), field(plain, "mc_answer", str, where)
        options = tuple(about[0].split("\n")[1:])
    return Record(
        id=f"{format}/{video}/{aspect}/{number}", format=format, video=video, aspect=aspect,
        question=question, answer=answer, about=about, kind=kinds.get((video, aspect), ""),
        options=options if format != "yes_no" else (),
    )  # fmt: skip


def video_path(place: Path, video: str) -> Path:
    """Where a video lies."""
    return inside(place / "videos", f"{video}.mp4")
