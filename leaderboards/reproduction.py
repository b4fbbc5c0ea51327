"""Whether a measured row reproduces the number that its paper prints.

The paper's number has no interval of its own that is known, so it is taken as it is, but for the
rounding of its last digit:

- `reproduced`: it lies in the interval of our number, which is at most WIDEST wide;
- `not reproduced`: it lies outside;
- `cannot tell`: there is no interval, or a wider one, or protocol or samples are not known to be
  the paper's, so that the numbers may be of different quantities.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.leaderboards import formatting
from harness.leaderboards.published_results import PAPERS, PublishedResult
from harness.leaderboards.row import Row

WIDEST = 0.1
"""Width of an interval, on a scale of 0 to 1, above which a number inside it shows nothing."""
Verdict: TypeAlias = Literal["reproduced", "not reproduced", "cannot tell"]


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


def compare_with_paper(made: Row, result: PublishedResult) -> Reproduction:
    """Compare a measured row's headline with the paper's number for the same method."""
    differences = [str(one) for one in made.deviations]
    is_same = result.protocol == made.protocol and not result.subset and not result.part
    if not result.protocol:
        differences.append("protocol: the paper does not say which")
    elif result.protocol != made.protocol:
        differences.append(f"protocol {made.protocol} (paper: {result.protocol})")
    elif result.protocol_is == "assumed":
        differences.append(f"protocol {made.protocol} is assumed, not stated by the paper")
    if result.subset or made.subset:
        is_same = False
        used, paper = made.subset or "all", result.subset or "all"
        differences.append(f"samples {used} (paper: {paper})")
    if made.trained_on_some:
        differences.append(f"contamination: {made.trained_on}")
    if result.defect:
        differences.append(f"the paper's number: {result.defect}")
    return Reproduction(
        paper=result.paper,
        table=result.table,
        row=result.row,
        metric=result.metric,
        value=result.value,
        printed=result.printed,
        verdict=(verdict := _verdict(made, result) if is_same else "cannot tell"),
        differences=tuple(differences),
        text=_text(made, result, verdict),
    )


def _verdict(made: Row, result: PublishedResult) -> Verdict:
    if made.interval is None:
        return "cannot tell"
    low, high = made.interval
    if not low - result.rounding <= result.value <= high + result.rounding:
        return "not reproduced"
    return "reproduced" if high - low <= WIDEST else "cannot tell"


def _text(made: Row, result: PublishedResult, verdict: Verdict) -> str:
    factor = 100 if result.unit == "percent" else 1
    decimals = len(result.printed.partition(".")[2])

    def show(value: float | None) -> str:
        return formatting.NOTHING if value is None else f"{value * factor:.{decimals}f}"

    span = made.interval and f"CI {show(made.interval[0])} to {show(made.interval[1])}"
    where = f"{PAPERS[result.paper]}, Table {result.table}"
    return (
        f"{where}: paper {result.printed} → ours {show(made.value)} ({span or 'no CI'}): {verdict}"
    )
