"""Find the source of true graphs or maps that a trainer's setting `graphs=` or `maps=` names.

A source (`Extra`) is a function `(task, sample) -> data`. The data are added to the sample's
`target.extra`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from harness.errors import UsageError
from harness.layout import read_by_id
from harness.task import Task
from harness.trainers.video_str.graphs import KEY, Extra, from_plain, to_plain
from harness.types import Sample


def no_extra(task: Task, sample: Sample) -> Mapping[str, object]:
    """Return nothing: source for targets that already have their graphs or maps."""
    del task, sample
    return {}


def read_graphs(path: Path) -> Mapping[str, object]:
    """Read graphs from a JSON Lines file, by the id of a sample or of its group.

    Raises:
        DataError: it cannot be read, a line has another form, or an id comes twice.
    """
    return read_by_id(path, "id", KEY, lambda plain, where: to_plain(from_plain(plain, where)))


def extra_of(
    setting: str | None,
    *,
    option: str = KEY,
    generated_names: Sequence[str] = ("shapes", "shapes_canvas"),
    read: Callable[[Path], Mapping[str, object]] = read_graphs,
    key: str = KEY,
) -> Extra:
    """Return the source that a setting names.

    Args:
        setting: None: add nothing. `shapes` or `shapes_canvas`: compute the ground truth of a
            generated scene again from its seed. Otherwise: the path of a JSON Lines file, whose
            entries are looked up by a sample's id, its group, or the stem of its group.
        option: Name of the setting, for errors.
        generated_names: Values of `setting` for generated scenes that the option accepts.
        read: Function that reads the file.
        key: Key of the target's `extra` that a file's data gets.

    Raises:
        UsageError: there is no such file.
    """
    if setting is None:
        return no_extra
    if setting in generated_names:
        from harness.trainers.video_str.shapes import shapes_extra

        return partial(shapes_extra, canvas=setting == "shapes_canvas")
    path = Path(setting)
    if not path.is_file():
        expected = f"{', '.join(generated_names)}, or a file of lines"
        raise UsageError(f"{option}={setting}", expected=expected, found="no such file")
    return partial(_listed, read(path), key)


def _listed(
    graphs: Mapping[str, object], key: str, task: Task, sample: Sample
) -> Mapping[str, object]:
    """Return a file's entry for a sample, its group or its video; empty: it has none."""
    del task
    for name in (sample.id, sample.group, Path(sample.group).stem):
        if name in graphs:
            return {key: graphs[name]}
    return {}
