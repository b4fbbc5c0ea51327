"""Build the task of a recorded run under the recorded protocol, if the default has changed since.

Resuming and scoring again use this, so that a run's numbers keep their meaning.
"""

from contextlib import suppress
from pathlib import Path

from harness import plugins
from harness.errors import UsageError
from harness.record import MANIFEST, Run
from harness.run.options import Progress
from harness.spec import Spec
from harness.task import Task, with_metrics


def recorded_task(spec: Spec, data: Path, protocol: str) -> Task:
    """Build a task under the recorded protocol, if the SPEC names none and the task still has it.

    Otherwise the SPEC's protocol or the task's default counts, as for an empty `protocol`. `data`
    is the data root.
    """
    task: Task = plugins.build("tasks", spec, data)
    if protocol not in ("", task.protocol.name) and "protocol" not in spec.arguments:
        with suppress(UsageError):
            task = plugins.build("tasks", spec.with_defaults(protocol=protocol), data)
    return task


def resumed_task(task: Task, spec: Spec, data: Path, folder: Path, progress: Progress) -> Task:
    """Return the task under the protocol of the run in `folder`, if there is one.

    It keeps the metrics that were added to `task`. For `spec` and `data` see `recorded_task`.
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
        f"run {folder} is compared and scored by its protocol {recorded}; the task's is now "
        f"{task.protocol.name}: `protocol={task.protocol.name}` in its SPEC begins another run"
    )
    return with_metrics(earlier, task.extras)
