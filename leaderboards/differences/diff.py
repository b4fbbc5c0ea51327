"""Explain the difference of two runs' numbers, stage by stage (`harness diff`).

The first run's predictions are scored; then one stage at a time is replaced by the second run's,
until all is the second's. The change of the number at each step is what that stage explains, so the
steps add up to the difference by construction. Stored responses are parsed again; networks are not
asked again. The effect of frames, prompt, sampling and so on, which act through the response, is
attributed sample by sample, by the differences between the two requests.

Order: data, grammar, coordinates, segmenter, propagator, responses by cause, protocol. If the
prompts differ, the grammar is replaced together with the responses, and if the networks differ, so
are the coordinates: a response can only be parsed by the rules that it was written for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote

from harness.errors import DataError, HarnessError, UsageError, counted
from harness.judge import Judge
from harness.leaderboards.differences.causes import CAUSES, OTHER_MODEL, UNKNOWN
from harness.leaderboards.differences.mixed_reading import ANSWERS, STAGES, MixedReading
from harness.leaderboards.differences.scoring import samples_by_unit, task_for
from harness.leaderboards.differences.steps import Step, Walk
from harness.leaderboards.sample_changes import SampleChanges, sample_changes
from harness.record import Run, differences
from harness.run.judging import verdicts_of
from harness.scores import UnitScore
from harness.statistics.paired import Comparison, compare
from harness.task import Task
from harness.types import FailureKind

SUBSET = "subset"
"""Name of the step to the samples that both runs have."""
TODAY = "today's scorer"
"""Name of the step to the current version's scores of the first run's predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The way from one run's number to another's."""

    a: str
    b: str
    task: str
    headline: str
    """Name of the first run's headline, by which all steps but `protocol` are measured."""
    first: float | None
    second: float | None
    n_samples: int
    """Number of samples that both runs have."""
    steps: tuple[Step, ...]
    level: float = 0.95
    comparison: Comparison | None = None
    """Paired comparison of the two runs' own scores on the samples that both have; None if their
    data, protocol or judge differ, because then the scores are not comparable."""
    changes: SampleChanges | None = None
    """Samples of the comparison whose scores differ; None where the headline has no value of one
    sample."""
    unread: tuple[tuple[int, int], ...] = ()
    """Numbers of samples whose response could not be read, and of all samples, of each run; empty
    if all were read."""

    @property
    def unread_text(self) -> str:
        """The responses of each run that could not be read, as a line; empty for none."""
        counts = [
            f"{n_unread} of {counted(n_samples, 'sample')} of {name}"
            for name, (n_unread, n_samples) in zip((self.a, self.b), self.unread, strict=False)
        ]
        return f"responses that could not be read: {', '.join(counts)}" if counts else ""

    @property
    def verdict(self) -> str:
        """The comparison as one sentence; empty without a comparison."""
        return "" if self.comparison is None else self.comparison.verdict(self.b)

    def to_json(self) -> dict[str, object]:
        """Plain data, for programs."""
        return {
            **asdict(replace(self, comparison=None)),
            "steps": [{**asdict(step), "points": step.points} for step in self.steps],
            "comparison": self.comparison.to_json() if self.comparison else None,
            "verdict": self.verdict,
        }


