"""Responses of all kinds, good and bad, as a function of a seed: what official rewards are
run on.
"""

import random
from collections.abc import Iterator
from typing import Any

TRUE_MAP = {"table": [[0, 3], [5, 7]], "chair": [[9, 3]], "trash can": [[6, 5]]}
KINDS = ("multiple choice", "numerical", "regression", "OCR")
NOISE = (
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "<map>",
    "</map>",
    "\n",
    " ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "A",
    "B",
    "3",
    "-1.5",
    "two",
    "an",
    "table",
    "chair",
    "trash can",
    "é",
    "1e999",
    "'",
)
TEXTS = ("EXIT ONLY", "the red car", "no parking any time", "")
SAID = {
    "multiple choice": ("A", "B", " B ", "b", "B.", "(B)", "A or B", "", "D"),
    "numerical": (
        "3",
        "3.0",
        "3.14",
        "1,500",
        "about 4",
        "two",
        "a few",
        "-3",
        "inf",
        "nan",
        "",
        "4.5 m",
        "twenty",
        "12",
        "one hundred",
    ),
    "regression": ("3", "3.0", "3.14", "1,500", "about 4", "-3", "inf", "nan", "", "4.5", "12"),
    "OCR": (*TEXTS, "EXIT", "the car red", "no parking at any time now"),
}
GROUND_TRUTHS = {
    "multiple choice": ("A", "B", "C"),
    "numerical": ("3", "3.14", "1500", "20", "4.5"),
    "regression": ("3", "3.14", "1500", "20"),
    "OCR": TEXTS[:3],
}
MAPS = (
    "{'table': [[0, 3], [5, 7]], 'chair': [[9, 3]], 'trash can': [[6, 5]]}",
    '{"table": [[1, 3], [5, 6]], "chair": [[8, 3]]}',
    "{'Table': [(0, 3)], 'sofa': [[1, 1]], 'chair ': [9, 3]}",
    "{'table': ['0, 3', '<5, 7>'], 'chair': [['9', '3']]}",
    "{'table': [[0.9, 3.2], [5]], 'chair': [[[9, 3]]]}",
    "str{'table': [[0, 3]]}",
    "the table is at 0, 3 and 5, 7, the Chair at (9, 3); trash can: 6 5",
    "table: [0, 3], [5, 7",
    "{'table': [[0, 3], [5, 7]]",
    "tables 1 2 chair9 3",
    "{'<table>': [[0, 3]], 'chair:': [[9, 3]], 'trash  can': [[6, 5]]}",
    "{'table': [[1e999, 3]]}",
    "{'chair': []}",
    "{}",
    "[]",
    "",
    "{'table': None, 'chair': 3}",
    "{'table': [[14, -20], [100, 100]], 'chair': [[90, 30]]}",
)


def cases(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """`number` questions with a response each: kind, ground truth, whether there is a map,
    response.
    """
    draws = random.Random(seed)

    def one(of: Any) -> Any:
        return of[int(draws.random() * len(of))]

    for _ in range(number):
        kind = one(KINDS)
        yield {
            "kind": kind,
            "ground_truth": one(GROUND_TRUTHS[kind]),
            "response": _response(kind, one, draws.random),
        }


def _response(kind: str, one: Any, chance: Any) -> str:
    if chance() < 0.2:
        return "".join(one(NOISE) for _ in range(int(chance() * 24)))
    inside = one(MAPS)
    thought = f"so <map>{inside}</map>" if chance() < 0.6 else "so"
    response = (
        f"<think>{thought}</think>{one(('', chr(10), ' x '))}<answer>{one(SAID[kind])}</answer>"
    )
    if chance() < 0.2:
        start = int(chance() * len(response))
        response = response[:start] + one(NOISE) + response[start + int(chance() * 4) :]
    return response
