"""Read the rows of SPAR-Bench's tables (see `task`) as questions, after a check."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.metrics.spar import LEVELS, TASKS, VIEW_CHANGE
from harness.tasks.qa.questions import Question, numeric, read_records
from harness.tasks.qa.tables import images_of, text
from harness.types import Answer

COLUMNS = {
    "id": "number",
    "task": "one of twenty",
    "image": "images",
    "question": "question with its options",
    "answer": "letter, number or change of view",
}
OPTIONAL_COLUMNS = {"img_type": "single_view or multi_view", "source": "data set"}
BOX_TASKS = ("position_matching", "camera_motion_infer")
"""Tasks whose questions contain boxes in coordinates normalized to 1000."""
FOUR_LETTERS = "ABCD"


def read_questions(files: tuple[Path, ...]) -> Iterator[Question | DataError]:
    """Yield the question of each row in order, or its error."""
    for path in files:
        make = partial(_question, path.parent.parent)
        yield from read_records((path,), COLUMNS, make, optional=OPTIONAL_COLUMNS)


def _question(root: Path, row: Mapping[str, object], where: str) -> Question:
    """Return the question of a row; paths of image files are relative to `root`."""
    task, value = text(row, "task", where), text(row, "answer", where)
    if task not in TASKS:
        raise DataError(
            f"{where}: 'task'", expected=f"one of {', '.join(TASKS)}", found=repr(task)[:60]
        )
    if type(row["id"]) not in (int, str):
        raise DataError(f"{where}: 'id'", expected="a number", found=repr(row["id"])[:40])
    level = next(level for level, tasks in LEVELS.items() if task in tasks)
    extras = {"views": row.get("img_type"), "source": row.get("source")}
    optional_categories = {
        name: category if isinstance(category, str) else "" for name, category in extras.items()
    }
    return Question(
        id=str(row["id"]),
        text=text(row, "question", where),
        media=images_of(row["image"], f"{where}: 'image'", root),
        answer=_answer(task, value, where),
        categories={"task": task, "level": level, **optional_categories},
        extra={"task": task, "answer": value},
    )


def _answer(task: str, answer: str, where: str) -> Answer:
    """Return the true answer of a task: a number, a change of view in words, or a letter."""
    if task in LEVELS["Low"]:
        return Answer(number=numeric(answer, f"{where}: 'answer'"))
    if task == VIEW_CHANGE:
        return Answer(text=answer)
    if answer.upper() not in tuple(FOUR_LETTERS):
        raise DataError(f"{where}: 'answer'", expected="a letter A to D", found=repr(answer)[:40])
    return Answer(choice=answer.upper())
