r"""ViewSpatial-Bench: position and orientation of things, as seen by the camera or by a person.

A row: `{"images": […], "question": "…", "choices": "A. left\\nB. right…", "answer": "A. left",
"question_type": "Camera perspective - Relative Direction"}`

Without tables, the authors' `ViewSpatial-Bench.json` is read, whose records name their images in
`image_path`. If there are several copies of this file, the one with the shortest path is read.
"""

from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Literal

from harness.foreign import listed
from harness.metrics.letter_readers import view_spatial_choice
from harness.task import Task
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task

FIELDS = Fields(
    id="{_file}/{_index}",
    images=("images",),
    options="choices",
    lettered=True,
    form="marked",
    categories={"question_type": "question_type"},
)
TABLES = "**/test-*.parquet"
JSON = "ViewSpatial-Bench.json"
PROTOCOLS = letter_protocols(
    "viewspatial",
    official=Reading(any_letters(view_spatial_choice), "the first A to D, alone, in the last line"),
)


def view_spatial(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "viewspatial/official"
) -> Task:
    """One sample per question; `protocol` is `viewspatial/official` or `viewspatial/strict`."""
    root, files, fields = data / "view_spatial", TABLES, FIELDS
    copies = [] if listed(root, TABLES) else listed(root, f"**/{JSON}")
    if copies:
        first = min(copies, key=lambda path: len(path.parts)).relative_to(root)
        files, fields = escape(first.as_posix()), replace(FIELDS, images=("image_path",))
    return table_task("view_spatial", root, files, fields, PROTOCOLS, split, protocol, version=2)
