"""Mean over seeds, from the runs of one table: decodings of a checkpoint, trainings of a recipe.

The interval of one run speaks for its checkpoint and its draw alone; that of several seeds is over
samples and seeds (`statistics.variance`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from harness.errors import DataError
from harness.leaderboards import formatting
from harness.leaderboards.naming import settings
from harness.leaderboards.row import Row
from harness.leaderboards.unit_values import unit_values
from harness.scores import Metric, UnitScore
from harness.statistics.clusters import of_corpora
from harness.statistics.paired import check_same_units
from harness.statistics.pseudo import pseudo_values
from harness.statistics.repeats import best_of_k
from harness.statistics.variance import components, seeded_score


def seed_notes(
    rows: Sequence[Row], units: Sequence[Sequence[UnitScore]], metrics: Sequence[Metric]
) -> Iterator[str]:
    """Yield a remark on each recipe that was trained or decoded with several seeds.

    `Seeds of qwen: giou 0.812 (0.780 to 0.844) over 3 trainings × 2 decodings; standard error
    0.012 by samples, 0.006 by trainings, 0.002 by decodings; the best of 2 decodings 0.840.` The
    last, pass@k where scores are 0 or 1, needs a headline that is a mean over units. Trainings
    that are not decoded equally often are left out.

    Args:
        rows: Of one table.
        units: Scores of each row's run.
        metrics: The headline last, after those that it is derived from. There are no remarks
            without, nor on a corpus, whose function would be called for every block of groups.
    """
    if not metrics or of_corpora(metrics):
        return
    for trainings in _recipes(rows).values():
        seeds = [tuple(runs.values()) for runs in trainings.values()]
        indices = [index for several in seeds for index in several]
        if len(indices) > 1 and len({*map(len, seeds)}) == 1:
            with suppress(DataError):  # units of other samples, a run without a number, one group
                yield _note(seeds, [units[index] for index in indices], rows[indices[0]], metrics)


def _recipes(rows: Sequence[Row]) -> dict[object, dict[object, dict[int | None, int]]]:
    """Return indices of rows by recipe, checkpoint and seed of decoding."""
    found: dict[object, dict[object, dict[int | None, int]]] = {}
    for index, row in enumerate(rows):
        given: Mapping[str, str] = settings(row.model_spec)
        recipe: object = row.weights
        if row.training is not None:
            recipe = row.training.method, row.training.tasks
            given = {key: one for key, one in given.items() if not key.endswith("checkpoint")}
        checkpoint = row.training.config_hash if row.training else None
        of_recipe = found.setdefault(repr((row.model, given, recipe)), {})
        of_recipe.setdefault(checkpoint, {}).setdefault(row.seed, index)
    return found


def _note(
    seeds: Sequence[Sequence[int]],
    units: Sequence[Sequence[UnitScore]],
    row: Row,
    metrics: Sequence[Metric],
) -> str:
    t, d = len(seeds), len(seeds[0])
    for other in units[1:]:
        check_same_units(units[0], other)
    columns = [pseudo_values(metrics, one, name=row.headline) for one in units]
    known = [one for one in columns if one is not None]
    if len(known) < len(columns):
        raise DataError(row.headline, expected="a number of each run", found="none of one")
    table = np.stack(known, axis=1).reshape(-1, t, d)
    score, number = seeded_score(table), formatting.number
    counts = ((t, "trainings"), (d, "decodings"))
    of = " × ".join(f"{count} {name}" for count, name in counts if count > 1)
    errors = ", ".join(
        f"{number(math.sqrt(variance))} by {source}s"
        for source, variance in components(table).of_score(trainings=t, decodings=d).items()
        if variance or source == "sample"
    )
    text = (
        f"Seeds of {row.model}: {row.headline} {number(score.value)} "
        f"({formatting.span(score.interval)}) over {of}; standard error {errors}"
    )
    by_unit = [unit_values(metrics, sorted(one, key=lambda unit: unit.unit)) for one in units]
    each = np.array([[*one.values()] for one in by_unit], dtype=np.float64)
    if d > 1 and np.allclose(each.mean(), score.value, rtol=1e-9):
        better = row.better[row.headline]
        best = [best_of_k(runs.T, k=d, better=better) for runs in each.reshape(t, d, -1)]
        text += f"; the best of {d} decodings {number(float(np.mean(best)))}"
    return f"{text}."
