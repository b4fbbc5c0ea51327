"""Sources of a score's variance: samples, training seeds, decoding seeds.

Every group (image, video) is answered by t trainings of one recipe, each decoded d times. The
random-effects model is that of generalisability theory with decodings nested in trainings and
both crossed with groups (Brennan 2001, "Generalizability Theory", the design p × (D : T)):

    y[g, t, d] = μ + sample[g] + training[t] + decoding[t, d]
                   + sample_training[g, t] + sample_decoding[g, t, d]

Its components are found by the method of moments: the mean squares of the analysis of variance are
set equal to their expectations (Searle, Casella and McCulloch 1992, "Variance Components",
chapter 4). Estimates below 0, which chance produces when a component is small, are set to 0 and
named in `Components.clipped`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.errors import DataError
from harness.statistics.clusters import FloatArray
from harness.statistics.quantiles import check_level, half_width


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Variances of the effects; None where the runs cannot separate them (see `components`)."""

    sample: float
    """Between groups: some are easier than others."""
    training: float | None
    """A training seed's shift of the whole score."""
    decoding: float | None
    """A decoding seed's shift of the whole score; 0 if samples are decoded independently."""
    sample_training: float | None
    """Variance that a training seed adds to single groups."""
    sample_decoding: float | None
    """Variance that a decoding seed adds to single groups: the noise of sampling tokens."""
    clipped: tuple[str, ...]
    """Names of the components whose estimate was below 0 and set to 0."""
    groups: int
    trainings: int
    decodings: int

    def of_score(
        self, *, groups: int | None = None, trainings: int = 1, decodings: int = 1
    ) -> dict[str, float]:
        """Return the part of each source in the variance of a mean score; they add up to it.

        Args:
            groups: Number of groups scored; default: as many as here.
            trainings: Number of trainings averaged.
            decodings: Number of decodings averaged, of each training.

        Returns:
            Variances by `sample`, `training` and `decoding`, the last two with their effects on
            single groups. A component that the runs cannot separate is part of the one before it.
        """
        n = self.groups if groups is None else groups
        return {
            "sample": self.sample / n,
            "training": ((self.training or 0) + (self.sample_training or 0) / n) / trainings,
            "decoding": ((self.decoding or 0) + (self.sample_decoding or 0) / n)
            / (trainings * decodings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededScore:
    """A mean over groups, trainings and decodings, with an interval that all of them widen."""

    value: float
    error: float
    """Standard error."""
    degrees: float
    """Degrees of freedom (Satterthwaite)."""
    interval: tuple[float, float]
    over: tuple[str, ...]
    """Sources of variance in the interval: `samples` and, if there are several, `trainings` and
    `decodings`. Without `trainings` it holds for this one checkpoint, not for the recipe."""
    level: float


@dataclass(frozen=True, slots=True)
class _Square:
    """One mean square of the analysis of variance."""

    value: float
    degrees: int


def components(values: ArrayLike) -> Components:
    """Split the variance of a balanced set of runs.

    With one decoding for each training, the effects of decoding and training cannot be separated:
    `decoding` and `sample_decoding` are None and part of `training` and `sample_training`. With one
    training, `training` is None, as it cannot be seen at all, and `sample_training` is None and
    part of `sample`.

    Args:
        values: Groups × trainings × decodings: one number a group and run (`linearised` makes
            them of sums). Every training is decoded equally often.

    Raises:
        DataError: not such a table of finite numbers, or fewer than two groups.

    Two images that differ, trainings that do not:

    >>> split = components([[[0.0, 0.2], [0.1, 0.1]], [[0.8, 1.0], [0.9, 0.9]]])
    >>> round(split.sample, 3), split.training, split.clipped
    (0.32, 0.0, ('training',))
    """
    table = _check_balanced(values)
    g, t, d = table.shape
    squares = _mean_squares(table)
    sample, training, decoding, sample_training, sample_decoding = (
        square.value for square in squares
    )
    names = ("sample", "training", "decoding", "sample_training", "sample_decoding")
    estimates: dict[str, float | None] = dict.fromkeys(names)
    estimates["sample"] = (sample - (sample_training if t > 1 else sample_decoding)) / (t * d)
    if t > 1:
        shift = training - sample_training - (decoding - sample_decoding)
        estimates["training"] = shift / (g * d)
        estimates["sample_training"] = (sample_training - sample_decoding) / d
    if d > 1:
        estimates["decoding"] = (decoding - sample_decoding) / g
        estimates["sample_decoding"] = sample_decoding
    rounding = 1e-12 * max(square.value for square in squares)
    clipped = tuple(n for n, value in estimates.items() if value is not None and value < -rounding)
    estimated = {name: None if v is None else max(v, 0.0) for name, v in estimates.items()}
    return Components(
        sample=estimated["sample"] or 0.0,
        training=estimated["training"],
        decoding=estimated["decoding"],
        sample_training=estimated["sample_training"],
        sample_decoding=estimated["sample_decoding"],
        clipped=clipped,
        groups=g,
        trainings=t,
        decodings=d,
    )


def seeded_score(values: ArrayLike, *, level: float = 0.95) -> SeededScore:
    """Return the mean of a balanced set of runs, with an interval over samples and seeds.

    With several trainings the mean's variance is `(MS_sample + MS_training - MS_sample_training) /
    (g * t * d)`, in mean squares MS, whose expectation is its variance under the model; with one
    training and several decodings, decodings take the trainings' place. Degrees of freedom are
    Satterthwaite's (1946). If trainings differ less than by chance alone, only the samples' mean
    square remains. Three trainings leave two degrees of freedom: if trainings differ, the interval
    is wide, and rightly so.

    Args:
        values: Groups × trainings × decodings, as in `components`.
        level: Probability that the interval holds the true mean.

    Raises:
        DataError: not such a table of finite numbers, or fewer than two groups.
        UsageError: `level` is not between 0 and 1.
    """
    check_level(level)
    table = _check_balanced(values)
    _, t, d = table.shape
    sample, training, decoding, sample_training, sample_decoding = _mean_squares(table)
    over: tuple[str, ...] = ("samples",)
    terms = [(1, sample)]
    if t > 1:
        over = ("samples", "trainings", *(("decodings",) if d > 1 else ()))
        terms += [(1, training), (-1, sample_training)]
    elif d > 1:
        over = ("samples", "decodings")
        terms += [(1, decoding), (-1, sample_decoding)]
    if sum(sign * square.value for sign, square in terms) < sample.value:
        terms = terms[:1]
    total = sum(sign * square.value for sign, square in terms)
    error = float(np.sqrt(total / table.size))
    degrees = _satterthwaite([square for _, square in terms], total)
    reach = half_width(level, degrees=degrees) * error
    value = float(table.mean())
    return SeededScore(
        value=value,
        error=error,
        degrees=degrees,
        interval=(value - reach, value + reach),
        over=over,
        level=level,
    )


def _satterthwaite(squares: list[_Square], total: float) -> float:
    """Return the degrees of freedom of `total`, the first two mean squares less the third.

    They are at least the smaller number of the first two.
    """
    if total == 0:
        return float(squares[0].degrees)
    # Shares of the total, for the square of a very small number is 0.
    spread = sum((square.value / total) ** 2 / square.degrees for square in squares)
    return float(max(1 / spread, min(square.degrees for square in squares[:2])))


def _mean_squares(table: FloatArray) -> tuple[_Square, _Square, _Square, _Square, _Square]:
    """Return the mean squares of sample, training, decoding, sample_training, sample_decoding.

    A source without degrees of freedom has 0.
    """
    g, t, d = table.shape
    cells, runs = table.mean(axis=2), table.mean(axis=0)
    groups, trainings, mean = cells.mean(axis=1), runs.mean(axis=1), table.mean()
    sample_training = cells - groups[:, None] - trainings + mean
    sample_decoding = table - cells[:, :, None] - runs + trainings[:, None]

    def square(deviations: FloatArray, copies: int, degrees: int) -> _Square:
        return _Square(copies * float(np.sum(deviations**2)) / degrees if degrees else 0.0, degrees)

    return (
        square(groups - mean, t * d, g - 1),
        square(trainings - mean, g * d, t - 1),
        square(runs - trainings[:, None], g, t * (d - 1)),
        square(sample_training, d, (g - 1) * (t - 1)),
        square(sample_decoding, 1, (g - 1) * t * (d - 1)),
    )


def _check_balanced(values: ArrayLike) -> FloatArray:
    """Return values as groups × trainings × decodings; raise DataError if they are not that."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3 or table.shape[0] < 2 or 0 in table.shape or not np.isfinite(table).all():
        raise DataError(
            "runs to split the variance of",
            expected="groups × trainings × decodings of finite numbers, from two groups on",
            found=f"shape {table.shape}" + ("" if np.isfinite(table).all() else " with NaN"),
        )
    return table
