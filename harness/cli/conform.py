"""`harness conform`: test another program's scorer against a protocol, on adversarial cases."""

from argparse import Namespace
from dataclasses import asdict

from harness.cli.output import say, show_json
from harness.cli.tables import show_columns
from harness.leaderboards.differences.conform import Deviation
from harness.leaderboards.differences.conform import conform as run_cases

MAX_SHOWN = 12  # deviations in the printed table; --json has all


def conform(arguments: Namespace) -> int:
    """Print the cases on which the scorer deviates, the smallest first; exit code 1 if any."""
    count, deviations = run_cases(
        arguments.scorer, arguments.protocol, tolerance=arguments.tolerance, scale=arguments.scale
    )
    cases = len({deviation.case for deviation in deviations})
    if arguments.json:
        plain = {"protocol": arguments.protocol, "cases": count, "deviating": cases}
        show_json({**plain, "deviations": [asdict(deviation) for deviation in deviations]})
        return int(bool(deviations))
    say(f"{arguments.protocol}: {count} cases, {cases} deviate")
    if not deviations:
        return 0
    first = deviations[0]
    say("", f"the smallest that deviates: {first.case}")
    say(f"  {first.metric} {_number(first.expected)}, the scorer gives {_deviation_text(first)}")
    say(*(f"    {line}" for line in first.example), "")
    rows = [("metric", "protocol", "scorer", "case")]
    rows += [
        (deviation.metric, _number(deviation.expected), _deviation_text(deviation), deviation.case)
        for deviation in deviations[:MAX_SHOWN]
    ]
    show_columns(rows)
    if len(deviations) > MAX_SHOWN:
        print(f"… and {len(deviations) - MAX_SHOWN} more; --json has all")
    return 1


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _deviation_text(deviation: Deviation) -> str:
    """Return the scorer's value, or its error."""
    return deviation.error or _number(deviation.found)
