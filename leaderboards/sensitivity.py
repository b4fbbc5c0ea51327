"""Sensitivity of a score to a setting, from the runs of a sweep in one table (notes of a board).

Only rows with equal other settings are compared, so that the effect of another setting is never
attributed to this one. A sweep of every combination has several such groups for a setting. The note
names the group with the largest spread between its worst and best row, whose two runs are compared
in pairs, and the mean of all spreads, because the largest of many is large by chance. The interval
is not corrected for this choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from harness.leaderboards import formatting
from harness.leaderboards.ranking import Compare
from harness.leaderboards.row import Row


def setting_notes(
    rows: Sequence[Row], sweeps: Sequence[Mapping[str, Any] | None], compare: Compare
) -> Iterator[str]:
    """Yield a note on each setting of each sweep, if rows differ in it alone.

    `Sensitivity of pocket: gIoU from 0.612 (frames=4) to 0.701 (frames=16) over 3 settings of
    frames; paired difference +0.089 (+0.021 to +0.152).` Of a sweep of every combination: `… over 3
    settings of frames, with prompt=short; …. That is the largest of 2 spreads, one for each
    combination of the other settings; their mean is 0.070.`

    Args:
        rows: Rows of one table.
        sweeps: The sweep of each row, with its `base` and the settings of its `models`; None: it
            belongs to no sweep.
        compare: Paired test of two rows by index.
    """
    for base in dict.fromkeys(sweep["base"] for sweep in sweeps if sweep):
        members = {
            index: sweep["models"][rows[index].model_spec]
            for index, sweep in enumerate(sweeps)
            if sweep and sweep["base"] == base and rows[index].model_spec in sweep["models"]
        }
        for setting in dict.fromkeys(key for settings in members.values() for key in settings):
            if groups := _groups(rows, members, setting):
                yield _setting_note(rows, members, setting, groups, compare)


def _groups(
    rows: Sequence[Row], members: Mapping[int, Mapping[str, str]], setting: str
) -> list[list[int]]:
    """Return the groups of two rows or more that differ in `setting` alone, worst row first."""
    groups: dict[frozenset[tuple[str, str]], list[int]] = {}
    for index in sorted(members, key=lambda index: rows[index].quality):
        if rows[index].value is not None:
            other_settings = {key: value for key, value in members[index].items() if key != setting}
            groups.setdefault(frozenset(other_settings.items()), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def _setting_note(
    rows: Sequence[Row],
    members: Mapping[int, Mapping[str, str]],
    setting: str,
    groups: Sequence[Sequence[int]],
    compare: Compare,
) -> str:
    """Return a sentence on the group of runs whose score depends most on a setting."""
    spreads = [rows[group[-1]].quality - rows[group[0]].quality for group in groups]
    widest = groups[spreads.index(max(spreads))]
    worst, best = widest[0], widest[-1]
    ends = [
        f"{formatting.number(rows[index].value)} ({_setting_name(members[index], setting)})"
        for index in (worst, best)
    ]
    text = (
        f"Sensitivity of {rows[best].model}: {rows[best].headline} from {ends[0]} to {ends[1]} "
        f"over {len(widest)} settings of {setting}"
    )
    other_settings = [f"{key}={value}" for key, value in members[best].items() if key != setting]
    if other_settings:
        text += f", with {', '.join(other_settings)}"
    comparison = compare(worst, best)
    if comparison is not None and comparison.interval is not None:
        span = formatting.signed_span(comparison.interval)
        text += f"; paired difference {formatting.signed_number(comparison.difference)} ({span})"
    if len(groups) == 1:
        return f"{text}."
    return (
        f"{text}. That is the largest of {len(groups)} spreads, one for each combination of "
        f"the other settings; their mean is {formatting.number(fmean(spreads))}."
    )


def _setting_name(settings: Mapping[str, str], setting: str) -> str:
    return f"{setting}={settings[setting]}" if setting in settings else f"{setting} as in the base"
