"""The end of a run, for `evaluate`: write its results, unless too many predictions are lost."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from harness.errors import Unavailable
from harness.record import Run, finish
from harness.run.manifest import keeps_its_numbers
from harness.run.options import Progress
from harness.run.scoring import Scorer
from harness.run.submission import submit
from harness.store.journal import Journal
from harness.task import Task
from harness.types import FailureKind, Sample

SHOWN_REASON = 300  # characters


def too_many_lost(
    folder: Path, journal: Journal, *, total: int, limit: float
) -> Unavailable | None:
    """Return the error of a run that lost too many samples to the infrastructure, else None.

    Such a run stays unfinished, because its score would measure failed servers, nodes and files.

    Args:
        folder: The run's folder.
        journal: Its predictions.
        total: Number of the run's samples.
        limit: Share of them that may be lost.
    """
    lost_ids = [
        query
        for query, position in journal.places.items()
        if position.failure == FailureKind.INFRASTRUCTURE
    ]
    if len(lost_ids) <= limit * total:
        return None
    reasons = Counter(journal.record(query)["prediction"]["failure"][1] for query in lost_ids)
    ((reason, times),) = reasons.most_common(1)
    return Unavailable(
        f"run {folder}",
        expected=f"at most {limit:.1%} of the samples lost to servers, nodes and files",
        found=f"{len(lost_ids)} of {total}, {times} of them because of: {reason[:SHOWN_REASON]}",
        fix="The run has no score. The same command predicts the lost samples again; with "
        "--infrastructure-limit 1 they are scored as failed.",
    )


def write_results(
    task: Task,
    samples: Iterable[Sample],
    folder: Path,
    scorer: Scorer,
    manifest: dict[str, object],
    *,
    total: int,
    is_repeat: bool,
    rescore: bool,
    renewed: dict[str, object] | None,
    progress: Progress,
) -> None:
    """Write the scores of a run, or the file for the organisers' server, and finish the run.

    Args:
        task: The task.
        samples: The samples of the run.
        folder: The run's folder.
        scorer: The scores of all units.
        manifest: The run's manifest.
        total: Number of samples.
        is_repeat: True if nothing was predicted: a finished run keeps equal numbers.
        rescore: Replace the numbers of a finished run even if they differ.
        renewed: A manifest to write in place of the run's; None: that stays.
        progress: Receives notes about the results.
    """
    if task.submission is not None:
        submit(task, samples, Run(folder), manifest, total=total, progress=progress)
        return
    results, run = scorer.results(manifest), Run(folder)
    if (
        is_repeat
        and run.is_finished
        and keeps_its_numbers(folder, results, rescore=rescore, progress=progress)
    ):
        finish(folder, list(run.units()), run.results, manifest=renewed)
    else:
        finish(folder, scorer.done, results, manifest=renewed)
    if len(served := results["ledger"].get("served", ())) > 1:
        progress.note(
            f"{task.name}: the server answered as {', '.join(served)}: these numbers are "
            "of several models, which the record and boards say. A dated name as model= keeps "
            "one of them"
        )
    if results["n_scored"] == 0:
        failure = Run(folder).prediction(scorer.done[0].samples[0]).failure
        why = failure.message if failure else task.protocol.unread
        progress.note(
            f"{task.name}: no sample was answered by {results['model']}, "
            f"the first because of: {why}"
        )
