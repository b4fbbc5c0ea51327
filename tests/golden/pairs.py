"""What comparisons of segmentation share: stored masks, pairs of numbers, merged statistics."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from comparison import Comparison, gap

from harness.masks import Rle
from harness.scores import Metric, Totals

GOLDEN = Path(__file__).parent
Modules: TypeAlias = Any
Pairs: TypeAlias = Iterator[tuple[float, float]]
"""Our numbers, each with the official one."""


@cache
def read(name: str) -> Any:
    """A golden file's content."""
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@cache
def mask(size: tuple[int, int], counts: str) -> Rle:
    """A stored mask."""
    return Rle(*size, counts)


def masks(case: dict[str, Any], *names: str) -> list[Any]:
    """Masks of a case; None where it has none."""
    size = tuple(case["size"])
    return [None if case[name] is None else mask(size, case[name]) for name in names]


def equal(ours: Iterable[float], official: Iterable[float]) -> Pairs:
    """Pairs of as many numbers; a missing one is infinitely far off."""
    ours, official = list(ours), list(official)
    if len(ours) != len(official):
        yield float("inf"), 0.0
        return
    yield from zip(map(float, ours), map(float, official), strict=True)


def totals(metrics: Iterable[Metric], scores: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merged statistics of samples."""
    merged = Totals(tuple(metrics))
    for one in scores:
        merged.add(one)
    return merged.values()


def compared(protocol: str, file: Any, pairs: Pairs) -> Comparison:
    """The largest deviation of all pairs."""
    gaps = [gap(ours, official) for ours, official in pairs]
    tool = f"{file['tool']} {file['source'].split()[0].rpartition('/')[2]}"
    return Comparison(protocol, tool, file["commit"], len(gaps), max(gaps))
