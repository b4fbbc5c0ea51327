"""Draw curves of trainings as SVG: a line a recipe (mean of its seeds), their range as a band."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import NamedTuple, TypeAlias

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555")
"""Colours that colour-blind readers can distinguish too (Okabe and Ito 2008)."""
WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 26, 30
DASHES = ("", "7 4", "2 3")
"""Strokes of lines: of the first five, the next five, and so on."""
COLUMNS = 3
"""Panels side by side; more of them go below."""
KEY = 18
"""Pixels of a line that names recipes."""
LETTER = 6.2
"""Pixels of a letter, at most on average: where the next name begins."""

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
    """All panels side by side, with one key above them.

    Args:
        panels: At least one; recipes have the same colour in all of them.
        smooth: Numbers of so many steps are averaged, each with those before it.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    pens = {name: _pen(place) for place, name in enumerate(names)}
    columns = min(COLUMNS, max(1, len(panels)))
    width = WIDTH * columns
    key, above = _key(pens, width)
    drawn = "".join(
        f'<g transform="translate({place % columns * WIDTH},'
        f'{above + place // columns * HEIGHT})">{_panel(panel, pens, smooth)}</g>'
        for place, panel in enumerate(panels)
    )
    height = above + HEIGHT * -(-len(panels) // columns)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" fill="#222">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{key}{drawn}</svg>\n'
    )


class _Pen(NamedTuple):
    """A line's colour, and with it its stroke as attributes of a path."""

    colour: str
    stroke: str


def _pen(place: int) -> _Pen:
    """Return the pen of a line; no two of fifteen are equal."""
    colour, dashes = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return _Pen(colour, f'fill="none" stroke="{colour}"{dashed} stroke-width="2"')


def _key(pens: Mapping[str, _Pen], width: int) -> tuple[str, int]:
    """The names of recipes with their lines, in rows of at most `width`, and their height."""
    parts, across, down = [], float(LEFT), 14
    for name, pen in pens.items():
        wide = 44 + LETTER * len(name)
        if across > LEFT and across + wide > width:
            across, down = float(LEFT), down + KEY
        parts.append(
            f'<g transform="translate({across:g},{down})"><path d="M0-4h22" {pen.stroke}/>'
            f'<text x="28">{escape(name)}</text></g>'
        )
        across += wide
    return "".join(parts), down + 8


def moving_average(points: Points, count: int) -> dict[int, float]:
    """Every number averaged with up to `count - 1` before it.

    >>> moving_average({1: 0.0, 2: 1.0, 3: 2.0}, 2)
    {1: 0.0, 2: 0.5, 3: 1.5}
    """
    steps = sorted(points)
    return {
        step: fmean(points[recent] for recent in steps[max(0, place + 1 - count) : place + 1])
        for place, step in enumerate(steps)
    }


def ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers between two numbers.

    >>> ticks(0, 60), ticks(0.41, 0.58)
    ([0.0, 20.0, 40.0, 60.0], [0.45, 0.5, 0.55])
    """
    spread = high - low
    size = 10.0 ** (len(str(int(1e9 * spread))) - 10)
    step = next(unit * size for unit in (0.1, 0.2, 0.5, 1, 2, 5) if spread / (unit * size) <= 5)
    first = -(-low // step)
    count = int(high / step - first + 1e-9) + 1
    return [round((first + place) * step, 10) for place in range(count)]


def _panel(panel: Panel, pens: Mapping[str, _Pen], smooth: int) -> str:
    lines = {
        name: [moving_average(points, smooth) for points in seeds if points]
        for name, seeds in panel.lines.items()
    }
    every = [points for seeds in lines.values() for points in seeds]
    size = min(11.0, 1.6 * (WIDTH - LEFT) / max(1, len(panel.title)))
    title = (
        f'<text x="{LEFT}" y="{TOP - 10}" font-weight="bold" font-size="{size:.1f}">'
        f"{escape(panel.title)}</text>"
    )
    if not every:
        return f'{title}<text x="{LEFT}" y="{HEIGHT / 2}">nothing was logged</text>'
    axes = _Axes(
        last=max(max(points) for points in every),
        low=min(min(points.values()) for points in every),
        high=max(max(points.values()) for points in every),
        across=panel.across,
    )
    return (
        title
        + axes.draw()
        + "".join(_line(seeds, pens[name], axes) for name, seeds in lines.items() if seeds)
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    """Ranges of the axes: from step 0 to the last, and a little beyond the lowest and highest
    number.
    """

    last: int
    low: float
    high: float
    across: str

    @property
    def bounds(self) -> tuple[float, float]:
        margin = 0.06 * (self.high - self.low) or 0.5
        return self.low - margin, self.high + margin

    def point(self, step: float, value: float) -> tuple[float, float]:
        low, high = self.bounds
        across = (step / self.last if self.last else 0) * (WIDTH - LEFT - RIGHT)
        up = (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)

    def draw(self) -> str:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#222"/>']
        for value in ticks(*self.bounds):
            _, y = self.point(0, value)
            parts.append(f'<path d="M{LEFT} {y}H{right}" stroke="#ddd"/>')
            parts.append(f'<text x="{LEFT - 5}" y="{y + 4}" text-anchor="end">{value:g}</text>')
        for step in ticks(0, max(1, self.last)):
            x, _ = self.point(step, self.low)
            parts.append(f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{step:g}</text>')
        parts.append(
            f'<text x="{right}" y="{bottom + 26}" text-anchor="end">{escape(self.across)}</text>'
        )
        return "".join(parts)


def _line(seeds: Sequence[Points], pen: _Pen, axes: _Axes) -> str:
    steps = sorted(set.intersection(*(set(points) for points in seeds)))
    if not steps:
        return ""
    values = {step: [points[step] for points in seeds] for step in steps}
    above = [axes.point(step, max(values[step])) for step in steps]
    below = [axes.point(step, min(values[step])) for step in reversed(steps)]
    middle = [axes.point(step, fmean(values[step])) for step in steps]
    band = f'<path d="{_path([*above, *below])}Z" fill="{pen.colour}" opacity="0.15"/>'
    line = f'<path d="{_path(middle)}" {pen.stroke}/>'
    dot = (
        ""
        if len(steps) > 1
        else (f'<circle cx="{middle[0][0]}" cy="{middle[0][1]}" r="3" fill="{pen.colour}"/>')
    )
    return (band if len(seeds) > 1 else "") + line + dot


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in places)
