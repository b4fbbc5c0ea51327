"""Split responses of several turns into blocks for display: tags, and texts injected between turns.

Pages of a site and of rollouts show blocks; a plan in a block is drawn as a graph, a digital twin's
instances as a table. Places and sizes are in pixels of the drawing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.types import Prediction

TAGGED = re.compile(r"<([a-z][a-z._]*)>(.*?)</\1>", re.DOTALL)
"""A tag with its text: `<dt.plan>{"seg": []}</dt.plan>`."""
PLAN_TAGS, TWIN_TAGS = ("dt_plan", "dt.plan"), ("dt_rep", "dt.rep")
"""Tags of a plan and of a digital twin."""
MAX_BLOCKS = 200  # blocks of a response that are shown
MAX_COLUMNS = 8  # largest number of columns of a table
MAX_ROWS = 40  # largest number of rows of a table, and of nodes of a plan
MAX_CELL = 80  # largest number of characters of a cell
LETTER_WIDTH, NODE_HEIGHT, COLUMN_GAP = 7, 26, 34  # pixels


@dataclass(frozen=True, slots=True)
class Block:
    """One tag with its text, or text outside of tags."""

    tag: str
    """Empty for text outside of tags."""
    text: str
    injected: bool = False


def blocks_of(text: str, spans: Sequence[tuple[int, bool]]) -> list[Block]:
    """Return the blocks of a response.

    Args:
        text: The whole response.
        spans: (length in characters, True if injected) of consecutive parts of the text; the VLM
            wrote the remaining text.
    """
    blocks: list[Block] = []
    start = 0
    for length, injected in (*spans, (len(text), False)):
        span_text = text[start : start + length]
        start += length
        position = 0
        for tag in TAGGED.finditer(span_text):
            blocks += _plain(span_text[position : tag.start()], injected)
            blocks.append(Block(tag[1], tag[2].strip(), injected))
            position = tag.end()
        blocks += _plain(span_text[position:], injected)
    return blocks[:MAX_BLOCKS]


def _plain(text: str, injected: bool) -> list[Block]:
    return [Block("", text.strip(), injected)] if text.strip() else []


def spans_of(prediction: Prediction) -> tuple[str, list[tuple[int, bool]]]:
    """Return the whole text of a response of several turns, and its spans as in `blocks_of`.

    ("", []) for one turn, or if calls did not continue the whole text before them.
    """
    turns = prediction.responses
    full_texts = [call.response or "" for call in prediction.calls]
    if len(turns) < 2 or len(full_texts) != len(turns):
        return "", []
    full_text, spans, position = full_texts[-1], list[tuple[int, bool]](), 0
    for text, turn in zip(full_texts, turns, strict=True):  # a call's text ends with its turn
        start = len(text) - len(turn)
        if start < position or not full_text.startswith(text) or not text.endswith(turn):
            return "", []
        spans += [(start - position, True), (len(turn), False)]
        position = len(text)
    return full_text, spans[1:]  # nothing is injected before the first turn


def plan_of(block: Block) -> dict[str, list[str]] | None:
    """Return the nodes that each node of a plan depends on; None if the block is not a plan."""
    value = _json(block.text) if block.tag in PLAN_TAGS else None
    if not isinstance(value, dict) or not value or len(value) > MAX_ROWS:
        return None
    is_plan = all(
        isinstance(needed, list) and all(isinstance(node, str) for node in needed)
        for needed in value.values()
    )
    return {str(name): list(needed) for name, needed in value.items()} if is_plan else None


def layers_of(plan: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return nodes in layers, each after all nodes that it depends on; a cycle is the last layer.

    >>> layers_of({"c": ["a", "b"], "a": [], "b": ["a"]})
    [['a'], ['b'], ['c']]
    """
    names = list(dict.fromkeys([*plan, *(node for needed in plan.values() for node in needed)]))
    placed: dict[str, int] = {}
    layer = 0
    while len(placed) < len(names):
        free = [
            name
            for name in names
            if name not in placed and all(node in placed for node in plan.get(name, ()))
        ]
        cycle = [name for name in names if name not in placed]
        placed.update(dict.fromkeys(free or cycle, layer))
        layer += 1
    return [[name for name in names if placed[name] == number] for number in range(layer)]


def plan_places(
    plan: Mapping[str, Sequence[str]],
) -> tuple[dict[str, tuple[int, int, int]], int, int, int]:
    """Return where a plan's nodes are drawn, one column for each layer, in pixels.

    Returns:
        Left, top and width of each node; the drawing's width and height; half a node's height.
    """
    layers = layers_of(plan)
    widths = [max(len(name) for name in layer) * LETTER_WIDTH + 16 for layer in layers]
    lefts = [sum(widths[:number]) + number * COLUMN_GAP + 1 for number in range(len(layers))]
    boxes = {
        name: (lefts[number], row * (NODE_HEIGHT + 10) + 1, widths[number])
        for number, layer in enumerate(layers)
        for row, name in enumerate(layer)
    }
    height = max(len(layer) for layer in layers) * (NODE_HEIGHT + 10)
    return boxes, lefts[-1] + widths[-1] + 1, height, NODE_HEIGHT // 2


def table_of(block: Block) -> tuple[list[str], list[list[str]]] | None:
    """Return the header and the rows of a twin's instances; None if the block has none."""
    value = _json(block.text) if block.tag in TWIN_TAGS else None
    instances = value.get("instances") if isinstance(value, dict) else None
    if not isinstance(instances, list):
        return None
    entries = [_flat(instance) for instance in instances[:MAX_ROWS] if isinstance(instance, dict)]
    names = list(dict.fromkeys(key for entry in entries for key in entry))[:MAX_COLUMNS]
    header = [name[:MAX_CELL] for name in names]
    rows = [[entry.get(name, "")[:MAX_CELL] for name in names] for entry in entries]
    return (header, rows) if header else None


def _flat(instance: Mapping[str, Any]) -> dict[str, str]:
    """Return an instance's values by column, with those of its first frame."""
    frames = [frame for frame in instance.get("frames") or () if isinstance(frame, dict)]
    values = {key: value for key, value in instance.items() if key != "frames"}
    if frames:
        values |= {key: value for key, value in frames[0].items() if key != "frame"}
    return {str(key): _short(value) for key, value in values.items()}


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
