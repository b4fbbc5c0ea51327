"""Read and write the true graphs of a sample, in its target and in files; centres are in metres.

A target has them in `extra["graphs"]`, a JSON object for each frame:

    [{"frame": 0, "nodes": [{"category": "chair", "centre": [0.5, 0.0, 2.0], "count": 1}, …]}, …]

A file has lines `{"id": "…", "graphs": […]}` with the same content; `id` is the benchmark's id of a
sample, or of its group (a video) if all samples of the group share the graphs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from harness.errors import DataError, ParseError
from harness.responses import finite_numbers
from harness.task import Task
from harness.trainers.sample_checks import with_extra
from harness.trainers.video_str.nodes import FrameGraph, Node
from harness.types import Sample

Extra: TypeAlias = Callable[[Task, Sample], Mapping[str, object]]
"""Function (task, sample) that returns entries to add to the `extra` of the sample's target."""

KEY = "graphs"


def graphs_of(sample: Sample) -> tuple[FrameGraph, ...]:
    """Return the graphs in a sample's target; empty: it has none.

    Raises:
        DataError: they are not in the form above.
    """
    plain = sample.target.extra.get(KEY, ()) if sample.target is not None else ()
    return from_plain(plain, f"graphs of sample {sample.id!r}")


def categories(graphs: Iterable[FrameGraph]) -> tuple[str, ...]:
    """Return the categories of all frames, each once, in order of appearance."""
    return tuple(dict.fromkeys(node.category for graph in graphs for node in graph.nodes))


def to_plain(graphs: Iterable[FrameGraph]) -> list[dict[str, object]]:
    """Return graphs as plain data, in the form above."""
    return [
        {
            "frame": graph.frame,
            "nodes": [
                {"category": node.category, "centre": list(node.centre), "count": node.count}
                for node in graph.nodes
            ],
        }
        for graph in graphs
    ]


def from_plain(plain: object, where: str) -> tuple[FrameGraph, ...]:
    """Return the graphs of plain data: the inverse of `to_plain`.

    Raises:
        DataError: it has another form; `where` names it.
    """
    if not isinstance(plain, (list, tuple)):
        raise DataError(where, expected="a list of frames", found=type(plain).__name__)
    return tuple(_frame(frame, where) for frame in plain)


def _frame(plain: object, where: str) -> FrameGraph:
    """Check one frame; its nodes differ in their category."""
    frame = plain.get("frame") if isinstance(plain, dict) else None
    nodes = plain.get("nodes") if isinstance(plain, dict) else None
    if type(frame) is not int or frame < 0 or not isinstance(nodes, list):
        raise DataError(where, expected='{"frame": k, "nodes": […]}', found=repr(plain)[:60])
    parsed = tuple(_node(node, where) for node in nodes)
    if len({node.category for node in parsed}) < len(parsed):
        raise DataError(where, expected="each category once a frame", found="one twice")
    return FrameGraph(frame=frame, nodes=parsed)


def _node(plain: object, where: str) -> Node:
    """Check one node; its category is put in lower case."""
    try:
        if not isinstance(plain, dict):
            raise TypeError("no object")
        category, number = plain["category"], plain.get("count", 1)
        x, y, z = finite_numbers(plain["centre"], 3, "centre")
    except (TypeError, KeyError, AttributeError, ParseError) as error:
        raise DataError(
            where, expected='{"category": name, "centre": [x, y, z]}', found=repr(plain)[:60]
        ) from error
    is_named = isinstance(category, str) and category.strip()
    if not is_named or type(number) is not int or number < 1:
        raise DataError(where, expected="a name, and a count of at least 1", found=repr(plain)[:60])
    return Node(category=category.strip().lower(), centre=(x, y, z), count=number)


def extend_task(task: Task, extra: Extra, *, listed: Callable[[Sample], tuple[str, ...]]) -> Task:
    """Return the task with additional data in its targets, and with objects for prompts to list.

    Args:
        task: The task.
        extra: Returns the additions to a target's `extra`; existing entries stay.
        listed: Returns the objects of a sample, which become its query's.
    """

    def extended(sample: Sample) -> Sample:
        sample = with_extra(sample, extra(task, sample))
        if sample.target is None:
            return sample
        return replace(sample, query=replace(sample.query, objects=listed(sample)))

    return replace(task, samples=lambda: map(extended, task.samples()))


def named_or_drawn(sample: Sample) -> tuple[str, ...]:
    """Return the objects that a sample's query names, else those of its graphs."""
    return sample.query.objects or categories(graphs_of(sample))
