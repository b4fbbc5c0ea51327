"""`harness score RUN --protocols`: score a run by several protocols of its benchmark."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from harness.cli.judge import build_judge
from harness.cli.output import say, show_json
from harness.cli.tables import number, wrap_lines
from harness.errors import UsageError, counted
from harness.leaderboards.differences import bracket
from harness.leaderboards.differences.bracket import Bracketed
from harness.record import Run

STRIP_WIDTH = 40
"""Characters of a strip that shows a score from 0 to 1."""


def score_protocols(arguments: Namespace) -> int:
    """Print each run's score by each protocol; `all` also writes them into the run for boards."""
    for name in ("tasks", "predictions", "model", "subset", "out"):
        if getattr(arguments, name):
            raise UsageError(f"--{name} beside --protocols", expected="only RUN", found="both")
    if not arguments.runs:
        raise UsageError("--protocols", expected="a RUN", found="none")
    listed = filter(None, map(str.strip, arguments.protocols.split(",")))
    names = None if arguments.protocols == "all" else list(listed)
    judge = None if arguments.judge is None else build_judge(arguments.judge)
    documents = []
    for folder in arguments.runs:
        run = Run.open(folder)
        run.check_files()
        bracketed = bracket.bracket(run, data_root=arguments.data, names=names, judge=judge)
        if names is None:
            bracket.write(run, bracketed)
        documents.append({"run": str(folder), "protocols": [asdict(entry) for entry in bracketed]})
        if not arguments.json:
            say(*lines(run, bracketed))
    if arguments.json:
        show_json(documents)
    return 0


def lines(run: Run, bracketed: Sequence[Bracketed]) -> Iterator[str]:
    """Yield the printed lines: each protocol's score as a strip, its scorer, and papers with it."""
    results = run.results
    scored = [entry for entry in bracketed if not entry.reason]
    yield (
        f"{results['model']} on {results['task']} {results['split']}: the same "
        f"{results['n_total']} predictions by {len(scored)} of {len(bracketed)} protocols"
    )
    for entry in bracketed:
        yield ""
        mark = " (the run's own)" if entry.protocol == results["protocol"] else ""
        yield f"  {entry.protocol}{mark}"
        if entry.reason:
            yield from wrap_lines(f"    no number: {entry.reason}", indent=6)
            continue
        yield f"    {strip(entry.value, entry.interval)}  {entry.headline} {number(entry.value)}"
        if entry.n_failed:
            samples = counted(results["n_total"], "sample")
            yield f"    {entry.n_failed} of {samples} without an answer"
        yield from wrap_lines(f"    {entry.about}", indent=4)
        papers = "; ".join(entry.papers) or "none on file"
        yield from wrap_lines(f"    papers: {papers}", indent=6)


def strip(value: float | None, interval: tuple[float, float] | None) -> str:
    """Draw a score and its interval on a strip from 0 to 1; blank if one is outside, or missing.

    >>> strip(0.5, (0.25, 0.75))
    '··········├─────────●─────────┤·········'
    """
    ends = (value, *(interval or (value, value)))
    if not all(end is not None and 0 <= end <= 1 for end in ends):
        return " " * STRIP_WIDTH
    middle, low, high = (
        min(STRIP_WIDTH - 1, int(end * STRIP_WIDTH)) for end in ends if end is not None
    )
    drawn = ["·"] * STRIP_WIDTH
    drawn[low : high + 1] = ["─"] * (high + 1 - low)
    drawn[low], drawn[high], drawn[middle] = "├", "┤", "●"
    return "".join(drawn)
