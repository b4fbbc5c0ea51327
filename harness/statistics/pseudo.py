"""Pseudo-values, one for each group of a run, whose mean is the run's metric.

They are for analyses that need a mean over groups, such as the analysis of variance (`variance`):
a ratio of sums or a corpus metric is not a mean over groups.
"""

from collections.abc import Sequence

from harness.scores import Metric, UnitScore
from harness.statistics.analytic import influence
from harness.statistics.clusters import FloatArray, dependencies_of, group_sums
from harness.statistics.jackknife import DEFAULT_BLOCKS, replicates


def pseudo_values(
    metrics: Sequence[Metric], units: Sequence[UnitScore], *, name: str
) -> FloatArray | None:
    """Return values whose mean is metric `name` and whose s / √n is its clustered standard error.

    A quotient R of sums over G groups has one value a group, R + G · influence (see `analytic`), in
    the order of the groups' names. If all groups are equally large, these are the groups' means.

    A derived or a corpus metric has the jackknife's pseudo-values, one a block of groups, shifted
    so that their mean is the metric. If the blocks differ in size, s / √n is the standard error
    approximately. Runs on the same groups have their values in the same order.

    Returns:
        The values; None where the metric has no number, or lacks one when a block is left out.

    Raises:
        UsageError: there is no such metric.
    """
    used = dependencies_of(metrics, name)
    metric = used[-1]
    if not units:
        return None
    if metric.derived is None and metric.corpus is None:
        sums = group_sums(used, units)
        above, below, epsilon = sums.above[:, 0], sums.below[:, 0], metric.epsilon
        if not below.any():
            return None
        value = above.sum() / (below.sum() + epsilon)
        values: FloatArray = value + len(above) * influence(above, below, epsilon=epsilon)
        return values
    replicated = replicates(used, units, blocks=DEFAULT_BLOCKS)
    if replicated.error(name) is None:
        return None
    inverse = replicated.sizes.sum() / replicated.sizes
    pseudo: FloatArray = inverse * replicated.full[name] - (inverse - 1) * replicated.without[name]
    pseudo += replicated.full[name] - pseudo.mean()
    return pseudo
