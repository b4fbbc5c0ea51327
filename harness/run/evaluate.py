"""`evaluate`: a task and a model in, a finished run folder out, however often it is killed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.errors import (
    HarnessError,
    ModelError,
    ResumeMismatch,
    StoreError,
    UnsupportedAnswerForm,
)
from harness.interchange.journal_form import stored_prediction
from harness.model import Model
from harness.papers import Deviation, sentence
from harness.record import MANIFEST, RESULTS, SCORES, Run
from harness.run.answerable import check_answerable
from harness.run.batching import (
    Batch,
    Selection,
    batches,
    is_done,
    remaining_batches,
    select,
    shortage,
    shuffled,
    window_size,
)
from harness.run.contents import write_contents
from harness.run.distributed import ProcessRank, rendezvous, share
from harness.run.manifest import begin_or_resume, manifest_of, set_aside
from harness.run.options import NullProgress, Options, Progress
from harness.run.predict import Outcome
from harness.run.preflight import Survey, conversion_text, odd_text, preflight, read_once, survey
from harness.run.results import too_many_lost, write_results
from harness.run.scoring import Scorer
from harness.run.start_workers import ready_model, start_workers
from harness.run.stored_queries import QUERIES, StoredQueries, store_queries, stored_queries
from harness.run.timing import Stage, add_attempt, sum_stages
from harness.run.workers import WorkerInfo, Workers, forms_of, worker_info
from harness.spec import Spec
from harness.store.atomic import forget, writing
from harness.store.checksums import CHECKSUMS
from harness.store.journal import Journal, JournalPosition
from harness.store.lease import lease
from harness.task import Task
from harness.types import Prediction, Query, Sample

CRASHES_IN_A_ROW = 20
CAUGHT_UP = 2
"""Units that are scored for each new sample, at most, so that a resumed run asks at once."""
SHOWN_EVERY = 1.0  # seconds between running scores, which cost a pass over all units


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
    """Predict and score every sample that `options.subset` names; resume what is there.

    Args:
        task: The task to score.
        model: A SPEC, which worker processes build for themselves, or a ready model, which runs
            in this process.
        folder: The run folder; made if it is not there.
        options: See `Options`.
        task_spec: The task's SPEC as typed, for the record.
        model_spec: The SPEC of a ready model as typed, for the record.
        progress: Receives the run's progress.
        launch: This process's place among those of a launcher. All but the first return when
            they have done their share, maybe before the run has its scores.

    Raises:
        DataError: files of the benchmark are missing or damaged (all are listed).
        ResumeMismatch: the folder holds a run of another configuration.
        UnsupportedAnswerForm: the model supports the answer form of no sample.
        Locked: another process runs in this folder.
        ModelError: the model cannot be loaded, or failed many times in a row.
        Unavailable: too many samples were lost to the infrastructure: there is no score.
    """
    progress = progress or NullProgress()
    stored = stored_queries(folder, task, options) if launch is None else None
    task = read_once(task)
    if stored is not None:
        selection, surveyed = stored.selection, stored.survey
    else:
        selection, surveyed = _checked(task, options, progress)
    if short := shortage(selection.name, surveyed.n_total):
        progress.note(f"{task.name}: {short}")
    if converted := conversion_text(surveyed.conversions):
        progress.note(f"{task.name}: {converted}")
    if surveyed.odd:
        progress.note(f"{task.name}: {odd_text(surveyed.odd)}")
    if not isinstance(model, Spec) and (forms := forms_of(model)) is not None:
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


def _checked(task: Task, options: Options, progress: Progress) -> tuple[Selection, Survey]:
    """Check the benchmark's files, unless that was done, and count and hash the run's samples."""
    preflight(task, progress, allow_missing=options.allow_missing)
    selection = select(task, options.subset)
    # A file for the organisers' server needs all images: there is none without their size.
    allow_missing = options.allow_missing and not task.submission
    return selection, survey(task, selection, allow_missing=allow_missing)


@dataclass(kw_only=True)
class _Evaluation:
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
    """The queries, where the benchmark was not read for them."""
    launch: ProcessRank | None = None
    _by_sample: bool = False
    _stopped: bool = False
    _scoring_error: HarnessError | None = None
    _stages: dict[str, Stage] = field(default_factory=dict)

    def run(self) -> Run:
        journal = self._repaired_journal()
        started = perf_counter()
        workers = start_workers(
            self.model,
            self.folder,
            self.options,
            attempt=journal.next_attempt,
            samples=self.survey.n_total,
            note=self.progress.note,
            launch=self.launch,
        )
        try:
            manifest = self._manifest(workers.info)
            self._by_sample = workers.info.by_sample
            self._report_start(manifest, workers.info)
            renewed = begin_or_resume(self.folder, manifest, self.progress)
            if self.stored is None:
                self._write_contents(journal)
                self._store_queries()
            journal.check(manifest["config_hash"])
            scorer, predicted = self._predict(journal, workers, manifest)
        finally:
            workers.close()
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
        if losses is not None:
            raise losses
        return Run.open(self.folder)

    def help_out(self, launch: ProcessRank) -> Run:
        """Predict the share of a process that does not lead.

        Raises:
            StoreError: the leader does not begin, or runs another configuration.
        """
        model = ready_model(self.model, self.options.seed)
        answer = rendezvous(launch, self.folder)
        greeting = worker_info(model)
        manifest, self._by_sample = self._manifest(greeting), greeting.by_sample
        if answer["run"] is not None:
            if answer["run"] != manifest["config_hash"]:
                raise StoreError(
                    f"process {launch.rank} of {launch.size}",
                    expected="the leader's task and model",
                    found="another",
                    fix="All processes need the same command and data, and the same kind of GPU.",
                )
            todo = self._remaining_batches(dict(Journal(self.folder).places), manifest)
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
        if (self.folder / MANIFEST).exists():
            Run.open(self.folder)  # lines of another version are not damaged ones
        journal = Journal(self.folder)
        for done in journal.repair():
            self.progress.note(f"quarantined: {done}; its samples are predicted again")
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
        """Store the queries for a resumption, where the run is one process's and not finished."""
        options = self.options
        whole = options.until is None and options.shard is None and self.launch is None
        if whole and not (self.folder / RESULTS).exists():
            store_queries(self.folder, self.task, self.selection, self.survey, options.data_root)

    def _check_benchmark(self, journal: Journal) -> None:
        """Read and check the whole benchmark, of which the run has seen the stored queries.

        Raises:
            ResumeMismatch: the stored queries are not those of the benchmark as it is now.
        """
        self.selection, now = _checked(self.task, self.options, self.progress)
        if now != self.survey:
            changed = [
                item.name
                for item in fields(now)
                if getattr(now, item.name) != getattr(self.survey, item.name)
            ]
            raise ResumeMismatch(
                f"the benchmark of run {self.folder} has changed since the run began, in "
                f"{', '.join(changed)}: {', '.join(map(str, self.task.annotations[:1]))}. Put the "
                "data back, or pass --restart to set the old run aside and begin anew"
            )
        self._write_contents(journal)

    def _manifest(self, info: WorkerInfo) -> dict[str, Any]:
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
            shuffle=options.until is not None,
            infrastructure_limit=options.infrastructure_limit,
        )

    def _predict(
        self, journal: Journal, workers: Workers, manifest: dict[str, object]
    ) -> tuple[Scorer, int]:
        hidden = self.task.submission is not None
        scorer = Scorer(self.task, partial(self.selection.samples, self.task))
        before = dict(journal.places)
        watched = Scorer(self.task, self._in_plan_order)
        redone = self._redone(before, manifest)
        if redone:
            # Numbers must never stand beside predictions that they were not computed from.
            for name in (RESULTS, SCORES, CHECKSUMS):
                forget(self.folder / name)
        ready = set(before) - redone

        def lookup(query: str) -> Prediction | None:
            if hidden or query not in ready:
                return None
            return stored_prediction(journal.record(query), self.folder)

        self.progress.start(self.task.name, self.survey.n_total, len(ready))
        if self._is_decided(watched, lookup):
            return scorer, 0
        in_a_row, shown, failed = 0, 0.0, 0
        headline: float | None = None
        part, parts = self.options.shard or (1, 1)
        plan = self._remaining_batches(before, manifest)
        for outcome in workers.run(batch for batch in plan if batch.index % parts == part - 1):
            if outcome.whole:
                self._stages = sum_stages([self._stages, outcome.stages])
            if not (new := set(outcome.samples) - ready):
                continue
            in_a_row = self._watch(outcome, in_a_row)
            ready |= new
            journal.refresh()
            self._score(scorer, lookup, limit=CAUGHT_UP * len(new))
            late = perf_counter() - shown > SHOWN_EVERY or len(ready) == self.survey.n_total
            if late:
                failed = self._failed(scorer, journal)
                headline = scorer.headline() if scorer.done else headline
                shown = perf_counter()
            self.progress.advance(len(new), failed, headline)
            if self._is_decided(watched, lookup):
                return scorer, len(ready) - len(before)
        if self.options.shard is not None and len(ready) < self.survey.n_total:
            self._stopped = True
            return scorer, len(ready) - len(before)
        if len(ready) < self.survey.n_total:
            raise StoreError(
                f"run {self.folder}",
                expected=f"{self.survey.n_total} predictions",
                found=str(len(ready)),
                fix="Run the same command again.",
            )
        if self.stored is not None:
            self._check_benchmark(journal)
        shown_units = len(scorer.done)
        self._score(scorer, lookup)
        if self._scoring_error is not None:
            raise self._scoring_error
        if len(scorer.done) > shown_units:
            self.progress.advance(0, self._failed(scorer, journal), scorer.headline())
        return scorer, len(redone)

    def _failed(self, scorer: Scorer, journal: Journal) -> int:
        """Return the number of samples without an answer so far, counted as the results do.

        Where the protocol reads responses itself, it is known of scored units alone; else the
        model's parser decides at once.
        """
        if self.task.protocol.reads is not None and self.task.submission is None:
            return scorer.counted.failures.total()
        return sum(place.failure is not None for place in journal.places.values())

    def _redone(self, places: Mapping[str, JournalPosition], manifest: dict[str, Any]) -> set[str]:
        """Return the ids of the queries in batches that have unfinished samples."""
        if self.stored is None or (manifest["sorted"] and not self._by_sample):
            left = self._remaining_batches(places, manifest)
            return {query.id for batch in left for query in batch.queries}
        ids, size = self.stored.ids, 1 if self._by_sample else manifest["batch_size"]
        plan = (ids[start : start + size] for start in range(0, len(ids), size))
        return {
            query
            for batch in plan
            if not all(self._is_done(places.get(query)) for query in batch)
            for query in batch
        }

    def _is_done(self, place: JournalPosition | None) -> bool:
        return is_done(place, retry_failed=self.options.retry_failed)

    def _score(
        self,
        scorer: Scorer,
        lookup: Callable[[str], Prediction | None],
        limit: int | None = None,
    ) -> None:
        """Score complete units; an error of the scorer is kept until all predictions are made."""
        if self._scoring_error is not None:
            return
        try:
            scorer.advance(lookup, limit)
        except HarnessError as error:
            self._scoring_error = error
            self.progress.note(f"scoring failed, predictions go on: {error}")

    def _is_decided(self, watched: Scorer, lookup: Callable[[str], Prediction | None]) -> bool:
        """Return True if the run ends here, unfinished, because `options.until` says so."""
        if self.options.until is not None:
            watched.advance(lookup)
            self._stopped = self.options.until(watched.done)
        return self._stopped

    def _in_plan_order(self) -> Iterable[Sample]:
        samples = self.selection.samples(self.task)
        return samples if self.options.until is None else shuffled(samples, self.options.seed)

    def _remaining_batches(
        self, places: Mapping[str, JournalPosition], manifest: dict[str, Any]
    ) -> Iterator[Batch]:
        """Yield the batches of the plan that have unfinished samples; see `remaining_batches`."""
        size, sort = manifest["batch_size"], manifest["sorted"]
        queries: Iterable[Query] = (sample.query for sample in self._in_plan_order())
        first = 0
        if self.stored is not None:
            done = takewhile(lambda query: self._is_done(places.get(query)), self.stored.ids)
            first = sum(1 for _ in done) // window_size(size, sort=sort)
            first *= window_size(1, sort=sort)
            queries = self.stored.since(first * size)
        return remaining_batches(
            batches(queries, size=size, sort=sort, run=manifest["config_hash"], first=first),
            places,
            retry_failed=self.options.retry_failed,
            by_sample=self._by_sample,
        )

    def _watch(self, outcome: Outcome, in_a_row: int) -> int:
        """Return the new number of crashes in a row; raise ModelError at `CRASHES_IN_A_ROW`."""
        in_a_row = in_a_row + outcome.crashed if outcome.crashed == len(outcome.samples) else 0
        if in_a_row >= CRASHES_IN_A_ROW:
            last = Run(self.folder).journal.record(outcome.samples[-1])
            raise ModelError(
                f"the model raised on {in_a_row} samples in a row, the last time "
                f"{last['prediction']['failure'][1]!r}. Mend it and run again with --retry-failed"
            )
        return in_a_row
