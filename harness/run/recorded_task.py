"""Tasks of recorded runs, by the protocol in the record where a default has changed since."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from harness import plugins
from harness.errors import UsageError
from harness.record import MANIFEST, Run
from harness.run.options import Progress
from harness.spec import Spec
from harness.task import CostMetric, ExtraMetric, Task, with_metrics


def recorded_task(spec: Spec, data: Path, protocol: str) -> Task:
    """Build a task by a recorded protocol, if its SPEC names none and the task has it.

    An empty `protocol` is the task's default.
    """
    task: Task = plugins.build("tasks", spec, data)
    if protocol not in ("", task.protocol.name) and "protocol" not in spec.arguments:
        with suppress(UsageError):
            task = plugins.build("tasks", spec.with_defaults(protocol=protocol), data)
    return task


def resumed_task(
    task: Task,
    spec: Spec,
    data: Path,
    folder: Path,
    progress: Progress,
    metrics: Sequence[ExtraMetric | CostMetric] = (),
) -> Task:
    """Return a task, by the protocol of the run in `folder` if there is one; see `recorded_task`.

    `metrics` are the further ones of the task.
    """
    if not (folder / MANIFEST).is_file():
        return task
    recorded = Run(folder).manifest["task"]["protocol"]
    if recorded == task.protocol.name:
        return task
    earlier = recorded_task(spec, data, recorded)
    if earlier.protocol.name != recorded:
        return task
    progress.note(
        f"run {folder} goes on with its protocol {recorded}; the task's is now "
        f"{task.protocol.name}: `protocol={task.protocol.name}` in its SPEC begins another run"
    )
    return with_metrics(earlier, metrics)
