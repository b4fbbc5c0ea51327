"""How much a score hangs on a setting: the runs of a sweep that stand in one table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.leaderboards import wording
from harness.leaderboards.ranking import Compare
from harness.leaderboards.row import Row


def notes(rows: Sequence[Row], sweeps: Sequence[Mapping[str, Any] | None], compare: Compare
          ) -> Iterator[str]:  # fmt: skip
    """One sentence for each setting of each sweep.

    `pocket: gIoU from 0.612 (frames=4) to 0.701 (frames=16) over 3 values of frames; paired
    difference 0.089 (0.021 to 0.152).` The base's own value counts among a setting's, where the
    sweep holds it.

    Args:
        rows: Of one table.
        sweeps: The `sweep.json` that each row's run belongs to.
        compare: Of two rows by their indices.
    """
    for base in dict.fromkeys(sweep["base"] for sweep in sweeps if sweep):
        members = {
            index: sweep["models"][rows[index].model_spec]
            for index, sweep in enumerate(sweeps)
            if sweep and sweep["base"] == base and rows[index].model_spec in sweep["models"]
        }
        for setting in dict.fromkeys(key for given in members.values() for key in given):
            alike = [
                index for index, given in members.items() if not given or list(given) == [setting]
            ] or [index for index, given in members.items() if setting in given]
            found = [index for index in alike if rows[index].value is not None]
            if len(found) > 1:
                yield _said(rows, members, setting, found, compare)


def _said(
    rows: Sequence[Row],
    members: Mapping[int, Mapping[str, str]],
    setting: str,
    found: Sequence[int],
    compare: Compare,
) -> str:
    ordered = sorted(found, key=lambda index: rows[index].quality)
    worst, best = ordered[0], ordered[-1]
    metric = rows[best].headline
    ends = [
        f"{wording.number(rows[index].value)} ({_named(members[index], setting)})"
        for index in (worst, best)
    ]
    text = (f"Sensitivity of {rows[best].model}: {metric} from {ends[0]} to {ends[1]} over "
            f"{len(found)} settings of {setting}")  # fmt: skip
    against = compare(worst, best)
    if against is None or against.interval is None:
        return f"{text}."
    span = wording.signed_span(against.interval)
    return f"{text}; paired difference {wording.signed(against.difference)} ({span})."


def _named(given: Mapping[str, str], setting: str) -> str:
    return (
        ", ".join(f"{key}={value}" for key, value in given.items()) or f"{setting} as in the base"
    )
