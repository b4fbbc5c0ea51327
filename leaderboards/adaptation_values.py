"""The report on test-time adaptation as values: `Report` → `Variant` (over seeds) → `Gain` (a run).

`adaptation` builds them, `adaptation_tables` prints them, and `Report.to_json` is their file.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from harness.leaderboards.row import Row
from harness.statistics.clusters import FloatArray
from harness.statistics.paired import Comparison
from harness.statistics.variance import SeededScore, seeded_score

LOSSES = (0.0, 0.01, 0.05, 0.1)
"""Losses of a sample that count as regressions: more than each of these (VR-TTRL, Table 6)."""

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One adapted run against the run of the unchanged model."""

    method: str
    row: Row
    value: float | None
    settings: Settings
    """Settings of the adaptation, or the method, budget and seed of an offline training."""
    comparison: Comparison | None
    """Paired by sample; None if the unchanged model has no run."""
    differences: FloatArray | None
    """(groups,) pseudo-values of the metric less those of the model as it is; their mean is the
    gain."""
    regressions: Mapping[str, float]
    """Share of samples that lost more than each of `LOSSES`, by that limit."""
    seconds: float | None
    """Seconds of the language stage a sample, adaptation included."""
    tokens: float
    """Tokens that were generated a sample, rollouts included."""
    rolled_back: int
    """Updates that were undone because they were not finite, over all samples."""
    curves: Mapping[str, Mapping[int, float]]
    """Means over samples by name and step (from 1), mostly of the state before the step's update;
    see `adaptation`."""

    @property
    def seed(self) -> int | None:
        """Seed of the adaptation, or of the training."""
        seed: int | None = self.settings.get("seed")
        return seed

    @property
    def relative(self) -> float | None:
        """Gain as a share of the unchanged model's number (VR-TTRL, Tables 4 and 5)."""
        versus = self.comparison
        if versus is None or versus.difference is None or not versus.a:
            return None
        return versus.difference / versus.a


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Runs of one benchmark that differ in their seed alone."""

    name: str
    runs: tuple[Gain, ...]

    @property
    def settings(self) -> Settings:
        """Settings of its runs, their seed aside."""
        return {name: value for name, value in self.runs[0].settings.items() if name != "seed"}

    @property
    def gain(self) -> SeededScore | None:
        """Mean gain over seeds, with an interval over samples and seeds.

        None if a run has no comparison, or the runs have different numbers of groups.
        """
        differences = [run.differences for run in self.runs if run.differences is not None]
        if len(differences) < len(self.runs) or len({len(of_run) for of_run in differences}) > 1:
            return None
        return seeded_score(np.stack(differences, axis=1)[:, None, :])

    def mean(self, get: Callable[[Gain], float | None]) -> float | None:
        """Return the mean of a number over seeds; None if one run does not have it."""
        values = [get(run) for run in self.runs]
        known_values = [value for value in values if value is not None]
        return fmean(known_values) if known_values and len(known_values) == len(values) else None


@dataclass(frozen=True, kw_only=True)
class Report:
    """Adapted runs of one network on one task and data."""

    network: str
    """Name of the checkpoint."""
    benchmark: str
    """Task, split and subset."""
    samples: int
    metric: str
    base: Row | None
    """The run of the unchanged model, if there is one."""
    variants: tuple[Variant, ...]

    @property
    def title(self) -> str:
        """Benchmark and network."""
        return f"{self.benchmark}, {self.network}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "network": self.network,
            "benchmark": self.benchmark,
            "samples": self.samples,
            "metric": self.metric,
            "base": None if self.base is None else _value_json(self.base, self.metric),
            "variants": [
                {
                    "name": variant.name,
                    "settings": variant.settings,
                    "gain": None if variant.gain is None else asdict(variant.gain),
                    "runs": [_run_json(run, self.metric) for run in variant.runs],
                }
                for variant in self.variants
            ],
        }


def _value_json(run_row: Row, metric: str) -> dict[str, Any]:
    return {
        "run": run_row.run,
        "value": run_row.metrics[metric],
        "interval": run_row.intervals.get(metric),
    }


def _run_json(gain: Gain, metric: str) -> dict[str, Any]:
    """Return the entry of an adapted run in adaptation.json."""
    return {
        **_value_json(gain.row, metric),
        "model": gain.row.model_spec,
        "method": gain.method,
        "seed": gain.seed,
        "answered": gain.row.answered_share,
        "gain": None if gain.comparison is None else gain.comparison.to_json(),
        "regressions": dict(gain.regressions),
        "seconds": gain.seconds,
        "tokens": gain.tokens,
        "rolled_back": gain.rolled_back,
        "curves": {name: dict(points) for name, points in gain.curves.items()},
    }
