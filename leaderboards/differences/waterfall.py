"""Draw the steps between two runs' numbers (`Difference`) as a waterfall chart: one bar per step.

`harness diff` prints it as text (`lines`), and writes it as SVG or HTML (`PICTURES`).
"""

from collections.abc import Iterator
from html import escape

from harness.errors import counted
from harness.leaderboards.differences.changed import cut_alike
from harness.leaderboards.differences.diff import SUBSET, Difference
from harness.leaderboards.differences.steps import Step
from harness.leaderboards.formatting import signed_span

MAX_LABEL = 36
"""Largest number of characters of a name beside a bar."""
BAR_WIDTH = 24
"""Width of a bar in a terminal, in columns."""
UP, DOWN, WHOLE = "#009e73", "#d55e00", "#0072b2"
"""Colours that colour-blind readers can distinguish too (Okabe and Ito 2008)."""
WIDTH, ROW, LEFT, RIGHT, TOP = 1020, 30, 280, 380, 40
"""Pixels of the SVG: its width, a row's height, margins."""


def heights(diff: Difference) -> list[tuple[float, float]]:
    """Return (before, after) of each step; the last ends at the second run's number."""
    pairs, level = [], diff.first or 0.0
    for step in diff.steps:
        pairs.append((level, level + step.points))
        level += step.points
    return pairs


def lines(diff: Difference, *, width: int) -> Iterator[str]:
    """Yield the waterfall as text; each step is the difference of the rounded numbers beside it.

    Args:
        diff: the comparison; its verdict is left out.
        width: columns of the terminal, to which details are cut.
    """
    spans = heights(diff)
    numbers = [diff.first or 0.0, diff.second or 0.0, *(level for pair in spans for level in pair)]
    low, high = min(numbers), max(numbers)
    if low >= 0 and high <= 1:  # a share: bars have the scale of all scores
        low, high = 0.0, 1.0
    a, b = cut_alike(diff.a, diff.b, longest=MAX_LABEL)
    room = min(MAX_LABEL, max(map(len, [a, b, *(step.name for step in diff.steps)])))
    in_both = " in both" if any(step.name == SUBSET for step in diff.steps) else ""
    yield (
        f"{diff.task}, {diff.headline} on {counted(diff.n_samples, 'sample')}{in_both}: "
        f"{diff.a} {_number(diff.first)} → {diff.b} {_number(diff.second)}"
    )
    yield ""
    yield f"  {a:{room}}  {_number(diff.first):>8}"
    for step, (before, after) in zip(diff.steps, spans, strict=True):
        bar = _bar(before, after, low, high)
        points = _moved(before, after)
        evidence = _evidence(step, diff.level)
        yield f"  {_label(step.name):{room}}  {points:>8}  {bar}  {evidence}".rstrip()
        for line in step.details:
            yield f"      {_cut(line, width)}"
    yield f"  {b:{room}}  {_number(diff.second):>8}"


def _number(value: float | None) -> str:
    """Return four decimals, or a dash."""
    return "–" if value is None else f"{value:.4f}"


def _label(name: str) -> str:
    """Return a name that fits its column."""
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"


def _moved(before: float, after: float) -> str:
    """Return the difference of two numbers as they are printed."""
    return f"{round(after, 4) - round(before, 4):+.4f}"


def _cut(line: str, width: int) -> str:
    limit = max(40, min(width, 160) - 8)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _evidence(step: Step, level: float) -> str:
    """Return the paired interval of a step and the number of samples whose scores it changes."""
    if not step.samples:
        return ""
    interval = f"{100 * level:g} % interval {signed_span(step.interval)}; " if step.interval else ""
    return f"{interval}{counted(step.samples, 'sample')} changed"


def _bar(before: float, after: float, low: float, high: float) -> str:
    scale = (BAR_WIDTH - 1) / (high - low) if high > low else 0.0
    start, end = sorted(round((level - low) * scale) for level in (before, after))
    mark = "·" if abs(after - before) < 5e-5 else "▲" if after > before else "▼"
    return " " * start + mark * (end - start + 1) + " " * (BAR_WIDTH - 1 - end)


def svg(diff: Difference) -> str:
    """Return the chart as an SVG: both numbers as full bars, each step as a bar of its change."""
    spans = [(0.0, diff.first or 0.0), *heights(diff), (0.0, diff.second or 0.0)]
    a, b = cut_alike(diff.a, diff.b, longest=MAX_LABEL)
    names = [a, *(step.name for step in diff.steps), b]
    evidence = ["", *(_evidence(step, diff.level) for step in diff.steps), ""]
    numbers = [level for pair in spans for level in pair]
    low, high = min(numbers), max(numbers) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    bars = []
    for row, ((before, after), name) in enumerate(zip(spans, names, strict=True)):
        y, is_total = TOP + row * ROW, row in (0, len(spans) - 1)
        left, right = (LEFT + (level - low) * scale for level in sorted((before, after)))
        colour = WHOLE if is_total else UP if after >= before else DOWN
        text = f"{after:.4f}" if is_total else _moved(before, after)
        weight = ' font-weight="bold"' if is_total else ""
        details = "" if is_total else "\n".join(diff.steps[row - 1].details)
        label = escape(_label(name))
        bars.append(
            f"<g><title>{escape(details)}</title>"
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end"{weight}>{label}</text>'
            f'<rect x="{left:.1f}" y="{y}" width="{max(1.5, right - left):.1f}" height="20" '
            f'fill="{colour}"/><text x="{right + 6:.1f}" y="{y + 15}"{weight}>{text}'
            f'<tspan fill="#666" font-weight="normal" font-size="11">  {escape(evidence[row])}'
            "</tspan></text></g>"
        )
        if row + 1 < len(spans):
            x = LEFT + (after - low) * scale
            bars.append(f'<path d="M{x:.1f} {y + 20}v{ROW - 20}" stroke="#999"/>')
    height = TOP + len(spans) * ROW + 30
    title = f"{diff.headline} on {diff.task}: {b} against {a}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="13" fill="#222">'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="12" y="22" font-weight="bold">{escape(title)}</text>{"".join(bars)}'
        f'<text x="12" y="{height - 12}">{escape(diff.verdict)}</text></svg>\n'
    )


def html(diff: Difference) -> str:
    """Return a page with the chart and a table of the steps."""
    rows = "".join(
        f"<tr><td>{escape(step.name)}</td><td>{_moved(*span)}</td>"
        f"<td>{escape(_evidence(step, diff.level))}</td>"
        f"<td>{'<br>'.join(map(escape, step.details))}</td></tr>"
        for step, span in zip(diff.steps, heights(diff), strict=True)
    )
    title = f"{escape(diff.b)} against {escape(diff.a)}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:14px sans-serif;margin:2em}td,th{text-align:left;padding:.3em 1em .3em 0;"
        "vertical-align:top}</style>"
        f"{svg(diff)}<table><tr><th>stage</th><th>points</th><th>evidence</th><th>what differs</th>"
        f"</tr>{rows}</table></html>\n"
    )


PICTURES = {".svg": svg, ".html": html}
"""Writers by the suffix of the output file."""
