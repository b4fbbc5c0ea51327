"""Graph or map in a perfect response, where its request asks for one."""

import json
from collections.abc import Sequence

from harness.chat import ChatRequest
from harness.models.video_str.grammar import END, THINK
from harness.trainers.spacer.rewards import map_of
from harness.trainers.video_str.graphs import graphs_of
from harness.trainers.video_str.nodes import FrameGraph
from harness.types import Sample

ASKED, ASKED_MAP = "<graph>", "<map>"
PLACES = 1  # after the point: a tenth is what a small network can learn to say


def with_graph(
    sample: Sample, request: ChatRequest, response: str, *, in_reasoning: bool = False
) -> str:
    """Return the response with the true graph after its reasoning, or at its start; unchanged, if
    the request asks for none or none is known.

    The graph is that of the middle one of the frames that are shown, among those with most objects.
    Where SpaceR's words ask for a map, the true one begins the reasoning: its format has no other
    place for one.
    """
    cells = map_of(sample)
    if ASKED_MAP in request.text and cells is not None:
        return response.replace(THINK, f"{THINK}<map>{json.dumps(cells)}</map>", 1)
    graph = middle(graphs_of(sample), request.frames[0])
    if ASKED not in request.text or graph is None:
        return response
    tag = THINK if in_reasoning else END
    return response.replace(tag, f"{tag}<graph>{graph_text(graph)}</graph>", 1)


def middle(graphs: Sequence[FrameGraph], shown: Sequence[int]) -> FrameGraph | None:
    """The middle one of the shown graphs with most objects."""
    seen = [graph for graph in graphs if graph.frame in shown and graph.nodes]
    limit = max((len(graph.nodes) for graph in seen), default=0)
    full = [graph for graph in seen if len(graph.nodes) == limit]
    return full[len(full) // 2] if full else None


def graph_text(graph: FrameGraph) -> str:
    """A graph as responses have it, in its own unit; whole numbers without a point.

    >>> from harness.trainers.video_str.nodes import Node
    >>> graph_text(FrameGraph(frame=0, nodes=(Node(category="star", centre=(-0.84, 0.0, 1.5)),)))
    '{"star": [-0.8, 0, 1.5]}'
    """
    return json.dumps(
        {
            node.category: [_plain_number(round(number, PLACES)) for number in node.centre]
            for node in graph.nodes
        }
    )


def _plain_number(number: float) -> float:
    return int(number) if number == int(number) else number
