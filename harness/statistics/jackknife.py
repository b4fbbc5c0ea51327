"""Intervals of corpus metrics by the cluster jackknife: a block of groups is left out at a time.

Corpus metrics (CIDEr, COCO AP) only exist over all answers together. They are computed again
without each group; if there are more than `DEFAULT_BLOCKS` groups, these are dealt into so many
blocks, and a block is left out at a time. This is the grouped jackknife, with the weights of
Busing, Meijer and van der Leeden (1999), "Delete-m jackknife for unequal m", for blocks that differ
in size.

Cost: the metric's corpus function is called once on everything and once for each block, so at most
201 times by default. The jackknife suits metrics that change little when a block is left out; for
a median or a maximum it is not consistent (Shao and Tu 1995, "The Jackknife and Bootstrap",
chapter 2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.scores import Corpus, Metric, UnitScore
from harness.statistics.clusters import (
    FloatArray,
    Summands,
    counted_groups,
    dependencies_of,
    group_sums,
    in_order,
    numbers,
    of_corpora,
)
from harness.statistics.quantiles import check_level, half_width
from harness.statistics.resampling import generator

DEFAULT_BLOCKS = 200  # largest number of blocks by default


@dataclass(frozen=True, slots=True)
class Replicates:
    """Every metric's number over all groups, and without each block of them."""

    full: Mapping[str, float]
    """Value of each metric on everything; NaN where nothing counts."""
    without: Mapping[str, FloatArray]
    """Values of each metric without each block."""
    sizes: NDArray[np.int64]
    """Number of groups of each block."""
    counted: Mapping[str, int]
    """Number of groups in which each metric counts; for a derived one, that of its rarest part."""

    def error(self, name: str) -> float | None:
        """Return the standard error of a metric's number.

        None if the metric counts in fewer than two groups, or has no number without some block.
        """
        if self.counted[name] < 2:
            return None
        return jackknife_error(self.full[name], self.without[name], sizes=self.sizes)

    def degrees(self, name: str) -> int:
        """Return the degrees of freedom of `error`."""
        return min(len(self.sizes), self.counted[name]) - 1


def intervals(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    level: float = 0.95,
    blocks: int = DEFAULT_BLOCKS,
    seed: int = 0,
) -> dict[str, tuple[float, float] | None]:
    """Return intervals of corpus metrics and of metrics derived from them; others are left out.

    An interval is the number, plus and minus the t quantile (degrees of freedom: blocks, or groups
    in which the metric counts, less one) times the jackknife's standard error. It may reach beyond
    the metric's range. It is None if the metric counts in fewer than two groups, or has no number
    when some block is left out. `seed` matters only if there are more groups than `blocks`.

    Raises:
        UsageError: `level` is not between 0 and 1, or `blocks` is below 2.
    """
    check_level(level)
    names = of_corpora(metrics)
    if not names or not units:
        return dict.fromkeys(names)
    used = tuple(dict.fromkeys(part for name in names for part in dependencies_of(metrics, name)))
    replicated = replicates(used, units, blocks=blocks, seed=seed)
    ends: dict[str, tuple[float, float] | None] = dict.fromkeys(names)
    for name in names:
        if (error := replicated.error(name)) is not None:
            reach = half_width(level, degrees=replicated.degrees(name)) * error
            ends[name] = replicated.full[name] - reach, replicated.full[name] + reach
    return ends


def replicates(
    metrics: Sequence[Metric],
    units: Sequence[UnitScore],
    *,
    blocks: int = DEFAULT_BLOCKS,
    seed: int = 0,
) -> Replicates:
    """Compute every metric over all groups and without each block of groups.

    Runs on the same groups with the same seed have the same blocks, so that differences of their
    numbers are paired.

    Raises:
        UsageError: `blocks` is below 2, or there are no units.
    """
    if blocks < 2 or not units:
        raise UsageError(
            "a jackknife",
            expected="at least 2 blocks of units",
            found=f"{blocks} blocks, {len(units)} units",
        )
    sums = group_sums(metrics, units)
    block_of = assign_blocks(len(sums.groups), blocks=blocks, seed=seed)
    table = np.zeros((block_of.max() + 1, 2 * len(sums.columns)))
    np.add.at(table, block_of, sums.table)
    weights = np.concatenate([np.ones((1, len(table))), 1 - np.eye(len(table))])
    above, below = np.split(
        Summands.of_table(table, limit=len(table)).weighted_sums(weights), 2, axis=1
    )
    blocks_by_group = dict(zip(sums.groups, block_of, strict=True))
    items, item_groups = _items(metrics, units, block_of=blocks_by_group)
    values = numbers(
        metrics,
        sums.columns,
        above=above,
        below=below,
        corpora={
            metric.name: _over_blocks(metric, items[metric.name], weights)
            for metric in metrics
            if metric.corpus is not None
        },
    )
    return Replicates(
        full={name: float(value[0]) for name, value in values.items()},
        without={name: value[1:] for name, value in values.items()},
        sizes=np.bincount(block_of),
        counted=counted_groups(metrics, sums, corpora=item_groups),
    )


