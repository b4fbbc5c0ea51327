"""Video-MME's questions: the hub's table, or JSON in the form of its result files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.layout import field, inside, read_json, rows
from harness.tasks.video_qa.options import LETTERS, texts

COLUMNS = {
    "video_id": "number", "duration": "length", "domain": "domain", "sub_category": "domain",
    "videoID": "file", "question_id": "id", "task_type": "type", "question": "question",
    "options": "options", "answer": "truth",
}  # fmt: skip
DURATIONS = ("short", "medium", "long")
SUFFIXES = (".mp4", ".MP4", ".mkv", ".webm")
JSON = "videomme.json"


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    video: str
    """The name of the video's file, less its suffix."""
    question: str
    options: tuple[str, ...]
    answer: str
    """The letter of the right option."""
    duration: str
    domain: str
    sub_category: str
    task_type: str

    def categories(self) -> dict[str, str]:
        """What scores are broken down by."""
        return {"duration": self.duration, "domain": self.domain,
                "sub_category": self.sub_category, "task_type": self.task_type}  # fmt: skip


def files(place: Path) -> tuple[Path, ...]:
    """The files that hold the questions: a table wherever the hub's download puts it, or JSON."""
    for folder in (place / "videomme", place / "data", place):
        if found := sorted(folder.glob("test-*.parquet")):
            return tuple(found)
    return (place / JSON,) if (place / JSON).is_file() else ()


def read(paths: tuple[Path, ...]) -> Iterator[Record | DataError]:
    """Every question in order, or why it cannot be read."""
    for path in paths:
        for where, plain in _plain(path):
            try:
                yield _record(plain, where)
            except DataError as error:
                yield error


def _plain(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.suffix == ".parquet":
        for number, row in enumerate(rows(path, COLUMNS)):
            yield f"{path}, row {number}", row
        return
    videos = read_json(path)
    if not isinstance(videos, list):
        raise DataError(f"file {path}", expected="a list of videos", found=type(videos).__name__)
    for number, video in enumerate(videos):
        where = f"{path}, video {number}"
        for question in field(video, "questions", list, where):
            if not isinstance(question, dict):
                raise DataError(f"{where}: 'questions'", expected="objects",
                                found=repr(question)[:60])  # fmt: skip
            shared = {key: video.get(key) for key in ("duration", "domain", "sub_category")}
            name = video.get("videoID", video.get("video_id"))
            yield where, {**shared, "videoID": name, **question}


def _record(plain: Mapping[str, Any], where: str) -> Record:
    plain = dict(plain)
    where = f"{where}, question {field(plain, 'question_id', str, where)!r}"
    words = {key: field(plain, key, str, where) for key in COLUMNS if key not in
             ("options", "video_id")}  # fmt: skip
    options = field(plain, "options", list, where)
    if not all(isinstance(option, str) for option in options):
        raise DataError(f"{where}: 'options'", expected="texts", found=repr(options)[:60])
    given = texts(options, where)
    if words["answer"] not in LETTERS[: len(options)] or not words["answer"]:
        raise DataError(f"{where}: 'answer'", expected="the letter of an option",
                        found=repr(words["answer"])[:40])  # fmt: skip
    if words["duration"] not in DURATIONS:
        raise DataError(f"{where}: 'duration'", expected=" or ".join(DURATIONS),
                        found=repr(words["duration"])[:40])  # fmt: skip
    return Record(
        id=words["question_id"], video=words["videoID"], question=words["question"],
        options=given, answer=words["answer"], duration=words["duration"],
        domain=words["domain"], sub_category=words["sub_category"], task_type=words["task_type"],
    )  # fmt: skip


def video_path(place: Path, name: str) -> Path:
    """Where a video lies, in any of its formats; the first of them if it is missing."""
    tried = [inside(folder, f"{name}{suffix}")
             for folder in (place / "data", place / "videos") for suffix in SUFFIXES]  # fmt: skip
    return next((path for path in tried if path.is_file()), tried[0])


def subtitle_path(place: Path, name: str) -> Path:
    """Where a video's subtitles lie, if it has any."""
    return inside(place / "subtitle", f"{name}.srt")
