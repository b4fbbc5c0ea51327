"""Time the cluster bootstrap against SciPy's and a plain loop, side by side in one run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/intervals.py

10,000 resamples of 10,000 samples, each its own group, on one thread: CPU seconds, the least of
`--rounds`. Of a mean, of a ratio of sums, and of what a segmentation protocol reports: gIoU, cIoU
and five precisions, which harness resamples together and the others one by one.
(It is not called statistics.py because scripts in its folder would then import it in place of the
standard library's module.)
"""

import argparse
import resource
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import bootstrap

from harness.scores import Mean, Metric, Ratio, UnitScore
from harness.statistics.bootstrap import intervals

Pair: TypeAlias = tuple[float, float]
Method: TypeAlias = Callable[[int], list[Pair | None]]
Columns: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Numerators and, but for means, denominators, by metric."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    random = np.random.default_rng(0)
    below = random.integers(100, 5000, given.samples).astype(np.float64)
    above = np.floor(random.random(given.samples) * below)
    ious = above / below
    mean, ratio = {"gIoU": (ious, None)}, {"cIoU": (above, below)}
    hits = {f"P@{t / 10}": ((ious >= t / 10).astype(np.float64), None) for t in range(5, 10)}
    print(f"{given.resamples:,} resamples of {given.samples:,} samples; CPU seconds, one thread")
    for what, requested in (("mean", mean), ("ratio", ratio), ("seven", mean | ratio | hits)):
        methods = {"harness": ours(requested), "SciPy": theirs(requested), "loop": loop(requested)}
        report(what, methods, resamples=given.resamples, rounds=given.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nlargest memory of the process: {peak:.0f} MiB")


def ours(asked: Columns) -> Method:
    """From the units of a run, so with the time that adding up their groups takes."""
    units = [
        UnitScore(
            unit=str(index),
            group=str(index),
            samples=(str(index),),
            categories={},
            failed=0,
            scores={
                name: Mean(float(above[index]))
                if below is None
                else Ratio(float(above[index]), float(below[index]))
                for name, (above, below) in asked.items()
            },
        )
        for index in range(len(next(iter(asked.values()))[0]))
    ]
    metrics = tuple(map(Metric, asked))

    def run(resamples: int) -> list[Pair | None]:
        return list(intervals(metrics, units, resamples=resamples).values())

    return run


def theirs(asked: Columns) -> Method:
    """scipy.stats.bootstrap, vectorised, in batches (it would need 800 MB a time otherwise)."""

    def one(above: Any, below: Any, resamples: int) -> Pair:
        interval = bootstrap(
            (above,) if below is None else (above, below),
            np.mean if below is None else lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
            paired=below is not None,
            n_resamples=resamples,
            batch=100,
            method="percentile",
            vectorized=True,
            rng=np.random.default_rng(0),
        ).confidence_interval
        return float(interval.low), float(interval.high)

    return lambda resamples: [one(*columns, resamples) for columns in asked.values()]


def loop(asked: Columns) -> Method:
    """A resample a turn and metric, as most evaluation scripts do it."""

    def one(above: Any, below: Any, resamples: int) -> Pair:
        random = np.random.default_rng(0)
        found = np.empty(resamples)
        for row in range(resamples):
            drawn = random.integers(len(above), size=len(above))
            if below is None:
                found[row] = above[drawn].mean()
            else:
                found[row] = above[drawn].sum() / below[drawn].sum()
        low, high = np.quantile(found, [0.025, 0.975])
        return float(low), float(high)

    return lambda resamples: [one(*columns, resamples) for columns in asked.values()]


def report(what: str, methods: Mapping[str, Method], *, resamples: int, rounds: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    found: dict[str, Pair | None] = {}
    for _ in range(rounds):  # in turn, so that a busy machine slows all of them
        for name, method in methods.items():
            start = time.process_time()
            found[name] = method(resamples)[0]
            seconds[name].append(time.process_time() - start)
    base = min(seconds["harness"])
    print(f"\n{what:10}{'seconds':>10}{'':>8}  first interval")
    for name in methods:
        minimum, pair = min(seconds[name]), found[name]
        ends = f"{pair[0]:.5f} to {pair[1]:.5f}" if pair else "none"
        print(f"{name:10}{minimum:10.2f}{minimum / base:7.1f}×  {ends}")


if __name__ == "__main__":
    main()
