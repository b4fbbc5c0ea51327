"""`table(file=…)`: a benchmark of one's own from a table and a TOML file, without code.

The description `signs.toml` beside `signs.jsonl`:

    name = "signs"
    [media]
    images = "image"
    folder = "images"
    [question]
    text = "question"
    options = "options"
    [answer]
    form = "choice"
    field = "answer"
    written = "letter"
"""

from pathlib import Path

from harness.errors import UsageError
from harness.layout import file as existing_file
from harness.spec import Spec
from harness.task import Task
from harness.tasks.qa.images import image_problems, open_images
from harness.tasks.qa.task import QuestionFormat, question_task
from harness.tasks.segmentation.task import Phrases, segmentation_task
from harness.tasks.table.description import VIDEOS, Description, read_description
from harness.tasks.table.frame_numbers import refuse_frame_numbers
from harness.tasks.table.protocols import chosen_protocol
from harness.tasks.table.records import Records
from harness.tasks.table.videos import expressions_task
from harness.types import AnswerForm

FIX = "`harness data init TABLE` writes a description; docs/tasks/table.md explains its keys."


def table(
    data: Path,
    *,
    file: Path,
    split: str = "test",
    protocol: str = "",
    frames: int | Spec | None = None,
) -> Task:
    """One sample a record; statistics cluster by image or video.

    Args:
        file: The table, with its description beside it (`signs.toml` beside `signs.jsonl`), or the
            description itself. A relative path begins at the working directory, or at the data
            root.
        split: One of the description's `files`; without them `test`, the table itself.
        protocol: In place of the description's.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
    """
    path = file if file.is_absolute() or file.exists() else data / file
    description = read_description(
        existing_file(path.with_suffix(".toml"), fix=FIX, expected="the table's description")
    )
    scoring = chosen_protocol(description.answer.form, protocol or description.scoring.protocol)
    records = Records(description, _table_of(path, description, split), frames, scoring.name)
    arguments = {"description": path.with_suffix(".toml").name}
    refuse_frame_numbers(description, records.table)
    if description.layout == VIDEOS:
        return expressions_task(description, records.table, scoring, split, arguments)
    if description.answer.form == "mask":
        return segmentation_task(
            Phrases(files=records.files, read=records.phrases),
            description.name,
            protocol=scoring,
            arguments=arguments,
            split=split,
            version=description.version,
        )
    videos = records.videos
    return question_task(
        QuestionFormat(
            files=records.files,
            read=records.questions,
            open=videos.open if videos else open_images,
            problems=videos.problems if videos else image_problems,
        ),
        description.name,
        protocol=scoring,
        arguments=arguments | ({"frames": str(videos.selection)} if videos else {}),
        forms=(AnswerForm(description.answer.form),),
        split=split,
        version=description.version,
    )


def _table_of(path: Path, description: Description, split: str) -> Path:
    """Return the table of a split.

    Raises:
        UsageError: there is no such split.
    """
    if not description.files:
        if split != "test" or path.suffix == ".toml":
            raise UsageError(
                f"table(file={path}, split={split})",
                expected=f"the table's path and split=test, or {path.with_suffix('.toml')} with "
                "its splits: [files]",
                found="no [files] in the description",
            )
        return path
    if split not in description.files:
        raise UsageError(
            f"table(split={split})", expected=" or ".join(description.files), found=repr(split)
        )
    return path.parent / description.files[split]
