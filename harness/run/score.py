"""Score predictions that exist already: a file from elsewhere, or the journal of a run."""

import hashlib
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import DataError, StoreError
from harness.files import content_hash
from harness.foreign import refuse_foreign
from harness.foreign_lines import by_number, command, print_ids, renamed
from harness.formats import Matched, read_format
from harness.formats.agreement import Agreement
from harness.formats.mask_order import check_order
from harness.formats.units import MaskCount, check_units
from harness.interchange import AS_DOCUMENTED, Row, Written, stored_prediction
from harness.interchange import row_to_prediction as read_row
from harness.model import RecordedReader
from harness.papers import Deviation, deviations
from harness.provenance import device_of
from harness.record import MANIFEST, RESULTS, SCORES, Run, changed_numbers, finish
from harness.run.batching import Batch, Selection, samples_of, select, units
from harness.run.judging import TaskSource
from harness.run.manifest import manifest_of
from harness.run.parallel import score_journal
from harness.run.predict import begin, records
from harness.run.preflight import read_once, survey
from harness.run.scoring import Scorer
from harness.store.atomic import writing
from harness.store.checksums import CHECKSUMS, changed_files
from harness.store.journal import Writer, files
from harness.store.lease import lease
from harness.task import Task
from harness.types import Failure, FailureKind, Prediction, Sample

Tree: TypeAlias = Callable[..., Iterator[Prediction]]
"""Maps a folder, samples and `allow_extra` to the prediction for each sample."""
MAX_DIGITS = 10  # of an id that is the number of a sample
SHOWN = 3  # entries of no sample that are named
EXTRA = "Check the split, or pass --allow-extra to ignore such lines."
OTHERS = "No line is about a sample: check the split. {} prints the ids in their order."
PREDICTIONS = "predictions"
"""Kind of model of predictions from elsewhere; their name is the method, wherever they lie."""


@dataclass
class Unread:
    """Responses without an answer, where none of a file's has one."""

    first: str = ""
    """Message of the first failure to read a response."""
    answers: int = 0

    def add(self, predictions: Iterable[Prediction]) -> None:
        """Look at a unit's predictions."""
        for prediction in predictions:
            self.answers += prediction.failure is None
            if prediction.failure and prediction.failure.kind is FailureKind.PARSE:
                self.first = self.first or prediction.failure.message

    def notes(self) -> tuple[str, ...]:
        """Return why no response was read, by the first one."""
        unread = self.first and not self.answers
        return (f"no response is read; of the first: {self.first}",) if unread else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Predictions from elsewhere, and the settings that they are read with."""

    path: Path
    name: str
    """The name under which a board shows them."""
    reader: RecordedReader | None = None
    reader_spec: str = ""
    subset: str | None = None
    seed: int = 0
    allow_extra: bool = False
    """Accept ids that the task does not have, instead of refusing the file."""
    allow_missing: bool = False
    """Go on where images are missing: answers in words about them are scored all the same."""
    data_root: str = ""
    format: str = "jsonl"
    """Name of the file's format in `harness.formats`, or name of the format that `tree` reads."""
    written: Written | None = None
    """Meaning of the file's numbers, if its author states it; None: as documented, and checked."""
    threshold: float | None = None
    """Probability above which a pixel is foreground, for the record; None: the format has none."""
    tree: Tree | None = None
    """Reads a folder of predictions; None: it is a file of `format`."""
    run: Run | None = None
    """The run whose responses are read again by `reader`; its folder is `path`."""
    note: Callable[[str], None] = lambda _: None
    """Told what was accepted in the file that is not as it should be, with its number."""

    def deviations(self, task: Task) -> list[Deviation]:
        """Return deviations of the reader from the paper of its method; none without a reader."""
        if self.reader is None:
            return []
        return deviations(self.reader_spec, self.reader.describe(), task.forms, task.name)


