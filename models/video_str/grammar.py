"""Read Video-STR's graph of objects: `<think>…</think> <graph>{…}</graph> <answer>…</answer>`.

The graph is optional and may be in the reasoning or after it; the first tag of a kind counts.
Reading takes time linear in the response's length and raises ParseError only. The values are
JSON or Python literals, which are parsed but never run.
"""

import ast
import re
import warnings
from typing import TypeAlias

from harness.errors import ParseError
from harness.responses import (
    MAX_DEPTH,
    MAX_DIGITS,
    excerpt,
    finite_numbers,
    loads_strict,
    nesting_depth,
    tag_text,
)

Vector: TypeAlias = tuple[float, float, float]
"""A position in metres in the camera's frame: x to the right, y up, z forward."""
Graph: TypeAlias = dict[str, Vector]
"""The centre of the nearest instance of each category, by the category's name in lower case."""

THINK, END, OPEN_ANSWER, END_ANSWER = "<think>", "</think>", "<answer>", "</answer>"
TAGS = (THINK, END, OPEN_ANSWER, END_ANSWER)
MAX_LITERAL = 20_000  # most characters of a graph or map
MAX_NODES = 120  # most categories of a graph
LINES = re.compile(r"\r\n|\r|\n")  # the line breaks of Python's parser
OTHER_BASES = (b"0x", b"0o", b"0b")  # beginnings of integers that are not decimal


def answer_response(text: str) -> str:
    """Return the response for an answer, without reasoning.

    Raises:
        ParseError: the answer holds a tag of the grammar.
    """
    if any(tag in text for tag in TAGS):
        raise ParseError("answer to write", expected="no tag of the grammar", found=text[:60])
    return f"{THINK}{END}{OPEN_ANSWER}{text}{END_ANSWER}"


def graph(response: str) -> Graph:
    """Return the graph of a response: `{"chair": [x, y, z], …}` or `{"chair": [[x, y, z]], …}`.

    Raises:
        ParseError: there is no graph, or an entry has another form.

    >>> graph("<graph>{'Chair': [0.5, 0, 2]}</graph>")
    {'chair': (0.5, 0.0, 2.0)}
    """
    text = tag_text(response, "graph")
    if text is None or not text.startswith("{"):
        raise ParseError("response", expected="<graph>{…}</graph>", found="none")
    value = literal(text)
    if not isinstance(value, dict) or len(value) > MAX_NODES:
        raise ParseError(
            "graph",
            expected=f"a dictionary of at most {MAX_NODES} categories",
            found=type(value).__name__,
        )
    nodes: Graph = {}
    for key, position in value.items():
        name = key.strip().lower() if isinstance(key, str) else ""
        if not name or name in nodes:
            raise ParseError("graph", expected="a name once a category", found=excerpt(key))
        nodes[name] = _vector(position, name)
    return nodes


def _vector(value: object, name: str) -> Vector:
    """Return the position of a category: [x, y, z] or [[x, y, z]]."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    x, y, z = finite_numbers(value, 3, f"graph: {name[:40]}")
    return x, y, z


def literal(text: str) -> object:
    """Return the value of a text in JSON, or else in Python's notation of plain values.

    Raises:
        ParseError: the text is neither, or exceeds `MAX_LITERAL` or `MAX_DEPTH`.
    """
    try:
        return loads_strict(text[: MAX_LITERAL + 1])
    except ParseError:
        return python_literal(text)


def python_literal(text: str) -> object:
    """Return the value of a Python literal; the text is parsed and not run.

    As in JSON, integers are decimal and have at most `harness.responses.MAX_DIGITS` digits.

    Raises:
        ParseError: the text is not a literal, or exceeds `MAX_LITERAL` or `MAX_DEPTH`.
    """
    if len(text) > MAX_LITERAL or nesting_depth(text) > MAX_DEPTH:
        raise ParseError(
            "value",
            expected=f"at most {MAX_LITERAL} characters and {MAX_DEPTH} levels",
            found="more",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in a network's text
            tree = ast.parse(text.lstrip(" \t"), mode="eval")
            _refuse_integers(tree, text.lstrip(" \t"))
            return ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ParseError(
            "value", expected="JSON, or Python's plain values", found=type(error).__name__
        ) from error


def _refuse_integers(tree: ast.AST, text: str) -> None:
    """Raise ParseError for an integer of too many digits, or not in decimal notation."""
    lines = [line.encode("utf-8", "replace") for line in LINES.split(text)]  # `ast` counts bytes
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or type(node.value) is not int:
            continue
        beginning = lines[node.lineno - 1][node.col_offset :][:2].lower()
        if node.value >= 10**MAX_DIGITS or beginning in OTHER_BASES:
            raise ParseError(
                "value", expected=f"decimal numbers of at most {MAX_DIGITS} digits", found="another"
            )
