"""Score the recorded predictions of a run again, by its own protocol or another one.

Comparisons of runs build a run's task (`task_for`) and its samples (`samples_by_unit`) here.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.judge import Judge
from harness.record import Run
from harness.run.batching import samples_of, units
from harness.run.judging import verdicts_of, with_judge
from harness.run.recorded_task import recorded_task
from harness.run.rescore import selected
from harness.run.sample_cache import read_once
from harness.run.scoring import Scorer
from harness.run.sweep import with_argument
from harness.spec import parse
from harness.task import Task
from harness.types import Sample


def task_for(
    run: Run,
    data_root: Path | None = None,
    *,
    protocol: str | None = None,
    judge: Judge | None = None,
) -> Task:
    """Build a run's task, with another protocol if it is given, and with a judge if it needs one.

    The judge is `judge`, or else the verdicts that the run recorded. `data_root` is by default the
    root that the run used.

    Raises:
        HarnessError: the task cannot be built.
    """
    spec = parse(run.manifest["task"]["spec"])
    if protocol is not None and protocol != run.manifest["task"]["protocol"]:
        spec = with_argument(spec, "protocol", protocol)
    root = data_root or Path(run.manifest["data"]["root"])
    task = read_once(recorded_task(spec, root, run.manifest["task"]["protocol"]))
    if task.protocol.rubric is None:
        return task
    judge = judge or verdicts_of(run)
    return task if judge is None else with_judge(task, judge)


def results_by(task: Task, run: Run) -> dict[str, Any]:
    """Score a run's predictions by a task of any protocol; return the content of a results.json.

    Raises:
        DataError, StoreError: the task does not have the run's samples, or a scorer raises.
    """
    scorer = Scorer(task, tuple)
    for unit in samples_by_unit(task, run):
        scorer.add(unit, [run.prediction(sample.id) for sample in unit])
    return scorer.results(run.manifest)


def samples_by_unit(task: Task, run: Run) -> Iterator[Sequence[Sample]]:
    """Yield the units of a task that hold the samples of a run.

    Raises:
        DataError, StoreError: the data has changed, or the protocol has other samples.
    """
    if task.protocol.name == run.manifest["task"]["protocol"]:
        yield from selected(task, run)
        return
    sample_ids = {name for unit in run.units() for name in unit.samples}
    n_found = 0
    for unit in units(sample for sample in samples_of(task) if sample.id in sample_ids):
        n_found += len(unit)
        yield unit
    if n_found != len(sample_ids):
        raise DataError(
            f"{task.name} by {task.protocol.name}",
            expected=f"the run's {len(sample_ids)} samples",
            found=f"{n_found} of them",
        )
