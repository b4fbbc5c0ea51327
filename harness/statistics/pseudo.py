"""Pseudo-values: one number a group whose mean is the run's number, for analyses of groups.

A ratio or a corpus metric is not a mean over groups; these stand-ins move it as the groups do.
"""

from collections.abc import Sequence

from harness.scores import Metric, UnitScore
from harness.statistics.analytic import influence
from harness.statistics.clusters import FloatArray, dependencies_of, group_sums
from harness.statistics.jackknife import BLOCKS, replicates


def pseudo_values(
    metrics: Sequence[Metric], units: Sequence[UnitScore], *, name: str
) -> FloatArray | None:
    """Return values whose mean is metric `name` and whose s / √n is its clustered standard error.

    A quotient has one value a group, `R + G * influence` (see `analytic`), in the order of the
    groups' names; for a mean of equally large groups these are the groups' means. Derived and
    corpus metrics have the jackknife's pseudo-values, shifted to the mean, one a block of groups;
    there s / √n is the standard error but for blocks that differ in size. Runs on the same groups
    have their values in the same order.

    Returns:
        The values; None where the metric has no number, or lacks one when a block is left out.

    Raises:
        UsageError: there is no such metric.
    """
    used = dependencies_of(metrics, name)
    if not units:
        return None
    if used[-1].derived is None and used[-1].corpus is None:
        sums = group_sums(used, units)
        above, below, epsilon = sums.above[:, 0], sums.below[:, 0], used[-1].epsilon
        if not below.any():
            return None
        value = above.sum() / (below.sum() + epsilon)
        moved: FloatArray = value + len(above) * influence(above, below, epsilon=epsilon)
        return moved
    replicated = replicates(used, units, blocks=BLOCKS)
    if replicated.error(name) is None:
        return None
    inverse = replicated.sizes.sum() / replicated.sizes
    pseudo: FloatArray = inverse * replicated.whole[name] - (inverse - 1) * replicated.without[name]
    pseudo += replicated.whole[name] - pseudo.mean()
    return pseudo