def diff_runs(
    a: Run,
    b: Run,
    *,
    data_root: Path | None = None,
    level: float = 0.95,
    logged: Mapping[str, float] | None = None,
) -> Difference:
    """Explain the difference of two runs' headlines, stage by stage.

    Args:
        a: A finished run with its predictions.
        b: Another finished run of the same task.
        data_root: Root of the data; None: the root that each run used.
        level: Confidence level of the paired intervals.
        logged: Scores of `b`'s samples by id, from another evaluation's log. They add a last step
            to the number that this evaluation reports.

    Raises:
        UsageError: the runs are of different tasks.
        DataError: the runs have no sample in common, neither run answered a sample, something
            cannot be scored, or a stage has no headline.
    """
    if a.manifest["task"]["name"] != b.manifest["task"]["name"]:
        raise UsageError(
            "two runs to explain",
            expected="runs of one task",
            found=" and ".join(run.manifest["task"]["name"] for run in (a, b)),
        )
    judge, common = _with_verdicts_of_both(a, b), _common_units(a, b)
    task = task_for(a, data_root, judge=judge)
    task_of_b = task_for(b, data_root, protocol=task.protocol.name, judge=judge)
    scores_of_a, scores_of_b = (
        [unit for unit in run.units() if unit.unit in common] for run in (a, b)
    )
    if all(unit.failed == len(unit.samples) for unit in (*scores_of_a, *scores_of_b)):
        raise _nothing_answered(a, b, sum(len(unit.samples) for unit in scores_of_a))
    walk = Walk(task, level, scores_of_a)
    start_value = walk.value
    first, second = (run.results["metrics"][run.results["headline"]] for run in (a, b))
    same_data = _same_data(a, b, task_of_b)
    if not same_data:
        walk.task = task_of_b
    units = samples_by_unit(walk.task, a if same_data else b)
    reading = MixedReading(a, b, [unit for unit in units if unit[0].unit in common])
    if same_data:
        walk.step(TODAY, reading.score(walk.task), _code(a, b), always=False)
    else:
        try:
            rescored = reading.score(walk.task)
        except HarnessError as error:
            raise DataError(
                f"the predictions of {a.folder} on the data of {b.folder}",
                expected="other annotations of the same images",
                found=str(error),
            ) from error
        walk.step("data", rescored, ["other annotations or samples"])
    _walk_stages(walk, reading)
    _walk_causes(walk, reading)
    _walk_scoring(walk, reading, task_for(b, data_root), scores_of_b, _code(a, b))
    steps, final_value = walk.steps, walk.value
    stage_values = [
        ("the first run", first),
        ("the second run", second),
        ("the samples in both", start_value),
        *((step.name, step.after) for step in steps),
    ]
    if missing := [stage for stage, value in stage_values if value is None]:
        raise DataError(
            f"the numbers of {a.folder} and {b.folder}",
            expected=f"{a.results['headline']} at every stage",
            found=f"none at {missing[0]}",
        )
    assert start_value is not None and second is not None and final_value is not None, "checked"
    shared = len(reading.names)
    sample_counts = [sum(len(unit.samples) for unit in run.units()) for run in (a, b)]
    if sample_counts != [shared] * 2:
        left_out = Step(
            name=SUBSET,
            before=first,
            after=start_value + second - final_value,
            details=(f"{sample_counts[0]} and {sample_counts[1]} samples, {shared} in both",),
        )
        steps.insert(0, left_out)
    if logged is not None:
        steps.append(_logged_step(logged, second, walk.units))
        second = steps[-1].after
    scored = walk.metrics, scores_of_a, scores_of_b
    is_paired = same_data and logged is None and _are_scored_alike(a, b)
    name_of_a, name_of_b = _model_names(a, b)
    return Difference(
        a=name_of_a,
        b=name_of_b,
        task=f"{a.manifest['task']['name']} {a.manifest['task']['split']}",
        headline=a.results["headline"],
        first=first,
        second=second,
        n_samples=shared,
        steps=tuple(steps),
        level=level,
        comparison=compare(*scored, name=walk.metrics[-1].name, level=level) if is_paired else None,
        changes=sample_changes(*scored) if is_paired else None,
        unread=_unread(a, b),
    )


def _unread(a: Run, b: Run) -> tuple[tuple[int, int], ...]:
    """Return `Difference.unread` of two runs."""
    counts = [
        (run.results["failures"].get(FailureKind.PARSE, 0), run.results["n_total"])
        for run in (a, b)
    ]
    return tuple(counts) if any(n_unread for n_unread, _ in counts) else ()


def _nothing_answered(a: Run, b: Run, n_samples: int) -> DataError:
    return DataError(
        f"the answers of {a.folder} and {b.folder}",
        expected="an answer to one sample or more in one of them",
        found=f"{counted(n_samples, 'sample')} without one in either, so that nothing is compared",
        fix=f"See why: harness runs samples {quote(str(a.folder))}",
    )


def _model_names(a: Run, b: Run) -> tuple[str, str]:
    """Return the names of two runs' models, or their SPECs if the names are equal."""
    first, second = (str(run.manifest["model"]["name"]) for run in (a, b))
    if first == second:
        first, second = (str(run.manifest["model"]["spec"]) for run in (a, b))
    return first, second


def _walk_stages(walk: Walk, reading: MixedReading) -> None:
    """Replace the stages of reading one by one; stages joined to the responses follow later."""
    for stage in reading.differing:
        if stage not in reading.joined:
            reading.taken.add(stage)
            changes = _changes(*(stages[stage] for stages in reading.stages))
            walk.step(stage, reading.score(walk.task), changes)


