"""Write the result of an audit (`differences.audit`) as a sentence, a page and a badge."""

from harness.leaderboards import formatting
from harness.leaderboards.differences.audit import BLIND, Audit
from harness.leaderboards.render import badge as badges
from harness.leaderboards.render.pages import fill

COLOURS = {True: badges.GOOD, False: badges.BAD, None: badges.UNKNOWN}
SYMBOLS = {True: "✓", False: "✗", None: "·"}
MAX_BAR_WIDTH = 260  # pixels


def summary(report: Audit) -> str:
    """Describe in one sentence how much of the score is due to the images."""
    number = formatting.number
    best = report.best_blind
    if best is None or best.comparison is None:
        return "No control without the question's images could be run."
    interval = best.comparison.interval
    # The difference is the blind number minus the seeing one. For a score, the images' share is
    # the negative of it.
    if interval is not None and best.comparison.better == "higher":
        interval = -interval[1], -interval[0]
    span = f" ({formatting.signed_span(interval)})" if interval else ""
    return (
        f"Of {report.headline} {number(report.value)}, {number(report.seeing)}{span} is due to "
        "the images: "
        f"it is {number(best.value)} without the question's own images."
    )


def page(report: Audit) -> str:
    """Return the page: the sentence, a bar and a verdict for each control."""
    values = [control.value for control in report.controls if control.value is not None]
    longest = max([abs(report.value or 0.0), *map(abs, values)]) or 1.0
    return fill(
        "audit.jinja",
        audit=report,
        summary=summary(report),
        width=lambda value: max(1, round(MAX_BAR_WIDTH * abs(value) / longest)),
        colours=COLOURS,
        symbols=SYMBOLS,
    )


def badge(report: Audit) -> str:
    """Return an SVG badge for a README: the score and the share of it that is due to the images."""
    best = report.best_blind
    if best is None or best.comparison is None or report.seeing is None or not report.value:
        text, colour = "not known", COLOURS[None]
    else:
        if best.comparison.better == "lower":  # an error has no share due to the images
            evidence = f"{formatting.number(best.value)} blind"
        else:
            evidence = f"{max(0.0, report.seeing / report.value):.0%} of it"
        text = f"{report.headline} {formatting.number(report.value)}, {evidence}"
        verdicts = [control.passed for control in report.controls if control.name in BLIND]
        is_sound: bool | None = None  # not decided
        if False in verdicts:
            is_sound = False
        elif all(verdicts):
            is_sound = True
        colour = COLOURS[is_sound]
    return badges.svg("seeing", text, colour)
