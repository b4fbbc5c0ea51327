"""`harness conform`: somebody else's scorer on our adversarial cases."""

from argparse import Namespace
from dataclasses import asdict

from harness.cli.output import say, show_json
from harness.cli.tables import show_columns
from harness.leaderboards.differences.conform import Deviation
from harness.leaderboards.differences.conform import conform as run_cases

SHOWN = 12


def conform(arguments: Namespace) -> int:
    """Print where the scorer deviates, the smallest case first; exit code 1 if it does."""
    count, found = run_cases(
        arguments.scorer, arguments.protocol, tolerance=arguments.tolerance, scale=arguments.scale
    )
    cases = len({one.case for one in found})
    if arguments.json:
        plain = {"protocol": arguments.protocol, "cases": count, "deviating": cases}
        show_json({**plain, "deviations": [asdict(one) for one in found]})
        return int(bool(found))
    say(f"{arguments.protocol}: {count} cases, {cases} deviate")
    if not found:
        return 0
    first = found[0]
    say("", f"the smallest that deviates: {first.case}")
    say(f"  {first.metric} {_number(first.expected)}, the scorer gives {_given(first)}")
    say(*(f"    {line}" for line in first.example), "")
    rows = [("metric", "protocol", "scorer", "case")]
    rows += [(one.metric, _number(one.expected), _given(one), one.case) for one in found[:SHOWN]]
    show_columns(rows)
    if len(found) > SHOWN:
        print(f"… and {len(found) - SHOWN} more; --json has all")
    return 1


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _given(one: Deviation) -> str:
    return one.error or _number(one.found)
