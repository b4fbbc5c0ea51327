"""The content of results.json, from the scores of all units: metrics, breakdowns, counts and cost.

`harness.run` calls `summarise` when a run ends or is scored again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from harness.record import VERSION
from harness.scores import Totals, UnitScore
from harness.task import Protocol, Task
from harness.types import FailureKind


def summarise(
    task: Task,
    manifest: Mapping[str, Any],
    units: Sequence[UnitScore],
    failures: Mapping[str, int],
    usage: Mapping[str, int],
    intervals: Mapping[str, tuple[float, float] | None],
    ceiling: float | None,
) -> dict[str, object]:
    """Return the content of results.json.

    Args:
        task: The task of the run.
        manifest: The run's manifest, of which subset, model and `config_hash` are taken.
        units: Scores of all units.
        failures: Number of failed predictions by `FailureKind`.
        usage: Sums of the fields of `harness.types.Usage`.
        intervals: Interval of each metric by name; None: it has none.
        ceiling: Score of perfect answers; None: not known.
    """
    protocol = task.protocol
    n_total = sum(len(unit.samples) for unit in units)
    n_failed = sum(unit.failed for unit in units)
    return {
        "version": VERSION,
        "task": task.name,
        "task_version": task.version,
        "split": task.split,
        "protocol": protocol.name,
        "forms": sorted(task.forms),
        "subset": manifest["subset"],
        "model": manifest["model"]["name"],
        "model_spec": manifest["model"]["spec"],
        "headline": protocol.headline,
        "better": {metric.name: metric.better for metric in protocol.metrics},
        "about": {metric.name: metric.about for metric in protocol.metrics},
        "metrics": _ordered_numbers(protocol, values(task, units)),
        "intervals": {name: list(pair) if pair else None for name, pair in intervals.items()},
        "breakdowns": breakdowns(task, units),
        "ceiling": ceiling,
        "n_total": n_total,
        "n_scored": n_total - n_failed,
        "n_failed": n_failed,
        "failures": {kind: failures.get(kind, 0) for kind in FailureKind},
        "usage": dict(usage),
        **cost(manifest["model"], usage),
        "config_hash": manifest["config_hash"],
    }


def _ordered_numbers(
    protocol: Protocol, numbers: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Return the numbers, with the headline and `Protocol.beside` first, if the latter is given."""
    first = (protocol.headline, *protocol.beside) if protocol.beside else ()
    return {**{name: numbers[name] for name in first}, **numbers}


def cost(model: Mapping[str, Any], usage: Mapping[str, int]) -> dict[str, float]:
    """Return the cost of a run's tokens in the currency of the model's prices, if it has any.

    Args:
        model: The manifest's `model`. The description of a paid VLM holds the price of a million
            tokens of prompt and of completion.
        usage: Tokens of the run, as the network counted them.

    >>> chat = {"price_of_a_million_tokens": [2.0, 10.0]}
    >>> cost({"description": {"chat": chat}}, {"prompt_tokens": 3000, "completion_tokens": 500})
    {'cost': 0.011}
    """
    amount = price(prices(model), usage["prompt_tokens"], usage["completion_tokens"])
    return {} if amount is None else {"cost": amount}


def prices(model: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the prices of a million tokens of prompt and of completion, if `model` has any."""
    chat = model.get("description", {}).get("chat")
    pair = chat.get("price_of_a_million_tokens") if isinstance(chat, Mapping) else None
    return None if pair is None else (pair[0], pair[1])


def price(prices: tuple[float, float] | None, prompt: float, completion: float) -> float | None:
    """Return the price of tokens; None without prices."""
    return None if prices is None else (prompt * prices[0] + completion * prices[1]) / 1e6


def unscored_results(
    task: Task,
    manifest: Mapping[str, object],
    n_total: int,
    failures: Mapping[str, int],
    usage: Mapping[str, int],
) -> dict[str, object]:
    """Return results.json's content where the organisers keep the ground truth: counts alone."""
    nothing = dict.fromkeys(metric.name for metric in task.protocol.metrics)
    plain = summarise(task, manifest, [], failures, usage, nothing, None)
    n_failed = sum(failures.values())
    return {**plain, "n_total": n_total, "n_scored": n_total - n_failed, "n_failed": n_failed}


def values(task: Task, units: Iterable[UnitScore]) -> dict[str, float | None]:
    """Return every metric's number over these units; None where nothing counts."""
    totals = Totals(task.protocol.metrics)
    for unit in units:
        totals.add(unit.scores)
    return totals.values()


class Breakdown(TypedDict):
    """Numbers of the samples that have one value of a category."""

    n: int
    metrics: dict[str, float | None]


def breakdowns(task: Task, units: Sequence[UnitScore]) -> dict[str, dict[str, Breakdown]]:
    """Return every metric's number by category and its value, such as `size` and `small`."""
    grouped: dict[str, dict[str, list[UnitScore]]] = {}
    for unit in units:
        for category, value in unit.categories.items():
            grouped.setdefault(category, {}).setdefault(value, []).append(unit)
    return {
        category: {
            value: {
                "n": sum(len(unit.samples) for unit in members),
                "metrics": values(task, members),
            }
            for value, members in sorted(by_value.items(), key=_numbers_first)
        }
        for category, by_value in sorted(grouped.items())
    }


def _numbers_first(item: tuple[str, object]) -> tuple[bool, int, str]:
    """Return the sort key of (a category's value, its units): numbers by size, then words."""
    value, _ = item
    is_number = value.isdecimal()
    return not is_number, int(value) if is_number else 0, value


def is_unanswered(results: Mapping[str, object]) -> bool:
    """Return True if results are of a run in which no sample has an answer."""
    return results.get("n_scored") == 0


def public(results: Mapping[str, object]) -> dict[str, Any]:
    """Return the part of a task's results that `--json` prints."""
    keys = (
        "headline",
        "metrics",
        "intervals",
        "breakdowns",
        "protocol",
        "split",
        "subset",
        "ceiling",
        "n_total",
        "n_scored",
        "n_failed",
        "failures",
        "usage",
    )
    return {key: results[key] for key in (*keys, *sorted({"cost", "ledger"} & results.keys()))}
