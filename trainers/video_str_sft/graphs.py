"""Write the true graph or map into a perfect response whose request asks for one."""

import json
from collections.abc import Sequence

from harness.chat import ChatRequest
from harness.models.video_str.grammar import END, THINK
from harness.trainers.spacer.rewards import map_of
from harness.trainers.video_str.graphs import graphs_of
from harness.trainers.video_str.nodes import FrameGraph
from harness.types import Sample

GRAPH_TAG, MAP_TAG = "<graph>", "<map>"  # a request that names one asks for it
DECIMALS = 1  # decimal places of coordinates: as many as a small network can learn


def with_graph(
    sample: Sample, request: ChatRequest, response: str, *, in_reasoning: bool = False
) -> str:
    """Return the response with the true graph or map that its request asks for.

    It is unchanged if the request asks for none, or the target has none. The graph (`middle`) comes
    after the reasoning, or with `in_reasoning` at its start. A map, which only SpaceR asks for,
    always comes at the start of the reasoning: its format has no other place.
    """
    cells = map_of(sample)
    if MAP_TAG in request.text and cells is not None:
        return response.replace(THINK, f"{THINK}<map>{json.dumps(cells)}</map>", 1)
    graph = middle(graphs_of(sample), request.frames[0])
    if GRAPH_TAG not in request.text or graph is None:
        return response
    tag = THINK if in_reasoning else END
    return response.replace(tag, f"{tag}<graph>{graph_text(graph)}</graph>", 1)


def middle(graphs: Sequence[FrameGraph], frames: Sequence[int]) -> FrameGraph | None:
    """Return the middle one of the shown graphs with most objects; None: none has an object."""
    shown_graphs = [graph for graph in graphs if graph.frame in frames and graph.nodes]
    most = max((len(graph.nodes) for graph in shown_graphs), default=0)
    fullest = [graph for graph in shown_graphs if len(graph.nodes) == most]
    return fullest[len(fullest) // 2] if fullest else None


def graph_text(graph: FrameGraph) -> str:
    """Return a graph as text of a response, in its own unit; whole numbers without a point.

    >>> from harness.trainers.video_str.nodes import Node
    >>> graph_text(FrameGraph(frame=0, nodes=(Node(category="star", centre=(-0.84, 0.0, 1.5)),)))
    '{"star": [-0.8, 0, 1.5]}'
    """
    return json.dumps(
        {
            node.category: [_plain_number(round(number, DECIMALS)) for number in node.centre]
            for node in graph.nodes
        }
    )


def _plain_number(number: float) -> float:
    return int(number) if number == int(number) else number
