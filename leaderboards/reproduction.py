"""Whether a measured row reproduces the number that its paper prints.

The paper's number has no interval of its own that is known, so it is taken as it is, but for the
rounding of its last digit:

- `reproduced`: it lies in the interval of our number, which is at most WIDEST wide;
- `not reproduced`: it lies outside;
- `cannot tell`: there is no interval, or a wider one, or protocol or samples are not known to be
  the paper's, so that the numbers may be of different quantities.
"""

from collections.abc import Iterable, Iterator

from harness.leaderboards import formatting
from harness.leaderboards.definitions import SLOT, Method, methods
from harness.leaderboards.published_results import PublishedResult, Reproduction, Verdict
from harness.leaderboards.row import Row
from harness.spec import parse

WIDEST = 0.1
"""Width of an interval, on a scale of 0 to 1, above which a number inside it shows nothing."""
OPTIONS = frozenset({"model", "train_tasks", "eval_model", "eval_tasks", "eval_metrics", "every"})
"""Keys of a configuration which are options of `harness train`, and no settings of the trainer."""


def of_paper(made: Row) -> Reproduction | None:
    """Compare a measured row with its paper's number; None where no board has such a row.

    Of several numbers for the same method the one of the row's protocol comes first, then that of
    a main table.
    """
    found = [
        (method, result)
        for method in methods()
        if not method.row.tasks or made.task in method.row.tasks
        if method.is_of(made.model_spec)
        for column in method.definition.columns
        if column.task and (column.name, column.split) == (made.task, made.split)
        for part, metric, word in column.heads
        if (part, metric) == ("", made.headline)
        for result in method.definition.printed(method.row, column, part, word)
        if result.is_score
    ]
    if not found:
        return None
    method, result = min(found, key=lambda pair: pair[1].protocol != made.protocol)
    return compare_with_paper(made, result, trained=training_differences(made, method))


def training_differences(made: Row, method: Method) -> Iterator[str]:
    """Yield how the training of a row's checkpoint differs from the method's configuration."""
    for name in SLOT.findall(method.row.model):
        step = method.definition.trainings[name]
        if made.training is None:
            yield f"training: not recorded (paper: {step.method}, {step.config})"
            continue
        used, wanted = parse(made.training.method), step.read()
        settings = {key: value for key, value in wanted.items() if key not in OPTIONS}
        if used.name != step.method:
            yield f"training {used.name} (paper: {step.method})"
        for key in sorted(used.arguments.keys() | settings.keys()):
            if used.arguments.get(key) != settings.get(key):
                yield f"training {key} {used.arguments.get(key)} (paper: {settings.get(key)})"


def compare_with_paper(
    made: Row, result: PublishedResult, *, metric: str = "", trained: Iterable[str] = ()
) -> Reproduction:
    """Compare a measured row with the paper's number for the same method.

    Args:
        made: The row.
        result: The paper's number.
        metric: The row's metric; the headline, without.
        trained: Known differences of the training.
    """
    metric = metric or made.headline
    differences = [*map(str, made.deviations), *trained]
    is_same = result.protocol == made.protocol and not result.subset and not made.subset
    if not result.protocol:
        differences.append("protocol: the paper does not say which")
    elif result.protocol != made.protocol:
        differences.append(f"protocol {made.protocol} (paper: {result.protocol})")
    elif result.protocol_is == "assumed":
        differences.append(f"protocol {made.protocol} is assumed, not stated by the paper")
    elif result.protocol_is == "unknown":
        is_same = False
        differences.append(f"protocol {made.protocol} is not known to be the paper's")
    if result.subset or made.subset:
        differences.append(f"samples {made.subset or 'all'} (paper: {result.subset or 'all'})")
    if made.trained_on_some:
        differences.append(f"contamination: {made.trained_on}")
    if result.defect:
        differences.append(f"the paper's number: {result.defect}")
    found = made.metrics.get(metric), made.intervals.get(metric)
    verdict = _verdict(*found, result) if is_same else "cannot tell"
    return Reproduction(
        paper=result.paper,
        table=result.table,
        row=result.row,
        metric=metric,
        value=result.value,
        printed=result.printed,
        verdict=verdict,
        differences=tuple(differences),
        text=_text(*found, result, verdict),
    )


def _verdict(
    value: float | None, interval: tuple[float, float] | None, result: PublishedResult
) -> Verdict:
    if value is None or interval is None:
        return "cannot tell"
    low, high = interval
    if not low - result.rounding <= result.value <= high + result.rounding:
        return "not reproduced"
    return "reproduced" if high - low <= WIDEST else "cannot tell"


def _text(
    value: float | None,
    interval: tuple[float, float] | None,
    result: PublishedResult,
    verdict: Verdict,
) -> str:
    factor = 100 if result.unit == "percent" else 1
    decimals = len(result.printed.partition(".")[2])

    def show(number: float | None) -> str:
        return formatting.NOTHING if number is None else f"{number * factor:.{decimals}f}"

    span = f"CI {show(interval[0])} to {show(interval[1])}" if interval else "no CI"
    return f"paper {result.printed} → ours {show(value)} ({span}): {verdict}"
