"""What the comparisons of answers and of places share: our modules, files, and differences."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from comparison import Comparison

from harness.metrics import (
    averages,
    boxes,
    boxes3d,
    choices,
    detection,
    intervals,
    numeric,
    spar,
    tempcompass,
    tracks,
    vsi,
    vstar,
)
from harness.models.visionreasoner import scoring

GOLDEN = Path(__file__).parent
OURS = SimpleNamespace(
    averages=averages,
    boxes=boxes,
    boxes3d=boxes3d,
    choices=choices,
    detection=detection,
    intervals=intervals,
    numeric=numeric,
    scoring=scoring,
    spar=spar,
    tempcompass=tempcompass,
    tracks=tracks,
    vsi=vsi,
    vstar=vstar,
)
"""The modules as they are; the mutation tests hand spoiled ones to a check instead."""
Modules: TypeAlias = Any
Check: TypeAlias = Callable[[Modules], Comparison]


@cache
def read(name: str) -> Any:
    """A golden file's content."""
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def line(protocol: str, source: str, file: Any, deviations: list[float]) -> Comparison:
    """One comparison: the largest of the deviations, which may be 0 and 1 for unequal texts."""
    tool = f"{file['tool']} {source}"
    return Comparison(protocol, tool, file["commit"], len(deviations), max(deviations))