def _walk_causes(walk: Walk, reading: MixedReading) -> None:
    """Replace the responses by the second run's, one cause after another."""
    differing = Counter(reading.causes.values())
    for cause in sorted(differing, key=_in_order):
        reading.responses.add(cause)
        joined_stages = [name for name in STAGES if name in reading.joined]
        if cause == ANSWERS:
            noun, step_name = "answer", ANSWERS
        else:
            noun, step_name = "response", f"responses: {cause}"
        name = " + ".join([step_name, *joined_stages])
        lines = [line for single in cause.split(" + ") for line in reading.settings.get(single, ())]
        samples = counted(len(reading.names), "sample")
        changed = f"{differing[cause]} of {samples} have another {noun}"
        walk.step(name, reading.score(walk.task), [changed, *lines])


def _walk_scoring(
    walk: Walk,
    reading: MixedReading,
    judged: Task,
    scored: Sequence[UnitScore],
    code: Sequence[str],
) -> None:
    """Add the steps to the second run's recorded scores, and to its protocol if it is another.

    Args:
        walk: The walk at the second run's predictions, scored by the first run's protocol.
        reading: The predictions of both runs.
        judged: The task with the second run's protocol.
        scored: The second run's recorded scores.
        code: Differences between the runs' code.
    """
    if judged.protocol.name == walk.task.protocol.name:
        walk.step("not explained", scored, code, always=False)
        return
    walk.step("not explained", reading.score_second(walk.task), code, always=False)
    protocols = [
        f"{protocol.name}, {protocol.headline}"
        for protocol in (walk.task.protocol, judged.protocol)
    ]
    walk.task = judged
    walk.step("protocol", scored, [" → ".join(protocols)])


def _logged_step(logged: Mapping[str, float], before: float, units: Sequence[UnitScore]) -> Step:
    """Return the step to the mean of the scores in another evaluation's log."""
    missing = sum(unit.samples[0] not in logged for unit in units)
    details = [f"mean of {len(logged)} scores in the log"]
    details += [f"{missing} samples have none there"] if missing else []
    mean = sum(logged.values()) / len(logged)
    return Step(name="their scorer", before=before, after=mean, details=tuple(details))


def _are_scored_alike(a: Run, b: Run) -> bool:
    """Return True if two runs were scored by the same protocol and the same judge, if any."""
    tasks = [run.manifest["task"] for run in (a, b)]
    protocols = {task["protocol"] for task in tasks}
    judges = {str(task["arguments"].get("judge")) for task in tasks}
    return len(protocols) == len(judges) == 1


def _with_verdicts_of_both(a: Run, b: Run) -> Judge | None:
    """Return the first run's judge; add the second run's verdicts if its judge is the same."""
    judge, second_judge = verdicts_of(a), verdicts_of(b)
    if judge is not None and second_judge is not None and judge.name == second_judge.name:
        judge.ledger.records = {**second_judge.ledger.records, **judge.ledger.records}
    return judge


def _in_order(cause: str) -> list[int]:
    """Return the sort key of causes joined by ` + `: their places in the order of `CAUSES`."""
    order = (*CAUSES, OTHER_MODEL, UNKNOWN, "chance", ANSWERS)
    return [order.index(single) for single in cause.split(" + ")]


def _common_units(a: Run, b: Run) -> frozenset[str]:
    """Return the names of the units that have the same samples in both runs."""
    ours, theirs = ({unit.unit: unit.samples for unit in run.units()} for run in (a, b))
    common = frozenset(name for name, samples in ours.items() if theirs.get(name) == samples)
    if not common:
        raise DataError(
            "two runs to explain", expected="samples that both have", found="none in common"
        )
    return common


def _same_data(a: Run, b: Run, task: Task) -> bool:
    """Return True if both runs have the same data, even if they have different subsets of it.

    `task` reads the data of `b`. The recorded fingerprints depend on the subsets.
    """
    if a.manifest["data"]["fingerprint"] == b.manifest["data"]["fingerprint"]:
        return True
    if a.manifest["subset"] == b.manifest["subset"]:
        return False
    try:
        next(iter(samples_by_unit(task, a)))
    except DataError:
        return False
    return True


def _changes(old: object, new: object) -> list[str]:
    """Return the differences of two runs' settings of a stage, as lines."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.get("name") == new.get("name"):
            return differences(old, new)
        old, new = old.get("name"), new.get("name")
    if isinstance(old, tuple) and isinstance(new, tuple):
        return [
            f"{before} → {after}" for before, after in zip(old, new, strict=True) if before != after
        ]
    return [f"{old} → {new}"]


def _code(a: Run, b: Run) -> list[str]:
    """Return the differences of two runs' commits and packages, as lines."""
    old, new = (run.manifest["provenance"] for run in (a, b))
    keys = ("commit", "packages")
    return [line for key in keys for line in differences(old[key], new[key], key)]
