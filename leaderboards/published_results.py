"""Numbers that papers print: `published/<paper>.csv`.

A line of a file is one printed number. Its columns:

- `table`, `row`, `backbone`: where it stands; `[…]` in a row's name marks a variant of an ablation;
- `benchmark`; `task` and `split`: ours, empty where it is an average over several;
- `part`: `category=value` of the task's breakdown, empty for all samples; `subset`: fewer samples;
- `metric`: ours where it is one of the task's, else the paper's word;
- `protocol`, `protocol_is`: `stated` in the paper, `assumed` from its baselines' code, `unknown`;
- `printed`, `unit`: the number as printed, a percent or a fraction of a score, or another quantity;
- `defect`: what is wrong with it; `note`: what it was measured under.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from harness.errors import UsageError

FOLDER = Path(__file__).parent / "published"
PAPERS: Mapping[str, str] = {
    "dt_r1": "DT-R1",
    "video_str": "Video-STR",
    "dr2seg": "DR2Seg",
    "videoseg_r1": "VideoSeg-R1",
    "vr_ttrl": "VR-TTRL",
}
SCALES = {"percent": 0.01, "fraction": 1.0}
"""Factors of the units of scores; a number in another unit is no score."""
Known: TypeAlias = Literal["stated", "assumed", "unknown"]
Verdict: TypeAlias = Literal["reproduced", "not reproduced", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedResult:
    """One printed number; the fields are the columns of the file."""

    paper: str
    table: str
    row: str
    backbone: str
    benchmark: str
    task: str
    split: str
    part: str
    subset: str
    metric: str
    protocol: str
    protocol_is: Known
    printed: str
    unit: str
    defect: str
    note: str

    @property
    def is_score(self) -> bool:
        """False for tokens, times, counts and relative changes."""
        return self.unit in SCALES

    @property
    def value(self) -> float:
        """The number: a fraction of 1 for a score, else in its unit."""
        return float(self.printed) * SCALES.get(self.unit, 1.0)

    @property
    def rounding(self) -> float:
        """Half of the last printed digit, on the scale of `value`."""
        decimals = len(self.printed.partition(".")[2])
        return 0.5 * 10.0**-decimals * SCALES.get(self.unit, 1.0)

    @property
    def is_variant(self) -> bool:
        """True for a variant of an ablation."""
        return "[" in self.row

    @property
    def name(self) -> str:
        """The row's name, with its backbone where the name does not say it."""
        shown = self.backbone and self.backbone.lower() not in self.row.lower()
        return f"{self.row} ({self.backbone})" if shown else self.row


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A measured number beside the paper's."""

    paper: str
    table: str
    row: str
    metric: str
    value: float
    """The paper's, as a fraction."""
    printed: str
    verdict: Verdict
    differences: tuple[str, ...]
    """Known differences between the run and the paper."""
    text: str
    """`paper 66.4 → ours 65.1 (CI 63.0 to 67.2): reproduced`."""


@cache
def published_results(paper: str) -> tuple[PublishedResult, ...]:
    """Return the numbers of a paper in the order of its tables.

    Raises:
        UsageError: there is no such paper.
    """
    if paper not in PAPERS:
        raise UsageError(f"paper {paper!r}", expected=f"one of {', '.join(PAPERS)}", found=paper)
    with (FOLDER / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        lines: Iterable[dict[str, Any]] = csv.DictReader(file)
        return tuple(PublishedResult(paper=paper, **line) for line in lines)
