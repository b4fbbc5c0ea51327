"""How often intervals hold the ground truth, where the ground truth is known: simulated runs,
seeded.

    python benchmarks/coverage.py --trials 1000
    python benchmarks/coverage.py --trials 600 --tables pairs,shares,gates

The tables of docs/design/statistics.md. With 1,000 trials a share near 95 % is exact to about
± 1.4 points (two standard errors).
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from harness.leaderboards.losses import (
    SLACK,
    compare_answers,
    false_alarms,
    is_significant,
    limit,
)
from harness.scores import Corpus, Mean, Metric, Ratio, UnitScore
from harness.statistics.analytic import clustered_mean, estimates
from harness.statistics.bootstrap import intervals, percentiles, resample_metrics
from harness.statistics.holm import holm
from harness.statistics.paired import Comparison, compare
from harness.statistics.quantiles import half_width
from harness.statistics.sequential import decide
from harness.statistics.variance import seeded_score

Units: TypeAlias = list[UnitScore]
Interval: TypeAlias = tuple[float, float] | None
Random: TypeAlias = np.random.Generator
MEAN, RATIO = Metric("mean"), Metric("ratio")


def correlation(items: Sequence[Sequence[float]]) -> float:
    return float(np.corrcoef(np.array(items).T)[0, 1])


CORRELATION = Metric("correlation", corpus=correlation)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--tables", default=",".join(TABLES))
    given = parser.parse_args()
    for table in given.tables.split(","):
        print()
        for line in TABLES[table](given.trials, given.resamples):
            print(line, flush=True)


def unit(group: int, number: int, **scores: Mean | Ratio | Corpus) -> UnitScore:
    return UnitScore(
        unit=f"{group}/{number}",
        group=f"{group:05}",
        samples=(f"{group}/{number}",),
        categories={},
        failed=0,
        scores=scores,
    )


def plain(random: Random, groups: int) -> Units:
    """Three samples a group that share its difficulty; the ground truth is 0.5."""
    effects = random.normal(0.5, 0.15, groups)
    return [
        unit(g, i, mean=Mean(effects[g] + random.normal(0, 0.1)))
        for g in range(groups)
        for i in range(3)
    ]


def bimodal(random: Random, groups: int) -> Units:
    """IoUs that are near 0 or near 1, one to five a group; the ground truth is 0.58."""
    found = random.random(groups) < 0.7
    return [
        unit(g, i, mean=Mean(random.beta(8, 2) if found[g] else random.beta(1, 12.5)))
        for g in range(groups)
        for i in range(random.integers(1, 6))
    ]


def areas(random: Random, groups: int) -> Units:
    """The cIoU of objects whose areas are lognormal (heavy tail); the ground truth is 0.6."""
    size = random.lognormal(8, 1.2, groups)
    right = random.beta(3, 2, groups)
    return [unit(g, 0, ratio=Ratio(size[g] * right[g], size[g])) for g in range(groups)]


def correlated(random: Random, groups: int) -> Units:
    """A corpus metric that is no sum; the ground truth is 0.6."""
    both = ((1, 0.6), (0.6, 1))
    effects = random.multivariate_normal((0, 0), both, groups)
    return [
        unit(g, i, correlation=Corpus(((effects[g] + own).tolist(),)))
        for g in range(groups)
        for i, own in enumerate(random.multivariate_normal((0, 0), both, 3))
    ]


CASES: dict[str, tuple[Callable[[Random, int], Units], Metric, float]] = {
    "mean, 3 a group": (plain, MEAN, 0.5),
    "mean of IoUs, bimodal": (bimodal, MEAN, 0.7 * 0.8 + 0.3 / 13.5),
    "cIoU, lognormal areas": (areas, RATIO, 0.6),
    "correlation (a corpus)": (correlated, CORRELATION, 0.6),
}


def single(trials: int, resamples: int) -> Iterator[str]:
    """Intervals of one run."""
    yield "| metric | groups | bootstrap | formula | jackknife | ignoring groups |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, (draw, metric, ground_truth) in CASES.items():
        for groups in (10, 30, 100, 300):
            held: dict[str, int] = {}
            for trial in range(trials):
                units = draw(np.random.default_rng([trial, groups]), groups)
                for method, interval in each(metric, units, resamples, trial).items():
                    held[method] = held.get(method, 0) + holds(interval, ground_truth)
            cells = (
                share(held[method], trials) if method in held else ""
                for method in ("bootstrap", "formula", "jackknife", "ignoring groups")
            )
            yield f"| {name} | {groups} | {' | '.join(cells)} |"


def each(metric: Metric, units: Units, resamples: int, seed: int) -> dict[str, Interval]:
    found = intervals((metric,), units, resamples=resamples, seed=seed)[metric.name]
    if metric.corpus is not None:
        return {"jackknife": found}
    formula = estimates((metric,), units)[metric.name]
    made = {"bootstrap": found, "formula": formula.interval if formula else None}
    if metric is MEAN:
        values = [one.scores["mean"].value for one in units]  # type: ignore[union-attr]
        alone = clustered_mean(values, range(len(values)))
        reach = half_width(0.95) * alone.error
        made["ignoring groups"] = alone.value - reach, alone.value + reach
    return made


def alike(draw: Callable[[Random, int], Units]) -> Callable[[Random, int], tuple[Units, Units]]:
    """Two runs of equally good models: the same units, with errors of their own."""

    def both(random: Random, groups: int) -> tuple[Units, Units]:
        units = draw(random, groups)
        first, second = ([noisy(one, random) for one in units] for _ in range(2))
        return first, second

    return both


def noisy(one: UnitScore, random: Random) -> UnitScore:
    """The same unit answered by a model that errs at random."""
    group, number = one.unit.split("/")
    (name, score), *_ = one.scores.items()
    if isinstance(score, Ratio):
        part = score.numerator * random.uniform(0.8, 1)
        return unit(int(group), int(number), ratio=Ratio(part, score.denominator))
    assert isinstance(score, Mean), "the other kind that these cases have"
    return unit(int(group), int(number), **{name: Mean(score.value + random.normal(0, 0.1))})


def decoded(per_group: int) -> Callable[[Random, int], tuple[Units, Units]]:
    """Two decodings of one model: right or wrong, by chances that the samples share."""

    def both(random: Random, groups: int) -> tuple[Units, Units]:
        chances = random.beta(2, 2, groups)
        first, second = (
            [
                unit(g, i, mean=Mean(float(random.random() < chances[g])))
                for g in range(groups)
                for i in range(per_group)
            ]
            for _ in range(2)
        )
        return first, second

    return both


def single_groups(random: Random, groups: int) -> Units:
    """One sample a group."""
    return [unit(g, 0, mean=Mean(random.normal(0.5, 0.15))) for g in range(groups)]


PAIRS: dict[str, tuple[Callable[[Random, int], tuple[Units, Units]], Metric]] = {
    "mean, 1 a group": (alike(single_groups), MEAN),
    "mean, 3 a group": (alike(plain), MEAN),
    "mean of IoUs, bimodal": (alike(bimodal), MEAN),
    "right or wrong, 1 a group": (decoded(1), MEAN),
    "right or wrong, 3 a group": (decoded(3), MEAN),
    "cIoU, lognormal areas": (alike(areas), RATIO),
}


def pairs(trials: int, resamples: int) -> Iterator[str]:
    """How often a difference of equal models is shown, and how often a true one is held."""
    yield "| comparison | groups | equal models: shown | p and interval disagree | 0.2 is held |"
    yield "|---|--:|--:|--:|--:|"
    for name, (draw, metric) in PAIRS.items():
        for groups in (5, 10, 30, 200):
            shown = torn = held = 0
            for trial in range(trials):
                a, b = draw(np.random.default_rng([trial, groups]), groups)
                given = {"name": metric.name, "resamples": resamples, "seed": trial}
                got = compare((metric,), a, b, **given)  # type: ignore[arg-type]
                decided = got.is_worse or got.is_better
                shown += decided
                torn += decided != (got.p_value is not None and got.p_value <= 0.05)
                better = [raised(one, 0.2) for one in b]
                far = compare((metric,), a, better, **given)  # type: ignore[arg-type]
                held += holds(far.interval, 0.2)
            cells = share(shown, trials), share(torn, trials), share(held, trials)
            yield f"| {name} | {groups} | {' | '.join(cells)} |"


def raised(one: UnitScore, by: float) -> UnitScore:
    """The same unit with a higher score."""
    group, number = one.unit.split("/")
    (name, score), *_ = one.scores.items()
    if isinstance(score, Ratio):
        more = Ratio(score.numerator + by * score.denominator, score.denominator)
        return unit(int(group), int(number), **{name: more})
    assert isinstance(score, Mean), "the other kind that these cases have"
    return unit(int(group), int(number), **{name: Mean(score.value + by)})


def shares(trials: int, resamples: int) -> Iterator[str]:
    """Intervals of answers that are right or wrong, whose chances groups share (or not)."""
    yield "| share of right answers | samples | exact interval | percentiles | formula |"
    yield "|--:|---|--:|--:|--:|"
    cases: dict[str, tuple[int, int | None, bool]] = {
        "24": (24, 1, False),
        "24 × 3": (24, 3, True),
        "10 × 3": (10, 3, True),
        "30 × 1 to 5": (30, None, True),
        "200": (200, 1, False),
        "200 × 3": (200, 3, True),
    }
    for ground_truth in (0.5, 0.9, 0.98):
        for name, (groups, size, together) in cases.items():
            held = [0, 0, 0]
            for trial in range(trials):
                random = np.random.default_rng([trial, groups])
                chances = (
                    random.beta(ground_truth, 1 - ground_truth, groups)
                    if together
                    else [ground_truth] * groups
                )
                units = [
                    unit(g, i, mean=Mean(float(random.random() < chances[g])))
                    for g in range(groups)
                    for i in range(size or random.integers(1, 6))
                ]
                drawn = resample_metrics((MEAN,), units, resamples=resamples, seed=trial)["mean"]
                formula = estimates((MEAN,), units)["mean"]
                found = (
                    intervals((MEAN,), units, resamples=10, seed=trial)["mean"],
                    percentiles(drawn, 0.95),
                    formula and formula.interval,
                )
                held = [
                    count + holds(one, ground_truth) for count, one in zip(held, found, strict=True)
                ]
            yield f"| {ground_truth} | {name} | {' | '.join(share(one, trials) for one in held)} |"


def unreadable(
    draw: Callable[[Random, int], tuple[Units, Units]], share: float
) -> Callable[[Random, int], tuple[Units, Units]]:
    """The same runs, in either of which such a share of the responses cannot be read: scored 0."""

    def both(random: Random, groups: int) -> tuple[Units, Units]:
        first, second = (
            [
                replace(one, failed=1, scores=dict.fromkeys(one.scores, Mean(0.0)))
                if random.random() < share
                else one
                for one in units
            ]
            for units in draw(random, groups)
        )
        return first, second

    return both


GATES: dict[str, tuple[Callable[[Random, int], tuple[Units, Units]], Metric, int]] = {
    "right or wrong": (decoded(1), MEAN, 1),
    "right or wrong, 4 an image": (decoded(4), MEAN, 4),
    "IoUs": (alike(single_groups), MEAN, 1),
    "cIoU": (alike(areas), RATIO, 1),
    "right or wrong, 2 % unreadable": (unreadable(decoded(1), 0.02), MEAN, 1),
    "right or wrong, 10 % unreadable": (unreadable(decoded(1), 0.1), MEAN, 1),
    "the same, 4 an image": (unreadable(decoded(4), 0.1), MEAN, 4),
}


def gates(trials: int, resamples: int) -> Iterator[str]:
    """How often two decodings of one model fail a gate, by its default rule."""
    columns = ("samples", "tasks", "gate fails", "on answers", "printed", "before")
    yield f"| two decodings of one model | {' | '.join(columns)} |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name in GATES:
        for samples, tasks in ((24, 1), (24, 3), (200, 1), (200, 3), (1000, 1)):
            found = [gate(name, samples, tasks, trial, resamples) for trial in range(trials)]
            cells = (f"{100 * sum(column) / trials:.1f} %" for column in zip(*found, strict=True))
            yield f"| {name} | {samples} | {tasks} | {' | '.join(cells)} |"


def gate(
    name: str, samples: int, tasks: int, trial: int, resamples: int
) -> tuple[bool, bool, float, bool]:
    """One gate: if it fails, if it does on answers, the printed rate, if it once failed."""
    draw, metric, per_group = GATES[name]
    random = np.random.default_rng([trial, samples, tasks])
    drawn = [draw(random, samples // per_group) for _ in range(tasks)]
    scores = [
        compare((metric,), a, b, name=metric.name, resamples=resamples, seed=trial)
        for a, b in drawn
    ]
    answers = [
        one
        for a, b in drawn
        if (one := compare_answers(a, b, resamples=resamples, level=0.95, seed=trial))
    ]
    unanswered = some_loss_fails(answers)
    printed = 1 - math.prod(1 - false_alarms(one, [0.02] * len(one)) for one in (scores, answers))
    before = any((one.loss or 0) > 0.02 for one in scores) or any(
        (one.loss or 0) > SLACK for one in answers
    )
    return unanswered or some_loss_fails(scores), unanswered, printed, before


def some_loss_fails(made: Sequence[Comparison]) -> bool:
    """Whether a gate with the default limit fails on these comparisons, all of one kind."""
    adjusted = holm({place: one.p_value for place, one in enumerate(made)})
    return any(
        is_significant(one, adjusted[place])
        or (one.loss or 0.0) > limit(one, 0.02, tasks=len(made)) + SLACK
        for place, one in enumerate(made)
    )


def noise(random: Random, groups: int, drop: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums of differences of IoUs of 1 to 5 questions an image, that share the image's."""
    sizes = random.integers(1, 6, groups)
    means = random.normal(-drop, 0.15, groups) + random.normal(0, 0.1, groups) / np.sqrt(sizes)
    return sizes * np.clip(means, -1, 1), sizes


