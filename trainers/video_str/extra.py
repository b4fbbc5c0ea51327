"""Sources of true graphs and maps, by the name that a trainer's `graphs=` has."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from harness.errors import UsageError
from harness.layout import read_by_id
from harness.task import Task
from harness.trainers.video_str.graphs import KEY, Extra, from_plain, to_plain
from harness.types import Sample


def no_extra(task: Task, sample: Sample) -> Mapping[str, object]:
    """The source for targets that carry their graphs or maps themselves."""
    del task, sample
    return {}


def read_graphs(path: Path) -> Mapping[str, object]:
    """Graphs from a file of lines, by the id of a sample or of its group.

    Raises:
        DataError: it cannot be read, a line is something else, or an id comes twice.
    """
    return read_by_id(path, "id", KEY, lambda plain, where: to_plain(from_plain(plain, where)))


def extra_of(
    setting: str | None,
    *,
    option: str = KEY,
    drawn: Sequence[str] = ("shapes", "shapes_canvas"),
    read: Callable[[Path], Mapping[str, object]] = read_graphs,
    key: str = KEY,
) -> Extra:
    """Return the function for a trainer's setting `graphs=`, or `maps=`.

    That is no additions, what is `drawn` again from the seed of generated data, or what a file has
    for a sample's id, its group, or the video that its group names; `key` of a target gets it.

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
    return partial(_listed, read(path), key)


def _listed(
    graphs: Mapping[str, object], key: str, task: Task, sample: Sample
) -> Mapping[str, object]:
    del task
    names = sample.id, sample.group, Path(sample.group).stem
    return next(({key: graphs[name]} for name in names if name in graphs), {})
