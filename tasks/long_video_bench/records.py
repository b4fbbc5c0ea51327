"""LongVideoBench's questions: its JSON files, or the hub's tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import field, inside, read_json, rows
from harness.tasks.video_qa.options import LETTERS

Split = Literal["val", "test"]
JSON: Mapping[Split, str] = {"val": "lvb_val.json", "test": "lvb_test_wo_gt.json"}
TABLE: Mapping[Split, str] = {"val": "validation-*.parquet", "test": "test-*.parquet"}
SLOTS = tuple(f"option{number}" for number in range(5))
NOTHING = "N/A"
"""What fills the hub's five columns of options where there are fewer."""
COLUMNS = {
    "id": "id", "video_path": "file", "subtitle_path": "file", "correct_choice": "truth",
    "question": "question", "duration": "seconds", "duration_group": "length",
    "question_category": "category", "topic_category": "category",
    "starting_timestamp_for_subtitles": "seconds", **dict.fromkeys(SLOTS, "option"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    video: Path
    subtitles: Path
    question: str
    options: tuple[str, ...]
    correct: int | None
    """The place of the right option from 0; None where the organisers keep it."""
    duration: float
    """Seconds of the video."""
    starts: float
    """Seconds of the source at which the video begins, by which its subtitles are timed."""
    categories: Mapping[str, str]

    @property
    def letter(self) -> str | None:
        """The letter of the right option."""
        return None if self.correct is None else LETTERS[self.correct]


def files(place: Path, split: Split) -> tuple[Path, ...]:
    """The files that hold a split's questions: JSON, or the hub's table."""
    if (place / JSON[split]).is_file():
        return (place / JSON[split],)
    for folder in (place, place / "data"):
        if found := sorted(folder.glob(TABLE[split])):
            return tuple(found)
    return ()


def read(place: Path, paths: tuple[Path, ...], split: Split) -> Iterator[Record | DataError]:
    """Every question in order, or why it cannot be read."""
    for path in paths:
        for where, plain in _plain(path):
            try:
                yield _record(place, plain, where, hidden=split == "test")
            except DataError as error:
                yield error


def _plain(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".parquet":
        for number, row in enumerate(rows(path, COLUMNS)):
            options = [row.pop(slot) for slot in SLOTS]
            given = [one for one in options if one is not None and one != NOTHING]
            yield f"{path}, row {number}", {**row, "candidates": given}
        return
    plain = read_json(path)
    if not isinstance(plain, list):
        raise DataError(f"file {path}", expected="a list of questions", found=type(plain).__name__)
    for number, one in enumerate(plain):
        yield f"{path}, record {number}", one


def _record(place: Path, plain: Any, where: str, *, hidden: bool) -> Record:
    where = f"{where}, id {field(plain, 'id', str, where)!r}"
    options = field(plain, "candidates", list, where)
    if not 2 <= len(options) <= len(SLOTS) or not all(isinstance(one, str) for one in options):
        raise DataError(f"{where}: 'candidates'", expected=f"2 to {len(SLOTS)} texts",
                        found=repr(options)[:60])  # fmt: skip
    number = (int, float)
    group = field(plain, "duration_group", number, where)
    return Record(
        id=plain["id"],
        video=inside(place / "videos", field(plain, "video_path", str, where)),
        subtitles=inside(place / "subtitles", field(plain, "subtitle_path", str, where)),
        question=field(plain, "question", str, where),
        options=tuple(options),
        correct=None if hidden else _correct(plain, len(options), where),
        duration=field(plain, "duration", number, where),
        starts=field(plain, "starting_timestamp_for_subtitles", number, where),
        categories={
            "duration_group": str(int(group)),
            "question_category": field(plain, "question_category", str, where),
            "topic_category": field(plain, "topic_category", str, where),
        },
    )


def _correct(plain: Mapping[str, Any], options: int, where: str) -> int:
    correct: int = field(plain, "correct_choice", int, where)
    if not 0 <= correct < options:
        raise DataError(f"{where}: 'correct_choice'", expected=f"0 to {options - 1}",
                        found=str(correct))  # fmt: skip
    return correct
