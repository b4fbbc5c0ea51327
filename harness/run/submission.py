"""Write the file for the organisers' server, in place of scores, if the ground truth is hidden."""

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
    totals = Tally()

    def predicted_samples() -> Iterator[tuple[Sample, Prediction]]:
        for sample in samples:
            prediction = run.prediction(sample.id)
            totals.add(tally(task, [sample], [prediction]))
            yield sample, prediction

    with plugin_errors(f"the submission of {task.name}"):
        assert task.submission is not None, "only called with one"
        submission = task.submission(predicted_samples(), run.folder)
    results = unscored_results(task, manifest, total, totals.failures, totals.usage)
    ledger = totals.ledger.to_json(task, [], run.manifest["model"])
    finish(run.folder, None, {**results, "ledger": ledger})
    failed = sum(totals.failures.values())
    progress.note(
        f"the benchmark does not publish its ground truth; file for its server: {submission}"
        + (f" ({failed} of {counted(total, 'sample')} failed)" if failed else "")
    )
