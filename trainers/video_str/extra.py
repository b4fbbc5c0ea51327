"""Sources of true graphs and maps, by the name that a trainer's `graphs=` has."""

from collections.abc import Callable, Mapping, Sequence
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


def extra_of(
    setting: str | None,
    *,
    option: str = "graphs",
    drawn: Sequence[str] = ("shapes", "shapes_canvas"),
    read: Callable[[Path], Extra] = lambda path: Sidecar(read_graphs(path)),
) -> Extra:
    """Return the function for a trainer's setting `graphs=`, or `maps=`.

    That is no additions, what is `drawn` again from the seed of generated data, or a file.

    Raises:
        UsageError: there is no such file.
    """
    if setting is None:
        return no_extra
    if setting in drawn:
        from harness.trainers.video_str.shapes import shapes_extra

        return partial(shapes_extra, canvas=setting == "shapes_canvas")
    path = Path(setting)
    if not path.is_file():
        expected = f"{', '.join(drawn)}, or a file of lines"
        raise UsageError(f"{option}={setting}", expected=expected, found="no such file")
    return read(path)