def answers(random: Random, groups: int, drop: float) -> tuple[np.ndarray, np.ndarray]:
    """Differences of two decodings, right or wrong, of which one is made wrong more often."""
    chances = random.beta(2, 2, groups)
    first = random.random(groups) < chances
    second = (random.random(groups) < chances) & (random.random(groups) >= 2 * drop)
    return second.astype(float) - first, np.ones(groups, int)


def sequential(trials: int, resamples: int) -> Iterator[str]:
    """Comparisons that are looked at after every group and stopped when they are decided."""
    del resamples
    columns = ("groups", "margin", "true drop", "worse", "not worse", "groups used", "t test")
    yield f"| difference | {' | '.join(columns)} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for name, draw in {"IoUs, 1 to 5 an image": noise, "right or wrong": answers}.items():
        for groups, margin in ((200, 0.05), (1000, 0.05), (5000, 0.02)):
            for drop in (0.0, margin, 2 * margin, 4 * margin):
                counts = {"worse": 0, "not worse": 0, None: 0}
                used = naive = 0
                for trial in range(trials):
                    totals, sizes = draw(np.random.default_rng([trial, groups]), groups, drop)
                    largest = 5 if draw is noise else 1
                    made, seen = decide(totals, sizes, largest=largest, margin=margin, level=0.95)
                    counts[made] += 1
                    used += seen
                    naive += shown_at_some_look(totals)
                cells = [share(counts[one], trials) for one in ("worse", "not worse")]
                cells += [share(used, trials * groups), share(naive, trials)]
                yield f"| {name} | {groups} | {margin} | {drop:g} | {' | '.join(cells)} |"


