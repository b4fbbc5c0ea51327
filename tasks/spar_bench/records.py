"""Rows of SPAR-Bench, a few at a time, checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.layout import inside
from harness.metrics.spar import LEVELS, TASKS, VIEW_CHANGE
from harness.tasks.spatial.tables import records, text

COLUMNS = {
    "id": "number", "task": "one of twenty", "image": "pictures", "question": "question with its "
    "options", "answer": "letter, number or change of view",
}  # fmt: skip
OPTIONAL = {"img_type": "single_view or multi_view", "source": "data set"}
BOXES = ("position_matching", "camera_motion_infer")
"""The tasks whose questions speak of boxes in thousandths."""
LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    """The file's `id`."""
    task: str
    source: str
    views: str
    question: str
    answer: str
    pictures: tuple[bytes | Path, ...]
    """Encoded files, or where they lie."""

    @property
    def level(self) -> str:
        """Low, Middle or High."""
        return next(level for level, tasks in LEVELS.items() if self.task in tasks)

    @property
    def is_number(self) -> bool:
        """Whether a number is asked for."""
        return self.task in LEVELS["Low"]

    @property
    def is_view(self) -> bool:
        """Whether a change of view is asked for, in words."""
        return self.task == VIEW_CHANGE


def read(files: tuple[Path, ...]) -> Iterator[Record | DataError]:
    """Every row in order: what was read, or why it cannot be."""
    for path in files:
        for where, row in records(path, COLUMNS, optional=OPTIONAL):
            try:
                yield _record(row, where, path.parent.parent)
            except DataError as error:
                yield error


def _record(row: Mapping[str, Any], where: str, place: Path) -> Record:
    task, answer = text(row, "task", where), text(row, "answer", where)
    if task not in TASKS:
        raise DataError(f"{where}: 'task'", expected=f"one of {', '.join(TASKS)}",
                        found=repr(task)[:60])  # fmt: skip
    if type(row["id"]) not in (int, str):
        raise DataError(f"{where}: 'id'", expected="a number", found=repr(row["id"])[:40])
    record = Record(
        id=str(row["id"]), task=task, question=text(row, "question", where), answer=answer,
        source=row["source"] if isinstance(row.get("source"), str) else "",
        views=row["img_type"] if isinstance(row.get("img_type"), str) else "",
        pictures=_pictures(row["image"], where, place),
    )  # fmt: skip
    if record.is_number and not _is_number(answer):
        raise DataError(f"{where}: 'answer'", expected="a number", found=repr(answer)[:40])
    if not record.is_number and not record.is_view and answer.upper() not in LETTERS:
        raise DataError(f"{where}: 'answer'", expected="a letter A to D", found=repr(answer)[:40])
    return record


def _pictures(value: Any, where: str, place: Path) -> tuple[bytes | Path, ...]:
    """Each picture's bytes, or its file below the folder where the table has none."""
    entries = value if isinstance(value, list) else [value]
    found: list[bytes | Path] = []
    for entry in entries:
        data = entry.get("bytes") if isinstance(entry, dict) else None
        name = entry.get("path") if isinstance(entry, dict) else entry
        if data:
            found.append(data)
        elif name:
            found.append(inside(place, name))
        else:
            raise DataError(f"{where}: 'image'", expected="bytes or a path for each picture",
                            found=repr(entry)[:60])  # fmt: skip
    if not found:
        raise DataError(f"{where}: 'image'", expected="at least one picture", found="none")
    return tuple(found)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e12
    except ValueError:
        return False
