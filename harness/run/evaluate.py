"""Evaluate a model on a task: predict every sample, score, and write a run folder.

`evaluate` resumes whatever an interrupted or killed call left. The order is: check the benchmark,
start workers, write or compare the manifest, predict into the journal while scoring, write results.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.errors import BudgetReached, ModelError, StoreError, UnsupportedAnswerForm
from harness.interchange.journal_form import stored_prediction
from harness.model import Model
from harness.papers import Deviation, sentence
from harness.record import MANIFEST, RESULTS, SCORES, Run
from harness.run.answerable import check_answerable
from harness.run.batch_plan import BatchPlan
from harness.run.batching import Selection, is_done, shuffled
from harness.run.benchmark_check import check_benchmark, refuse_change, survey_notes
from harness.run.contents import write_contents
from harness.run.distributed import ProcessRank, rendezvous, share
from harness.run.manifest import begin_or_resume, manifest_of, set_aside
from harness.run.options import NullProgress, Options, Progress
from harness.run.piloted import PilotedRun, refuse_unpriced
from harness.run.predict import Outcome
from harness.run.results import too_many_lost, write_results
from harness.run.sample_cache import read_once
from harness.run.scoring import RunningScorer, Scorer
from harness.run.start_workers import ready_model, start_workers
from harness.run.stored_queries import QUERIES, StoredQueries, store_queries, stored_queries
from harness.run.survey import Survey
from harness.run.timing import Stage, add_attempt, sum_stages
from harness.run.workers import WorkerInfo, Workers, forms_of, worker_info
from harness.spec import Spec
from harness.store.atomic import forget, writing
from harness.store.checksums import CHECKSUMS
from harness.store.journal import Journal
from harness.store.lease import lease
from harness.task import Task
from harness.types import Prediction, Sample

CRASHES_IN_A_ROW = 20  # exceptions of the model that end the run
MAX_CAUGHT_UP = 2
"""Largest number of units scored for each new sample, so that a resumed run predicts at once."""
SCORE_SECONDS = 1.0  # between running scores, which cost a pass over all units


def evaluate(
    task: Task,
    model: Spec | Model,
    folder: Path,
    options: Options,
    *,
    task_spec: str = "",
    model_spec: str = "",
    progress: Progress | None = None,
    launch: ProcessRank | None = None,
) -> Run:
    """Predict and score every sample that `options.subset` names; resume an earlier call.

    Args:
        task: The task to score.
        model: A SPEC, which worker processes build for themselves, or a ready model, which runs
            in this process.
        folder: The run folder; made if it is not there.
        options: Settings of the run.
        task_spec: The task's SPEC as typed, for the record.
        model_spec: The SPEC of a ready model as typed, for the record.
        progress: Receives the run's progress.
        launch: This process's rank among those of a launcher. All but rank 0 return when they have
            done their share, maybe before the run has its scores.

    Raises:
        DataError: files of the benchmark are missing or damaged (all are listed).
        ResumeMismatch: the folder holds a run of another configuration.
        UnsupportedAnswerForm: the model supports the answer form of no sample.
        Locked: another process runs in this folder.
        ModelError: the model cannot be loaded, or failed many times in a row.
        Unavailable: too many samples were lost to the infrastructure, so there is no score.
        BudgetReached: the budget is spent and samples are left; finished work is kept.
    """
    progress = progress or NullProgress()
    budget = options.budget
    if budget is not None and not budget.left and not (folder / RESULTS).is_file():
        raise BudgetReached(
            f"budget {budget.text}: reached; this command did nothing in run {folder}"
        )
    stored = stored_queries(folder, task, options) if launch is None else None
    task = read_once(task)
    if stored is not None:
        selection, surveyed = stored.selection, stored.survey
    else:
        selection, surveyed = check_benchmark(task, options, progress)
    for text in survey_notes(selection, surveyed):
        progress.note(f"{task.name}: {text}")
    if not isinstance(model, Spec):  # a SPEC's model is checked once a worker has built it
        forms = forms_of(model)
        if forms is not None:
            name = options.name or model.name
            check_answerable(name, forms, task, surveyed, missing=model.missing_parts)
    if options.restart and (launch is None or launch.leads):
        set_aside(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    evaluation = _Evaluation(
        task=task,
        model=model,
        folder=folder,
        options=options,
        task_spec=task_spec,
        model_spec=model_spec,
        progress=progress,
        selection=selection,
        survey=surveyed,
        stored=stored,
        launch=launch,
    )
    if launch is not None and not launch.leads:
        return evaluation.help_out(launch)
    try:
        with lease(folder):
            return evaluation.run()
    except UnsupportedAnswerForm:  # of a model that workers built: nothing is left of the run
        with suppress(OSError):
            (folder / ".lock").unlink()
            folder.rmdir()
        raise


@dataclass(kw_only=True)
class _Evaluation:
    """One call of `evaluate` with a checked benchmark."""

    task: Task
    model: Spec | Model
    folder: Path
    options: Options
    task_spec: str
    model_spec: str
    progress: Progress
    selection: Selection
    survey: Survey
    stored: StoredQueries | None = None
    """Queries that an earlier attempt stored; None: they are read from the benchmark."""
    launch: ProcessRank | None = None
    _stopped: bool = False
    """True: the run ends unfinished, by `until`, a share or the budget."""
    _piloted: PilotedRun = field(init=False)
    _stages: dict[str, Stage] = field(default_factory=dict)

    def run(self) -> Run:
        """Predict what is missing, score, and return the run, finished unless `_stopped`."""
        journal = self._repaired_journal()
        was_finished = (self.folder / RESULTS).exists()
        started = perf_counter()
        workers = start_workers(
            self.model,
            self.folder,
            self.options,
            attempt=journal.next_attempt,
            samples=self.survey.n_total,
            note=self.progress.note,
            rank=self.launch,
        )
        try:
            manifest = self._manifest(workers.info)
            refuse_unpriced(self.options.budget, manifest["model"])
            self._report_start(manifest, workers.info)
            renewed = begin_or_resume(
                self.folder,
                manifest,
                self.progress,
                accept_code=self.options.accept_code,
                predicts=not all(
                    is_done(position, retry_failed=self.options.retry_failed)
                    for position in journal.places.values()
                ),
            )
            if self.stored is None:
                self._write_contents(journal)
                self._store_queries()
            journal.check(manifest["config_hash"])
            scorer, predicted = self._predict(journal, workers, manifest)
        finally:
            workers.close()
        if was_finished and predicted == 0:
            self.progress.note("finished earlier: nothing was predicted; --restart predicts anew")
        losses = (
            None
            if self._stopped
            else too_many_lost(
                self.folder,
                journal,
                total=self.survey.n_total,
                limit=self.options.infrastructure_limit,
            )
        )
        if not self._stopped and losses is None:
            write_results(
                self.task,
                self.selection.samples(self.task),
                self.folder,
                scorer,
                manifest,
                total=self.survey.n_total,
                is_repeat=predicted == 0,
                rescore=self.options.rescore,
                renewed=renewed,
                progress=self.progress,
            )
            forget(self.folder / QUERIES)
        shares = add_attempt(
            self.folder,
            seconds=perf_counter() - started,
            samples=predicted,
            workers=self.options.workers,
            stages=self._stages,
            code=manifest["provenance"],
            shard=self.options.shard,
            finished=not self._stopped and losses is None,
        )
        if shares is not None:
            self.progress.note(shares)
        self.progress.end()
        if (ends := losses or self._piloted.end()) is not None:
            raise ends
        return Run.open(self.folder)

    def help_out(self, launch: ProcessRank) -> Run:
        """Predict the share of a process that does not lead.

        Raises:
            StoreError: the leader does not start, or has another configuration.
        """
        model = ready_model(self.model, self.options.seed)
        answer = rendezvous(launch, self.folder)
        greeting = worker_info(model)
        manifest = self._manifest(greeting)
        if answer["run"] is not None:
            if answer["run"] != manifest["config_hash"]:
                raise StoreError(
                    f"process {launch.rank} of {launch.size}",
                    expected="the leader's task and model",
                    found="another",
                    fix="All processes need the same command and data, and the same kind of GPU.",
                )
            plan = self._plan(manifest, greeting)
            todo = plan.remaining(dict(Journal(self.folder).places))
            share(launch, model, self.folder, attempt=answer["attempt"], batches=todo)
        return Run(self.folder)

    def _report_start(self, manifest: dict[str, Any], info: WorkerInfo) -> None:
        """Note the samples that cannot be answered, and the run's deviations from its paper.

        Raises:
            UnsupportedAnswerForm: no sample can be answered.
        """
        name, missing = manifest["model"]["name"], info.missing_parts
        lost = check_answerable(name, info.forms, self.task, self.survey, missing=missing)
        if lost:
            self.progress.note(lost)
        if differs := [Deviation(**entry) for entry in manifest["deviations"]]:
            model = manifest["model"]
            self.progress.note(sentence(model["name"], model["spec"], self.task.name, differs))

    def _repaired_journal(self) -> Journal:
        """Open the journal, and move damaged files aside, whose samples are predicted again."""
        if (self.folder / MANIFEST).exists():
            Run.open(self.folder)  # raises for another version, whose lines are not damaged
        journal = Journal(self.folder)
        for done in journal.repair():
            self.progress.note(f"moved aside: {done}; its samples are predicted again")
        return journal

    def _write_contents(self, journal: Journal) -> None:
        """Write or compare the hashes of media; see `write_contents`."""
        note = write_contents(
            self.folder,
            self.task,
            self.selection,
            self.options.data_root,
            journal.places,
            retry_failed=self.options.retry_failed,
            shard=self.options.shard,
        )
        if note is not None:
            self.progress.note(note)

    def _store_queries(self) -> None:
        """Store the queries for resumption, if one process makes the whole run."""
        options = self.options
        is_whole = options.until is None and options.shard is None and self.launch is None
        if is_whole and not (self.folder / RESULTS).exists():
            store_queries(self.folder, self.task, self.selection, self.survey, options.data_root)

    def _check_benchmark(self, journal: Journal) -> None:
        """Read and check the benchmark of a run that used stored queries, before it is scored.

        Raises:
            ResumeMismatch: the benchmark has changed since the queries were stored.
        """
        self.selection, now = check_benchmark(self.task, self.options, self.progress)
        refuse_change(self.survey, now, self.task, self.folder)
        self._write_contents(journal)

    def _manifest(self, info: WorkerInfo) -> dict[str, Any]:
        """Return the manifest of the run, with what a worker says of its model."""
        task, options = self.task, self.options
        spec = str(self.model) if isinstance(self.model, Spec) else self.model_spec
        return manifest_of(
            task,
            task_spec=self.task_spec,
            subset=self.selection.name,
            survey=self.survey,
            model={
                "spec": spec or info.name,
                "name": options.name or info.name,
                "description": dict(info.description),
            },
            seed=options.seed,
            batch_size=options.batch_size or info.batch_size,
            sort=info.sort,
            device=info.device,
            data_root=options.data_root,
            plugins=info.plugins,
            shuffle=options.until is not None,
            infrastructure_limit=options.infrastructure_limit,
        )

    def _predict(
        self, journal: Journal, workers: Workers, manifest: dict[str, Any]
    ) -> tuple[Scorer, int]:
        """Predict the unfinished samples, and score units as they are completed.

        Returns:
            The scorer, and the number of samples that were predicted now.
        """
        plan = self._plan(manifest, workers.info)
        hidden = self.task.submission is not None
        samples = partial(self.selection.samples, self.task)
        scorer = RunningScorer(self.task, samples, note=self.progress.note)
        before = dict(journal.places)
        watched = Scorer(self.task, self._in_plan_order)  # for `options.until`
        redone = plan.redone(before)
        if redone:
            # Results must not stay beside predictions from which they were not computed.
            for name in (RESULTS, SCORES, CHECKSUMS):
                forget(self.folder / name)
        ready = set(before) - redone  # ids of queries whose predictions are final

        def lookup(query: str) -> Prediction | None:
            if hidden or query not in ready:
                return None
            return stored_prediction(journal.record(query), self.folder)

        self._piloted = PilotedRun(
            task=self.task,
            folder=self.folder,
            options=self.options,
            info=workers.info,
            manifest=manifest,
            journal=journal,
            samples=samples,
            lookup=lookup,
            stages=lambda: self._stages,
            note=self.progress.note,
        )
        self.progress.start(self.task.name, self.survey.n_total, len(ready))
        if self._is_decided(watched, lookup):
            return scorer, 0
        crashes, last_shown, failed = 0, 0.0, 0
        headline: float | None = None
        for outcome in self._piloted.outcomes(workers, plan):
            if outcome.is_whole_batch:
                self._stages = sum_stages([self._stages, outcome.stages])
            if not (new := set(outcome.samples) - ready):
                continue
            crashes = self._count_crashes(outcome, crashes)
            ready |= new
            journal.refresh()
            scorer.advance(lookup, limit=MAX_CAUGHT_UP * len(new))
            is_due = perf_counter() - last_shown > SCORE_SECONDS
            if is_due or len(ready) == self.survey.n_total:
                failed = scorer.unanswered(journal.places)
                headline = scorer.headline() if scorer.done else headline
                last_shown = perf_counter()
            self.progress.advance(len(new), failed, headline)
            self._piloted.finished(new, outcome.ended)
            self._stopped = self._piloted.is_over
            if self._stopped or self._is_decided(watched, lookup):
                return scorer, len(ready) - len(before)
        workers.close()
        if len(ready) < self.survey.n_total:
            self._stopped = self.options.shard is not None or self._piloted.end() is not None
            if self._stopped:
                return scorer, len(ready) - len(before)
            raise StoreError(
                f"run {self.folder}",
                expected=f"{self.survey.n_total} predictions",
                found=str(len(ready)),
                fix="Run the same command again.",
            )
        if self.stored is not None:
            self._check_benchmark(journal)
        shown_units = len(scorer.done)
        scorer.advance(lookup)
        if scorer.error is not None:
            raise scorer.error
        if len(scorer.done) > shown_units:
            self.progress.advance(0, scorer.unanswered(journal.places), scorer.headline())
        return scorer, len(redone)

    def _is_decided(self, watched: Scorer, lookup: Callable[[str], Prediction | None]) -> bool:
        """Return True if `options.until` ends the run here, unfinished."""
        if self.options.until is not None:
            watched.advance(lookup)
            self._stopped = self.options.until(watched.done)
        return self._stopped

    def _plan(self, manifest: dict[str, Any], info: WorkerInfo) -> BatchPlan:
        return BatchPlan(
            samples=self._in_plan_order,
            stored=self.stored,
            size=manifest["batch_size"],
            sort=manifest["sorted"],
            run=manifest["config_hash"],
            retry_failed=self.options.retry_failed,
            by_sample=info.by_sample,
        )

    def _in_plan_order(self) -> Iterable[Sample]:
        samples = self.selection.samples(self.task)
        return samples if self.options.until is None else shuffled(samples, self.options.seed)

    def _count_crashes(self, outcome: Outcome, crashes: int) -> int:
        """Return the new number of crashes in a row; raise ModelError at `CRASHES_IN_A_ROW`."""
        crashes = crashes + outcome.crashed if outcome.crashed == len(outcome.samples) else 0
        if crashes >= CRASHES_IN_A_ROW:
            last = Run(self.folder).journal.record(outcome.samples[-1])
            raise ModelError(
                f"the model raised on {crashes} samples in a row, the last time "
                f"{last['prediction']['failure'][1]!r}. Correct it and run again with "
                "--retry-failed --accept-code"
            )
        return crashes
