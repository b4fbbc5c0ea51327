"""The file for the organisers' server, in place of scores where the ground truth is hidden."""

from collections.abc import Iterable, Iterator

from harness.errors import counted
from harness.plugins import plugin_errors
from harness.record import Run, finish
from harness.run.options import Progress
from harness.run.scoring import Tally, tally
from harness.summary import unscored_results
from harness.task import Task
from harness.types import Prediction, Sample


def submit(
    task: Task,
    samples: Iterable[Sample],
    run: Run,
    manifest: dict[str, object],
    *,
    total: int,
    progress: Progress,
) -> None:
    """Write the file for the organisers' server, and results without scores.

    Args:
        task: A task that has a `submission`.
        samples: The samples of the run.
        run: The run, all of whose predictions are made.
        manifest: The run's manifest.
        total: Number of samples.
        progress: Receives a note with the file and the number of failed samples.
    """
    all_ = Tally()

    def tallied() -> Iterator[tuple[Sample, Prediction]]:
        for sample in samples:
            prediction = run.prediction(sample.id)
            all_.add(tally(task, [sample], [prediction]))
            yield sample, prediction

    with plugin_errors(f"the submission of {task.name}"):
        assert task.submission is not None, "only called with one"
        written = task.submission(tallied(), run.folder)
    results = unscored_results(task, manifest, total, all_.failures, all_.usage)
    ledger = all_.ledger.to_json(task, [], run.manifest["model"])
    finish(run.folder, None, {**results, "ledger": ledger})
    failed = sum(all_.failures.values())
    progress.note(
        f"the ground truth is hidden; the file for the organisers' server: {written}"
        + (f" ({failed} of {counted(total, 'sample')} failed)" if failed else "")
    )