def shown_at_some_look(x: np.ndarray) -> bool:
    """Whether a one-sided t test at 95 % says "worse" at some look, after 10 groups or more."""
    n = np.arange(1, len(x) + 1)
    mean = np.cumsum(x) / n
    variance = np.maximum(np.cumsum(x**2) / n - mean**2, 1e-12)
    return bool(np.any((mean / np.sqrt(variance / n))[9:] < -1.645))


def seeds(trials: int, resamples: int) -> Iterator[str]:
    """The mean over trainings: how often its interval holds the recipe's true mean."""
    del resamples
    yield "| trainings × decodings | spread of trainings | with seeds | groups only |"
    yield "|---|--:|--:|--:|"
    for trainings, decodings in ((2, 1), (3, 1), (3, 4), (5, 2), (10, 1)):
        for spread in (0.0, 0.01, 0.03):
            held = alone = 0
            for trial in range(trials):
                random = np.random.default_rng([trial, trainings, decodings])
                y = seeded_runs(random, 100, trainings, decodings, spread)
                held += holds(seeded_score(y).interval, 0.5)
                alone += holds(clustered_mean(y.mean(axis=(1, 2)), range(100)).interval, 0.5)
            yield (
                f"| {trainings} × {decodings} | {spread:g} | {share(held, trials)} "
                f"| {share(alone, trials)} |"
            )


def seeded_runs(
    random: Random, groups: int, trainings: int, decodings: int, spread: float
) -> np.ndarray:
    """Groups × trainings × decodings, with effects of all of them; the ground truth is 0.5."""
    return np.asarray(
        0.5
        + random.normal(0, 0.15, (groups, 1, 1))
        + random.normal(0, spread, (trainings, 1))
        + random.normal(0, 0.05, (groups, trainings, 1))
        + random.normal(0, 0.1, (groups, trainings, decodings))
    )


def holds(interval: Interval, ground_truth: float) -> int:
    return int(interval is not None and interval[0] <= ground_truth <= interval[1])


def share(count: int, trials: int) -> str:
    return f"{100 * count / trials:.1f} %"


TABLES = {
    "single": single,
    "pairs": pairs,
    "shares": shares,
    "gates": gates,
    "seeds": seeds,
    "sequential": sequential,
}


if __name__ == "__main__":
    main()
