"""Decide whether a measured row reproduces the number that its paper prints.

Papers print no interval, so their number is compared with our interval, up to the rounding of its
last digit. `reproduced`: it lies inside, and the interval is at most MAX_WIDTH wide. `not
reproduced`: it lies outside. `cannot tell`: the interval is wider, or protocol or samples may be
others.
"""

from collections.abc import Iterable, Iterator

from harness.leaderboards import formatting
from harness.leaderboards.definitions import SLOT, Method, methods
from harness.leaderboards.published_results import SCALES, PublishedResult
from harness.leaderboards.row import Reproduction, Row, Verdict
from harness.spec import parse

MAX_WIDTH = 0.1
"""Largest width of an interval, on a scale of 0 to 1, at which a number inside is reproduced."""
TRAIN_OPTIONS = frozenset(
    (
        "method",
        "model",
        "processes",
        "train_tasks",
        "eval_model",
        "eval_tasks",
        "eval_metrics",
        "every",
    )
)
"""Keys of a configuration that are options of `harness train`, not settings of the trainer."""


def of_paper(row: Row) -> Reproduction | None:
    """Compare a measured row with its paper's number; None if no board has one for its method.

    Of several numbers for the method, one by the row's protocol is preferred, then one of a main
    table.
    """
    candidates = [
        (method, result)
        for method in methods()
        if method.is_of(row.model_spec)
        for column in method.definition.columns
        if column.task and (column.name, column.split) == (row.task, row.split)
        if method.row.is_of(column)
        for subset_part, metric, printed_name in column.heads
        if (subset_part, metric) == ("", row.headline)
        for result in method.definition.printed(method.row, column, subset_part, printed_name)
        if result.is_score
    ]
    if not candidates:
        return None
    method, result = min(candidates, key=lambda pair: pair[1].protocol != row.protocol)
    return compare_with_paper(row, result, trained=training_differences(row, method))


def training_differences(row: Row, method: Method) -> Iterator[str]:
    """Yield each difference of a row's recorded training from the method's configuration."""
    for name in SLOT.findall(method.row.model):
        step = method.definition.trainings[name]
        if row.training is None:
            yield f"training: not recorded (paper: {step.method}, {step.config})"
            continue
        used = parse(row.training.method)
        configured = {key: value for key, value in step.read().items() if key not in TRAIN_OPTIONS}
        if used.name != step.method:
            yield f"training {used.name} (paper: {step.method})"
        for key in sorted(used.arguments.keys() | configured.keys()):
            if used.arguments.get(key) != configured.get(key):
                yield f"training {key} {used.arguments.get(key)} (paper: {configured.get(key)})"


def compare_with_paper(
    row: Row,
    result: PublishedResult,
    *,
    metric: str = "",
    trained: Iterable[str] = (),
    protocol: str | None = None,
) -> Reproduction:
    """Compare a measured row with the paper's number for the same method.

    Args:
        row: The measured row.
        result: The paper's number.
        metric: Name of the row's metric; empty: the headline.
        trained: Known differences of the training (`training_differences`).
        protocol: Protocol of a board's column, empty if it is unknown: then the verdict is `cannot
            tell`. None: there is no column.
    """
    metric = metric or row.headline
    reasons: list[str] = []
    """Reasons why no interval can decide."""
    if protocol == "":
        reasons.append("the column's protocol is unknown")
    elif not result.is_by(row.protocol):
        is_known = result.protocol and result.protocol_is != "unknown"
        reasons.append(f"the paper's protocol is {result.protocol if is_known else 'unknown'}")
    differences = [*map(str, row.deviations), *trained]
    if protocol == "":
        differences.append(
            "the column's protocol is unknown: the board or the task's card.toml must name it"
        )
    if result.protocol != row.protocol or result.protocol_is != "stated":
        paper = f"{result.protocol or 'not said'}, {result.protocol_is}"
        differences.append(f"protocol {row.protocol} (paper: {paper})")
    if result.subset or row.subset:
        samples = f"samples {row.subset or 'all'} (paper: {result.subset or 'all'})"
        differences.append(samples)
        reasons.append(samples)
    if row.trained_on_some:
        differences.append(f"contamination: {row.trained_on}")
    if result.defect:
        differences.append(f"the paper's number: {result.defect}")
    value, interval = row.metrics.get(metric), row.intervals.get(metric)
    verdict: Verdict = "cannot tell"
    if interval is None:
        reasons.append("there is no interval")
    elif not reasons:
        low, high = interval[0] - result.rounding, interval[1] + result.rounding
        if not low <= result.value <= high:
            verdict = "not reproduced"
        elif interval[1] - interval[0] <= MAX_WIDTH:
            verdict = "reproduced"
        else:
            reasons.append(f"the interval is wider than {MAX_WIDTH:g}")
    factor, decimals = 1 / SCALES[result.unit], len(result.printed.partition(".")[2])

    def show(number: float | None) -> str:
        return formatting.NOTHING if number is None else f"{number * factor:.{decimals}f}"

    because = f", because {' and '.join(reasons)}" if reasons else ""
    span = f"CI {show(interval[0])} to {show(interval[1])}" if interval else "no CI"
    return Reproduction(
        paper=result.paper,
        title=result.source,
        table=result.table,
        row=result.row,
        metric=metric,
        value=result.value,
        printed=result.printed,
        verdict=verdict,
        differences=tuple(differences),
        text=f"paper {result.printed} → ours {show(value)} ({span}): {verdict}{because}",
    )
