"""A short reasoning, written from the ground truth: number of targets, and their rough places."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from harness.errors import ParseError
from harness.models.grammar import Item, frame_tag, split_frame

NAMED = 6  # objects whose place is told one by one
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
NO_THOUGHT = "<think></think>"


@lru_cache
def wording() -> Mapping[str, Any]:
    """The sentences."""
    return tomllib.loads(
        files("harness.trainers.sft").joinpath("reasoning.toml").read_text("utf-8")
    )


def about_objects(items: Sequence[Item], canvas: tuple[int, int]) -> str:
    """Return the text about objects on a canvas of (width, height).

    >>> from harness.types import Box
    >>> about_objects([Item(Box(0, 0, 10, 10)), Item(Box(80, 40, 90, 60))], (90, 90))
    '2 objects are meant: at the upper left, at the right.'
    """
    words = wording()
    if not items:
        return str(words["none"])
    places = [words["places"][_place(item, canvas)] for item in items[:NAMED]]
    if len(items) > NAMED:
        places.append(words["more"].replace("{Count}", str(len(items) - NAMED)))
    sentence = words["one" if len(items) == 1 else "many"]
    return str(sentence).replace("{Count}", str(len(items))).replace("{Places}", ", ".join(places))


def with_thought(response: str, thought: str) -> str:
    """The response with a reasoning in its `<think>`, which is put before it if it has none.

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
    info = f"<think>{thought}</think>"
    if NO_THOUGHT in response:
        return response.replace(NO_THOUGHT, info, 1)
    frame, rest = split_frame(response)
    return f"{frame_tag(frame)}{info}{rest}"


def _place(item: Item, canvas: tuple[int, int]) -> str:
    x, y = item.place
    column, row = (min(int(3 * at / side), 2) for at, side in ((x, canvas[0]), (y, canvas[1])))
    return f"{max(row, 0)} {max(column, 0)}"
