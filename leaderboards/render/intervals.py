"""Intervals drawn as bars on one axis a table, as inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.leaderboards import formatting
from harness.leaderboards.render.markup import Markup, element
from harness.leaderboards.row import Row

WIDTH, HEIGHT, EDGE = 168, 18, 6  # pixels


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis that all bars of a table share."""

    low: float
    high: float

    def x(self, value: float) -> str:
        """Pixels from the left, to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return f"{EDGE + share * (WIDTH - 2 * EDGE):.1f}"


def scale(rows: Sequence[Row]) -> Axis | None:
    """Return an axis that covers every number and interval; None if there are no numbers."""
    ends = [row.value for row in rows if row.value is not None]
    ends += [end for row in rows if row.value is not None for end in row.interval or ()]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    # Equal numbers still need an axis of some length.
    margin = 0.0 if high > low else max(abs(low), 1.0) * 0.05
    return Axis(low - margin, high + margin)


def axis(measure: Axis | None) -> Markup:
    """The two ends of the axis in figures, for the heading of the column."""
    if measure is None:
        return Markup("")
    return element(
        "span",
        {"class": "axis", "aria-hidden": "true"},
        element("span", {}, formatting.number(measure.low)),
        element("span", {}, formatting.number(measure.high)),
    )


def bar(row: Row, measure: Axis, best: float | None) -> Markup:
    """One row's number as a dot, its interval as a line, the best row's number as a rule."""
    if row.value is None:
        return Markup("")
    middle = f"{HEIGHT / 2:g}"
    parts = [_line("ground", str(EDGE), str(WIDTH - EDGE), middle, middle)]
    if best is not None:
        parts.append(_line("best", measure.x(best), measure.x(best), "1", str(HEIGHT - 1)))
    if row.interval is not None:
        low, high = (measure.x(end) for end in row.interval)
        parts.append(_line("interval", low, high, middle, middle))
        parts.extend(_line("end", end, end, "5.5", f"{HEIGHT - 5.5:g}") for end in (low, high))
    parts.append(element("circle", {"cx": measure.x(row.value), "cy": middle, "r": "3.5"}))
    return element(
        "svg",
        {"class": "interval", "width": str(WIDTH), "height": str(HEIGHT), "aria-hidden": "true"},
        *parts,
    )


def _line(kind: str, x1: str, x2: str, y1: str, y2: str) -> Markup:
    return element("line", {"class": kind, "x1": x1, "x2": x2, "y1": y1, "y2": y2})