def score_file(
    task: Task, submission: Submission, *, folder: Path | None, task_spec: str = ""
) -> dict[str, object]:
    """Score a predictions file; a sample without a line is a failed sample.

    Args:
        task: The task to score.
        submission: The file, and the settings that it is read with.
        folder: Run folder to write, which boards can use; None: none is written.
        task_spec: The task's SPEC as typed, for the record.

    Returns:
        The content of results.json.

    Raises:
        DataError: a line is malformed, its id is not one of the task's, or there is no line.
    """
    folder_wanted = submission.tree is not None or submission.run is not None
    there = submission.path.is_dir() if folder_wanted else submission.path.is_file()
    if not there:
        # It is read twice, and hashed: a pipe would be empty the second time.
        folder_found = submission.path.is_dir()
        kind = "a folder" if folder_found else "something else"
        expected = "a folder" if folder_wanted else "a file"
        refuse_foreign(submission.path, DataError, f"predictions {submission.path}", expected)
        raise DataError(
            f"predictions {submission.path}",
            found=kind if submission.path.exists() else "none",
            expected=expected,
            fix="Masks in a folder need --format mask-tree, png-tree or label-tree; other files "
            "have to be joined into one of JSON lines, or of COCO's results."
            if folder_found
            else "",
        )
    task = read_once(task)
    selection = (
        select(task, submission.subset)
        if submission.run is None
        else _selection(task, submission.run)
    )
    samples = partial(selection.samples, task)
    matched = None if folder_wanted else _match_rows(task, submission, samples, task_spec)
    manifest = _manifest(task, submission, selection, task_spec, matched)
    scorer = Scorer(task, samples)

    def score_into(journal: Writer | None) -> dict[str, object]:
        # Unit by unit: the masks of a whole file would take gigabytes.
        scored = _units_with_predictions(submission, samples, matched)
        covered, agreement, unread = MaskCount(), Agreement(), Unread()
        for number, (unit, predictions) in enumerate(scored):
            scorer.add(unit, predictions)
            covered.add(predictions)
            unread.add(predictions)
            agreement.add(unit, predictions)
            if journal is not None:
                queries = tuple(sample.query for sample in unit)
                batch = Batch(number, queries, manifest["config_hash"])
                journal.append([begin(batch), *records(batch, predictions)])
        doubts = agreement.notes(
            f"predictions {submission.path}",
            submission.path.name,
            sizes=submission.format == "coco",
            stated=submission.written is not None,
        )
        for text in chain(covered.notes(), unread.notes(), doubts):
            submission.note(f"{submission.path}: {text}")
        return scorer.results(manifest)

    if folder is None:
        return score_into(None)
    with _run_folder(folder) as journal:
        with journal:
            results = score_into(journal)
        finish(folder, scorer.done, results, manifest=manifest)
    return results


def _match_rows(
    task: Task, submission: Submission, samples: Callable[[], Iterator[Sample]], task_spec: str
) -> Matched:
    """Match a file's rows to samples; raise DataError if it is empty or of another benchmark."""
    known_ids = {sample.id for sample in samples()}
    matched = read_format(
        submission.format,
        submission.path,
        samples_of(task),
        known_ids,
        threshold=submission.threshold,
        written=submission.written or AS_DOCUMENTED,
    )
    if not matched.rows and not matched.unmatched:
        raise DataError(
            f"predictions {submission.path}", expected="at least one line", found="none"
        )
    of_samples = known_ids & matched.rows.keys()
    if matched.unmatched and not (submission.allow_extra and of_samples):
        shown, spec = "; ".join(matched.unmatched[:SHOWN]), task_spec or task.name
        from_one = "0" in known_ids and "0" not in matched.rows and len(matched.unmatched) == 1
        raise DataError(
            f"predictions {submission.path}",
            expected=f"ids of {task.name}, split {task.split}"
            + (f", subset {submission.subset}" if submission.subset else ""),
            found=f"{len(matched.unmatched)} others, such as {shown}",
            fix="No id is 0: if your ids start at 1, subtract 1 from each."
            if from_one
            else _rename(matched, known_ids, submission)
            or _by_number(matched, known_ids, spec, submission)
            or (EXTRA if of_samples else OTHERS.format(print_ids(spec, submission.data_root))),
        )
    thing, is_stated = f"predictions {submission.path}", submission.written is not None
    notes = check_units(
        matched.rows,
        samples(),
        thing,
        sizes=submission.format == "coco",
        stated=is_stated,
        lines=submission.format == "jsonl",
    )
    if not is_stated:
        notes += check_order(matched.rows, samples(), thing)
    if matched.unmatched:
        notes = (*notes, f"{len(matched.unmatched)} entries of no sample, left out")
    matched = replace(matched, notes=(*matched.notes, *notes))
    for text in matched.notes:
        submission.note(f"{submission.path}: {text}")
    return matched


