"""Write the `short` reasoning of SFT from the ground truth: number and rough places of targets."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from harness.errors import ParseError
from harness.models.grammar import Item, frame_tag, split_frame

MAX_LISTED = 6  # objects whose places are listed; further ones are counted
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
NO_THOUGHT = "<think></think>"


@lru_cache
def wording() -> Mapping[str, Any]:
    """Return the sentences of reasoning.toml, by name."""
    return tomllib.loads(
        files("harness.trainers.sft").joinpath("reasoning.toml").read_text("utf-8")
    )


def about_objects(items: Sequence[Item], canvas: tuple[int, int]) -> str:
    """Return a sentence on the number and the places of objects on a canvas of (width, height).

    >>> from harness.types import Box
    >>> about_objects([Item(Box(0, 0, 10, 10)), Item(Box(80, 40, 90, 60))], (90, 90))
    '2 objects are meant: at the upper left, at the right.'
    """
    templates = wording()
    if not items:
        return str(templates["none"])
    positions = [templates["places"][_position(item, canvas)] for item in items[:MAX_LISTED]]
    if len(items) > MAX_LISTED:
        positions.append(templates["more"].replace("{Count}", str(len(items) - MAX_LISTED)))
    sentence = str(templates["one" if len(items) == 1 else "many"])
    sentence = sentence.replace("{Count}", str(len(items)))
    return sentence.replace("{Places}", ", ".join(positions))


def with_thought(response: str, thought: str) -> str:
    """Return the response with a reasoning in its `<think>`, which is added if there is none.

    >>> with_thought("<think></think><answer>[]</answer>", "Nothing.")
    '<think>Nothing.</think><answer>[]</answer>'
    >>> with_thought("<frame>3</frame>B", "It is blue.")
    '<frame>3</frame><think>It is blue.</think>B'

    Raises:
        ParseError: the reasoning holds a tag of the grammar.
    """
    if not thought:
        return response
    if any(tag in thought for tag in TAGS):
        raise ParseError("reasoning to write", expected="no tag of the grammar", found=thought[:60])
    tagged = f"<think>{thought}</think>"
    if NO_THOUGHT in response:
        return response.replace(NO_THOUGHT, tagged, 1)
    frame, answer = split_frame(response)
    return f"{frame_tag(frame)}{tagged}{answer}"


def _position(item: Item, canvas: tuple[int, int]) -> str:
    """Return "row column" of the third of the canvas that an object is in, each from 0 to 2."""
    x, y = item.place
    column, row = min(int(3 * x / canvas[0]), 2), min(int(3 * y / canvas[1]), 2)
    return f"{max(row, 0)} {max(column, 0)}"
