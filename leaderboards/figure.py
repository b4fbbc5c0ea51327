"""Draw curves as SVG panels: each recipe is a line (mean of its seeds) with their range as a band.

`curves` draws logs of trainings, `harness board adaptation` numbers by step. Sizes are in pixels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import NamedTuple, TypeAlias

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555")
"""Colours that colour-blind readers can distinguish too (Okabe and Ito 2008)."""
WIDTH, HEIGHT = 300, 190
"""Size of a panel."""
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 26, 30
"""Margins of a panel's axes."""
DASHES = ("", "7 4", "2 3")
"""Dash patterns of the first five lines, of the next five, and so on."""
MAX_COLUMNS = 3
"""Largest number of panels side by side."""
KEY_ROW = 18
"""Height of a line of the key."""
LETTER_WIDTH = 6.2
"""Estimated width of a letter of a recipe's name, rather too large than too small."""

Points: TypeAlias = Mapping[int, float]
"""A number by its step."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity: the points of every seed, by recipe."""

    title: str
    lines: Mapping[str, Sequence[Points]]
    across: str = "step"
    """Name of the horizontal axis."""


def figure(panels: Sequence[Panel], *, smooth: int = 1) -> str:
    """Return all panels as one SVG, with one key above them.

    Args:
        panels: At least one; a recipe has the same colour in all of them.
        smooth: Steps of the moving average.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    pens = {name: _pen(index) for index, name in enumerate(names)}
    columns = min(MAX_COLUMNS, max(1, len(panels)))
    width = WIDTH * columns
    key, above = _key(pens, width)
    panel_texts = "".join(
        f'<g transform="translate({index % columns * WIDTH},'
        f'{above + index // columns * HEIGHT})">{_panel(panel, pens, smooth)}</g>'
        for index, panel in enumerate(panels)
    )
    rows = -(-len(panels) // columns)  # rounded up
    height = above + HEIGHT * rows
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" fill="#222">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{key}{panel_texts}</svg>\n'
    )


class _Pen(NamedTuple):
    """A line's colour, and its stroke as attributes of an SVG path."""

    colour: str
    stroke: str


def _pen(index: int) -> _Pen:
    """Return the pen of a line; the first fifteen differ in colour or dashes."""
    colour, dashes = COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return _Pen(colour, f'fill="none" stroke="{colour}"{dashed} stroke-width="2"')


def _key(pens: Mapping[str, _Pen], width: int) -> tuple[str, int]:
    """Return the key of recipes as SVG, in rows of at most `width` pixels, and its height."""
    entries, x, y = [], float(LEFT), 14
    for name, pen in pens.items():
        name_width = 44 + LETTER_WIDTH * len(name)
        if x > LEFT and x + name_width > width:
            x, y = float(LEFT), y + KEY_ROW
        entries.append(
            f'<g transform="translate({x:g},{y})"><path d="M0-4h22" {pen.stroke}/>'
            f'<text x="28">{escape(name)}</text></g>'
        )
        x += name_width
    return "".join(entries), y + 8


def moving_average(points: Points, count: int) -> dict[int, float]:
    """Return every number averaged with up to `count - 1` numbers before it.

    >>> moving_average({1: 0.0, 2: 1.0, 3: 2.0}, 2)
    {1: 0.0, 2: 0.5, 3: 1.5}
    """
    steps = sorted(points)
    return {
        step: fmean(points[recent] for recent in steps[max(0, index + 1 - count) : index + 1])
        for index, step in enumerate(steps)
    }


def ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers between two numbers.

    >>> ticks(0, 60), ticks(0.41, 0.58)
    ([0.0, 20.0, 40.0, 60.0], [0.45, 0.5, 0.55])
    """
    spread = high - low
    size = 10.0 ** (len(str(int(1e9 * spread))) - 10)  # power of ten, at most the spread
    step = next(unit * size for unit in (0.1, 0.2, 0.5, 1, 2, 5) if spread / (unit * size) <= 5)
    first = -(-low // step)  # rounded up: the first tick is `first * step`
    count = int(high / step - first + 1e-9) + 1
    return [round((first + index) * step, 10) for index in range(count)]


def _panel(panel: Panel, pens: Mapping[str, _Pen], smooth: int) -> str:
    """Draw a panel as SVG: its title, axes, and each line with the range of its seeds."""
    lines = {
        name: [moving_average(points, smooth) for points in seeds if points]
        for name, seeds in panel.lines.items()
    }
    all_points = [points for seeds in lines.values() for points in seeds]
    size = min(11.0, 1.6 * (WIDTH - LEFT) / max(1, len(panel.title)))
    title = (
        f'<text x="{LEFT}" y="{TOP - 10}" font-weight="bold" font-size="{size:.1f}">'
        f"{escape(panel.title)}</text>"
    )
    if not all_points:
        return f'{title}<text x="{LEFT}" y="{HEIGHT / 2}">nothing was logged</text>'
    axes = _Axes(
        last=max(max(points) for points in all_points),
        low=min(min(points.values()) for points in all_points),
        high=max(max(points.values()) for points in all_points),
        across=panel.across,
    )
    return (
        title
        + axes.draw()
        + "".join(_line(seeds, pens[name], axes) for name, seeds in lines.items() if seeds)
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    """Axes of a panel: x from step 0 to the last, y a little beyond the range of numbers."""

    last: int
    low: float
    high: float
    across: str

    @property
    def bounds(self) -> tuple[float, float]:
        margin = 0.06 * (self.high - self.low) or 0.5
        return self.low - margin, self.high + margin

    def point(self, step: float, value: float) -> tuple[float, float]:
        """Return (x, y) in pixels of the panel."""
        low, high = self.bounds
        x = (step / self.last if self.last else 0) * (WIDTH - LEFT - RIGHT)
        height = (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return round(LEFT + x, 1), round(HEIGHT - BOTTOM - height, 1)

    def draw(self) -> str:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        elements = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#222"/>']
        for value in ticks(*self.bounds):
            _, y = self.point(0, value)
            elements.append(f'<path d="M{LEFT} {y}H{right}" stroke="#ddd"/>')
            elements.append(f'<text x="{LEFT - 5}" y="{y + 4}" text-anchor="end">{value:g}</text>')
        for step in ticks(0, max(1, self.last)):
            x, _ = self.point(step, self.low)
            elements.append(f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{step:g}</text>')
        elements.append(
            f'<text x="{right}" y="{bottom + 26}" text-anchor="end">{escape(self.across)}</text>'
        )
        return "".join(elements)


def _line(seeds: Sequence[Points], pen: _Pen, axes: _Axes) -> str:
    """Return a recipe's mean and band over the steps that all its seeds have."""
    steps = sorted(set.intersection(*(set(points) for points in seeds)))
    if not steps:
        return ""
    values = {step: [points[step] for points in seeds] for step in steps}
    above = [axes.point(step, max(values[step])) for step in steps]
    below = [axes.point(step, min(values[step])) for step in reversed(steps)]
    middle = [axes.point(step, fmean(values[step])) for step in steps]
    band = f'<path d="{_path([*above, *below])}Z" fill="{pen.colour}" opacity="0.15"/>'
    line = f'<path d="{_path(middle)}" {pen.stroke}/>'
    if len(steps) == 1:  # a path of one point is not visible
        line += f'<circle cx="{middle[0][0]}" cy="{middle[0][1]}" r="3" fill="{pen.colour}"/>'
    return (band if len(seeds) > 1 else "") + line


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in points)