def _rename(matched: Matched, known: set[str], submission: Submission) -> str:
    """Return what to type where ids of lines are those of samples as names of files."""
    key = {"jsonl": ".id", "coco": ".[].image_id"}.get(submission.format)
    if submission.format == "coco":  # whose records name images, not questions about categories
        known = {*known, *(name.rpartition("/")[0] for name in known)}
    program = renamed(matched.unknown, known) if key else None
    if key is None or program is None:
        return ""
    conversion = command(f"{key} |= ({program})", submission.path.name)
    return f"Without a file name's folders, suffix or zeros they are ids: {conversion}."


def _by_number(matched: Matched, known: set[str], task: str, submission: Submission) -> str:
    """Return what to type where no line's id is a sample's, and all are numbers of samples."""
    are_numbers = all(
        name not in known and name.isdecimal() and len(name) < MAX_DIGITS and int(name) < len(known)
        for name in matched.rows
    )
    if submission.format != "jsonl" or not are_numbers:
        return ""
    conversion = by_number(task, submission.data_root, submission.path.name)
    return f"If they number the samples from 0, {conversion} makes ids of them."


def _units_with_predictions(
    submission: Submission, samples: Callable[[], Iterator[Sample]], matched: Matched | None
) -> Iterator[tuple[Sequence[Sample], Sequence[Prediction]]]:
    """Yield each unit, and the predictions for its samples."""
    if matched is not None:
        for unit in units(samples()):
            yield (
                unit,
                [_prediction(sample, matched.rows.get(sample.id), submission) for sample in unit],
            )
        return
    if submission.run is not None:
        for unit in units(samples()):
            yield unit, [_read_again(sample, submission.run, submission.reader) for sample in unit]
        return
    assert submission.tree is not None, "nothing was matched: it is a folder"
    requested, scored = tee(samples())
    predictions = submission.tree(submission.path, requested, allow_extra=submission.allow_extra)
    for unit in units(scored):
        yield unit, list(islice(predictions, len(unit)))
    deque(predictions, maxlen=0)  # to its end, where it looks for what is of no sample


def _read_again(sample: Sample, run: Run, reader: RecordedReader | None) -> Prediction:
    """Read a record's responses with another reader; a prediction without any stands as it is."""
    recorded = run.prediction(sample.id)
    if not recorded.responses or reader is None:
        return recorded
    read = reader.read(sample.query, recorded.responses, recorded.calls)
    cut = {entry.form for entry in recorded.parsed if entry.cut}
    parsed = tuple(replace(entry, cut=entry.form in cut) for entry in read.parsed)
    return replace(read, calls=recorded.calls, parsed=parsed, usage=recorded.usage)


def _prediction(sample: Sample, row: Row | None, submission: Submission) -> Prediction:
    if row is None:
        message = f"no line for this sample in {submission.path.name}"
        return Prediction(
            query_id=sample.query.id, failure=Failure(FailureKind.INFRASTRUCTURE, message)
        )
    return read_row(row, sample.query, submission.reader)


