"""Score a run again from its journal, on the same samples (`harness score RUN`)."""

from collections.abc import Iterator, Sequence
from functools import partial

from harness.errors import DataError, StoreError
from harness.interchange.journal_form import stored_prediction
from harness.record import Run, changed_numbers, without_metrics
from harness.run.batching import Selection, select, units
from harness.run.judging import TaskSource
from harness.run.parallel import score_journal
from harness.run.sample_cache import read_once
from harness.run.scoring import Scorer
from harness.run.survey import survey
from harness.store.checksums import changed_files
from harness.task import Task
from harness.types import Sample

CHANGED_DATA_HINT = (
    "A correction of the questions or answers is a new version of the task (`version =` in a "
    "table's TOML); only runs on that data can be compared."
)


def rescore(
    source: TaskSource, run: Run, *, processes: int = 1
) -> tuple[dict[str, object], list[str]]:
    """Score a run again from its journal, without the model.

    Returns:
        The new results, and their differences from the stored ones as lines. A stored metric
        that these results do not have, since `--metrics` added it to the run, is not compared.
    """
    task = read_once(source.build())
    selection = selection_of(task, run)
    scorer = Scorer(task, partial(selection.samples, task))
    journal = run.journal  # refuses files of other runs
    if processes == 1:
        scorer.advance(lambda query: stored_prediction(journal.record(query), run.folder))
    else:
        for score, counted in score_journal(source, run, selection=selection, processes=processes):
            scorer.add_scored(score, counted)
    results = scorer.results(run.manifest)
    outcome = [
        f"{name}: {how} since it was written" for name, how in changed_files(run.folder).items()
    ]
    left_out = run.results["metrics"].keys() - results["metrics"].keys()
    return results, outcome + changed_numbers(without_metrics(run.results, left_out), results)


def selection_of(task: Task, run: Run) -> Selection:
    """Select the samples of a run from a task with the same data.

    Raises:
        StoreError: the task's name, version, split or protocol is not the run's.
        DataError: the data has another fingerprint than the run's.
    """
    recorded, subset = run.manifest["task"], run.manifest["subset"]
    now = (task.name, task.version, task.split, task.protocol.name)
    then = tuple(recorded[key] for key in ("name", "version", "split", "protocol"))
    if now != then:
        raise StoreError(
            f"run {run.folder}",
            expected=f"the task that it was made with, {then}",
            found=f"{now} installed",
        )
    if subset is not None and subset.startswith("ids-"):
        selection = Selection(subset, frozenset(unit.unit for unit in run.units()))
    else:
        selection = select(task, subset)
    surveyed = survey(task, selection, allow_missing=True)
    if surveyed.fingerprint != run.manifest["data"]["fingerprint"]:
        raise DataError(
            f"{task.name} at the data root given",
            expected="the data that the run was made on",
            found="data with another fingerprint",
            fix=CHANGED_DATA_HINT,
        )
    return selection


def selected(task: Task, run: Run) -> Iterator[Sequence[Sample]]:
    """Yield the units of samples of a run; for errors see `selection_of`."""
    return units(selection_of(task, run).samples(task))
