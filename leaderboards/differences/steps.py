"""Record the steps that lead from one run's headline number to another's, for `diff` and `ladder`.

A `Walk` starts with the first run's scores; each call of `step` replaces them and adds a `Step`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.leaderboards.sample_changes import changes_between
from harness.leaderboards.unit_values import unit_values
from harness.scores import Metric, UnitScore, value_of
from harness.statistics.paired import compare, dependencies_of
from harness.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The change of the number by one stage."""

    name: str
    before: float | None
    after: float | None
    interval: tuple[float, float] | None = None
    """Paired interval of the difference; None if the scores cannot be paired."""
    samples: int = 0
    """Number of samples whose score changes; of a headline without scores of samples, the number
    with another record."""
    details: tuple[str, ...] = ()
    """The settings or facts that differ."""

    @property
    def points(self) -> float:
        """Difference of the number, in the headline's unit; 0 without numbers."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before


@dataclass
class Walk:
    """The steps so far, and the scores after the last step."""

    task: Task
    level: float
    units: Sequence[UnitScore]
    """The current scores; the walk begins with those of the first run."""
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metrics = _metrics(self.task)

    @property
    def value(self) -> float | None:
        """The headline of the current scores."""
        return value_of(self.metrics, self.units, self.metrics[-1].name)

    def step(
        self, name: str, units: Sequence[UnitScore], details: Sequence[str], *, always: bool = True
    ) -> None:
        """Replace the scores by others of the same units, and record the step.

        Args:
            name: Name of the step.
            units: The new scores.
            details: The settings or facts that differ.
            always: Record the step even if it changes no score.
        """
        before = {unit.unit: unit.scores for unit in self.units}
        changed = [unit for unit in units if unit.scores != before[unit.unit]]
        old_headline, value, interval = self.metrics[-1].name, self.value, None
        old_values = unit_values(self.metrics, self.units)
        self.metrics, headline = _metrics(self.task), self.task.protocol.headline
        if headline == old_headline:
            comparison = compare(
                self.metrics, self.units, units, name=old_headline, level=self.level
            )
            # The new task may define the metric otherwise: then the step is not this difference.
            if comparison.a is not None and value is not None and abs(comparison.a - value) < 1e-9:
                interval = comparison.interval
        self.units = units
        samples = sum(len(unit.samples) for unit in changed)
        if any(value is not None for value in old_values.values()):
            changes = changes_between(
                units, old_values, unit_values(self.metrics, units), better="higher"
            )
            samples = changes.worse + changes.better  # the same for either direction
        step = Step(
            name=name,
            before=value,
            after=self.value,
            interval=interval,
            samples=samples,
            details=tuple(details),
        )
        if always or changed:
            self.steps.append(step)


def _metrics(task: Task) -> list[Metric]:
    return list(dependencies_of(task.protocol.metrics, task.protocol.headline))