def _manifest(
    task: Task,
    submission: Submission,
    selection: Selection,
    task_spec: str,
    matched: Matched | None,
) -> dict[str, Any]:
    described: dict[str, object] = {
        "predictions": submission.path.name,
        "content": _content(submission.path),
        "reader": submission.reader_spec or None,
    }
    if submission.run is not None:
        described["model"] = submission.run.manifest["model"]["spec"]
    if submission.written is not None:
        described["written"] = asdict(submission.written)
    if submission.threshold is not None:
        described["threshold"] = submission.threshold
    if submission.format != "jsonl":
        described["format"] = submission.format
        if matched is not None:
            described |= {
                "matched": len(matched.rows),
                "unmatched": list(matched.unmatched),
                "repeated": list(matched.repeated),
                "notes": list(matched.notes),
            }
    elif matched is not None and matched.notes:
        described["notes"] = list(matched.notes)
    manifest = manifest_of(
        task,
        task_spec=task_spec,
        subset=selection.name,
        survey=survey(task, selection, allow_missing=submission.allow_missing),
        model={
            "spec": f"{PREDICTIONS}({submission.name})",
            "name": submission.name,
            "description": described,
        },
        seed=submission.seed,
        batch_size=None,
        sort=False,
        device=device_of(() if submission.reader is None else submission.reader.devices),
        data_root=submission.data_root,
    )
    return {
        **manifest,
        "deviations": [asdict(deviation) for deviation in submission.deviations(task)],
    }


def _content(path: Path) -> str:
    """Return a hash of a file, of a run's journal, or of all files in a folder with their names."""
    if path.is_file():
        return content_hash(path).hex()
    whole = hashlib.blake2b(digest_size=16)
    inside = files(path) if (path / MANIFEST).is_file() else path.rglob("*")
    for file in sorted(file for file in inside if file.is_file()):
        whole.update(f"{file.relative_to(path)}\0{content_hash(file).hex()}\n".encode())
    return whole.hexdigest()


@contextmanager
def _run_folder(folder: Path) -> Iterator[Writer]:
    """Open the journal of a new run folder, which has no manifest yet.

    Files of an earlier call that was killed before its manifest are deleted: they may be of another
    file. If the block fails, all that it wrote is deleted, and the folder too if nothing else is in
    it.
    """
    if (folder / MANIFEST).exists():
        raise StoreError(
            f"run folder {folder}",
            expected="a new folder",
            found="a run",
            fix="Choose another --out or --name.",
        )
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    journal: Writer | None = None
    try:
        with lease(folder):
            _clear(folder)
            journal = Writer(folder, 0, 1)
            yield journal
    except BaseException:
        if journal is not None and not (folder / MANIFEST).exists():
            _clear(folder)
        if [path.name for path in folder.iterdir()] == [".lock"]:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _clear(folder: Path) -> None:
    """Delete what a run without a manifest left in a folder, and no other file."""
    journals = [*files(folder)]
    for path in [*journals, *(folder / name for name in (RESULTS, SCORES, CHECKSUMS) if journals)]:
        path.unlink(missing_ok=True)


def rescore(
    source: TaskSource, run: Run, *, processes: int = 1
) -> tuple[dict[str, object], list[str]]:
    """Score a run again from its journal, without the model.

    Returns:
        The new results, and their differences from the stored ones, one a line.
    """
    task = read_once(source.build())
    selection = _selection(task, run)
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
    return results, outcome + changed_numbers(run.results, results)


def _selection(task: Task, run: Run) -> Selection:
    """Select a run's samples of a task, if the task's data is the run's.

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
        )
    return selection


def selected(task: Task, run: Run) -> Iterator[Sequence[Sample]]:
    """Return the units that a run was made on; raise as `rescore` does."""
    return units(_selection(task, run).samples(task))