def assign_blocks(groups: int, *, blocks: int, seed: int) -> NDArray[np.int64]:
    """Return the block of each group: at random, with sizes that differ by at most one.

    >>> assign_blocks(5, blocks=200, seed=0).tolist()
    [0, 1, 2, 3, 4]
    >>> np.bincount(assign_blocks(7, blocks=3, seed=0)).tolist()
    [3, 2, 2]
    """
    if groups <= blocks:
        return np.arange(groups)
    # At random: groups with neighbouring names are often alike, such as those of one scene.
    order = generator(seed, stream=2).permutation(groups)
    return (np.argsort(order) % blocks).astype(np.int64)


def jackknife_error(full: float, without: FloatArray, *, sizes: NDArray[np.int64]) -> float | None:
    """Return the standard error from the numbers without each block; None if one is not finite.

    With `n` groups, `m_j` of them in block j and `h_j = n / m_j`, pseudo-values are
    `h_j * whole - (h_j - 1) * without_j`, their centre is
    `J * whole - sum((1 - m_j / n) * without_j)`, and the variance is
    `mean((pseudo_j - centre)² / (h_j - 1))` (Busing et al. 1999).

    Leaving one number out of a mean gives the textbook's s / √n:

    >>> values = np.array([1.0, 2.0, 4.0, 9.0])
    >>> without = (values.sum() - values) / 3
    >>> error = jackknife_error(4.0, without, sizes=np.ones(4, dtype=np.int64))
    >>> bool(np.isclose(error, values.std(ddof=1) / 2))
    True
    """
    if not (np.isfinite(full) and np.isfinite(without).all()):
        return None
    inverse = sizes.sum() / sizes
    pseudo = inverse * full - (inverse - 1) * without
    centre = len(sizes) * full - np.sum((1 - 1 / inverse) * without)
    return float(np.sqrt(np.mean((pseudo - centre) ** 2 / (inverse - 1))))


def _items(
    metrics: Sequence[Metric], units: Sequence[UnitScore], *, block_of: Mapping[str, int]
) -> tuple[dict[str, list[list[object]]], dict[str, int]]:
    """Return (each corpus metric's items by block, number of groups with items by metric)."""
    names = [metric.name for metric in metrics if metric.corpus is not None]
    blocks = max(block_of.values()) + 1
    items: dict[str, list[list[object]]] = {name: [[] for _ in range(blocks)] for name in names}
    groups_with_items: dict[str, set[str]] = {name: set() for name in names}
    for unit in in_order(units):
        for name in names:
            statistic = unit.scores.get(name)
            if isinstance(statistic, Corpus) and statistic.items:
                items[name][block_of[unit.group]].extend(statistic.items)
                groups_with_items[name].add(unit.group)
    return items, {name: len(groups) for name, groups in groups_with_items.items()}


def _over_blocks(
    metric: Metric, blocks: Sequence[Sequence[object]], weights: FloatArray
) -> FloatArray:
    """Return a corpus metric over the blocks marked 1 in each row; NaN where they hold no item.

    A corpus function that can reuse work between subsets has a method `over(blocks, weights)`.
    """
    assert metric.corpus is not None
    if over := getattr(metric.corpus, "over", None):
        return np.asarray(over(blocks, weights), dtype=np.float64)
    values = np.full(len(weights), np.nan)
    for row, marks in enumerate(weights):
        chosen = [item for items, mark in zip(blocks, marks, strict=True) if mark for item in items]
        if chosen:
            values[row] = metric.corpus(chosen)
    return values
