"""Graphs whose places are a little off, and reasoning that repeats them.

A network that sees where things are can draw up a graph and then reason past it, by looking again.
Numbers that are off by what nobody can guess are in one place alone: what repeats them has read the
graph.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.models.video_str.grammar import Vector
from harness.task import Task
from harness.trainers.pocket.told import in_its_words, scene_of
from harness.trainers.pocket.views import Moved
from harness.trainers.pocket.vocabulary import CANVAS
from harness.trainers.video_str.graphs import KEY, to_plain
from harness.trainers.video_str.nodes import Node
from harness.trainers.video_str.shapes import frame_graph, shapes_extra
from harness.types import Sample
from harness.world.draws import Draws
from harness.world.qa import visible_frames
from harness.world.quiz import called

REPEATS = frozenset(
    {"relation", "relation4", "nearest", "extreme", "depth", "exists", "colour", "shape"}
)
"""Kinds of questions about a still whose reasoning tells where things are, and computes no number
that is answered."""
MOST = CANVAS // 32
"""Between things that a question tells apart lies an eighth of the picture's shorter side at least.
Of a picture twice as wide as high that is a sixteenth of the canvas: both may be off by half."""
FIRST = 0
"""The only frame of a still."""


def shapes_jittered(task: Task, sample: Sample, *, most: int) -> Mapping[str, Any]:
    """As `shapes_extra` on pocket's canvas; where reasoning repeats places, both are a little off.

    Args:
        task: `shapes_qa`, below the root of a generated world.
        sample: One of its samples, whose id decides what is drawn.
        most: Pixels of pocket's canvas by which a place is off along each axis, at most; all
            whole numbers up to it are as likely. `MOST`, or answers may contradict the places.

    Raises:
        DataError: the data is not of a generated world.
    """
    if task.name != "shapes_qa" or sample.categories["kind"] not in REPEATS:
        return shapes_extra(task, sample, canvas=True)
    scene = scene_of(task, sample)
    if scene.frames > 1:
        return shapes_extra(task, sample, canvas=True)
    shown = [index for index, _ in called(scene) if FIRST in visible_frames(scene, index)]
    graph = frame_graph(scene, FIRST, canvas=True)
    nodes = {
        index: replace(node, centre=_off(Draws(scene.seed, sample.id, "off", index), node, most))
        for index, node in zip(shown, graph.nodes, strict=True)
    }
    middles = {index: (int(node.centre[0]), int(node.centre[1])) for index, node in nodes.items()}
    told = in_its_words(sample, Moved(scene, (FIRST,), middles))
    return {KEY: to_plain([replace(graph, nodes=tuple(nodes.values()))]), **told}


def _off(draws: Draws, node: Node, most: int) -> Vector:
    x, y, depth = node.centre
    across, down = (min(max(int(one) + draws.between(-most, most), 0), CANVAS) for one in (x, y))
    return across, down, depth
