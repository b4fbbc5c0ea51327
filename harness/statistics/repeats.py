"""Scores of samples that were answered n times with other decoding seeds: avg@n, pass@k, best of k.

`best_of_k` averages exactly over all choices of k of a sample's n repeats, instead of drawing some.
"""

from math import comb

import numpy as np
from numpy.typing import ArrayLike

from harness.errors import DataError, UsageError
from harness.scores import Better
from harness.statistics.clusters import FloatArray


def best_of_k(scores: ArrayLike, *, k: int, better: Better = "higher") -> FloatArray:
    """Return each sample's expected best score among k repeats; their mean is the run's number.

    Of the C(n, k) choices of k out of n repeats, the i-th smallest score is the largest in
    C(i - 1, k - 1); the average over all choices weighs it by that share.

    For k = 1 it is the mean over repeats, avg@n. For scores of 0 and 1 it is pass@k: with c of n
    repeats right `1 - C(n - c, k) / C(n, k)`, the unbiased estimator of Chen et al. (2021),
    "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), equation 1.
    (`1 - (1 - c / n)**k` is biased downwards.)

    Args:
        scores: Samples × n repeats.
        k: From 1 to n.
        better: Direction of the best score.

    Raises:
        DataError: not a table of finite numbers.
        UsageError: k is not from 1 to n.

    >>> best_of_k([[0.2, 0.8, 0.5]], k=2).round(3).tolist()  # (0.8 + 0.8 + 0.5) / 3
    [0.7]
    >>> best_of_k([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], k=2).tolist()
    [0.5, 0.0, 1.0]
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 1 or not np.isfinite(table).all():
        raise DataError(
            "repeats",
            expected="samples × repeats of finite numbers",
            found=f"shape {table.shape}"
            + ("" if np.isfinite(table).all() else " with NaN or infinity"),
        )
    n = table.shape[1]
    if not 1 <= k <= n:
        raise UsageError("k", expected=f"1 to {n}, the number of repeats", found=str(k))
    ordered = np.sort(table, axis=1)
    if better == "lower":
        ordered = ordered[:, ::-1]
    shares = np.array([comb(rank, k - 1) / comb(n, k) for rank in range(n)])
    best_by_row: FloatArray = ordered @ shares
    return best_by_row
