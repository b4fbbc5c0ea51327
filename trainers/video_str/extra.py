"""Sources of true graphs and maps, by the name that a trainer's `graphs=` has."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from harness.errors import UsageError
from harness.task import Task
from harness.trainers.video_str.graphs import Extra, Sidecar, read_graphs
from harness.types import Sample


def no_extra(task: Task, sample: Sample) -> Mapping[str, object]:
    """The source for targets that carry their graphs or maps themselves."""
    del task, sample
    return {}


def extra_of(setting: str | None) -> Extra:
    """Return the function for a trainer's setting `graphs=`: no additions, generated, or a file.

    Raises:
        UsageError: there is no such file.
    """
    if setting is None:
        return no_extra
    if setting in ("shapes", "shapes_canvas"):
        from harness.trainers.video_str.shapes import shapes_extra

        return partial(shapes_extra, canvas=setting == "shapes_canvas")
    path = Path(setting)
    if not path.is_file():
        raise UsageError(
            f"graphs={setting}",
            expected="shapes, shapes_canvas, or a file of lines",
            found="no such file",
        )
    return Sidecar(read_graphs(path))
