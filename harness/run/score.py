"""Score predictions of another program (`harness score`), and write a run folder if requested.

`score_file` gets a task and a `Submission` and returns the content of results.json.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import DataError, StoreError, counted
from harness.files import content_hash
from harness.foreign import refuse_foreign
from harness.foreign_lines import of_boxes
from harness.formats import Matched
from harness.formats.agreement import Agreement
from harness.formats.units import MaskCount
from harness.provenance import device_of
from harness.record import MANIFEST, RESULTS, SCORES, finish
from harness.run.batching import Batch, Selection, select
from harness.run.differing import Differing
from harness.run.external_predictions import Submission, match_rows, units_with_predictions
from harness.run.manifest import manifest_of, set_aside
from harness.run.predict import begin, records
from harness.run.rescore import selection_of
from harness.run.sample_cache import read_once
from harness.run.scoring import Scorer, failure_of
from harness.run.survey import survey
from harness.store.atomic import writing
from harness.store.checksums import CHECKSUMS
from harness.store.journal import Writer, files
from harness.store.lease import lease
from harness.task import Protocol, Task
from harness.types import FailureKind, Prediction, Sample

NAMED = 5
"""Number of samples without a prediction that a note names."""
INSIDE = 0.2
"""Share of responses with the right text in them, beyond those that are equal to it, to note."""
PREDICTIONS = "predictions"
"""Name in the SPEC of such predictions: `predictions(<method>)`, whatever their path."""
LOCATE = "qwen_vl(backend=stored,prompt=locate)"
"""Reader of boxes and points in the JSON that Qwen-VL writes by default."""
PLACES = re.compile(r'"(?:bbox|point)_2d"')  # {"bbox_2d": [1, 2, 3, 4]}
TAGS = re.compile(r"</?(?:think|answer)>")


@dataclass
class Unread:
    """Reason why no response of a file has an answer, if that is so."""

    first: str = ""
    """Message of the first failure to read a response."""
    is_plain_json: bool = False
    """True if that response has Qwen's keys of boxes or points without tags around them."""
    answers: int = 0
    """Number of predictions with an answer."""

    def add(self, task: Task, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> None:
        """Count the answers of a unit, as the task's protocol reads them."""
        for sample, prediction in zip(unit, predictions, strict=True):
            failure_kind, failure = failure_of(task, sample, prediction), prediction.failure
            if failure_kind is None:
                self.answers += 1
            if failure_kind is FailureKind.PARSE and not self.first:
                why = task.protocol.unread
                self.first = why if failure is None else failure.message
                response = "".join(prediction.responses[-1:])
                self.is_plain_json = bool(PLACES.search(response)) and not TAGS.search(response)

    def notes(self, reader_spec: str = "") -> tuple[str, ...]:
        """Return a note on the first unread response, if no response was read."""
        if not self.first or self.answers:
            return ()
        fits_locate = self.is_plain_json and reader_spec != LOCATE
        reader = (
            f'; --model "{LOCATE}" reads Qwen2.5-VL\'s boxes and points, which are pixels, '
            "and with backend=stored(coordinates=normalized_1000) Qwen3-VL's, which are thousandths"
        )
        fix = reader if fits_locate else ""
        return (f"no response is read; of the first: {self.first}{fix}",)


@dataclass(slots=True)
class Absent:
    """Samples of which a file has no prediction."""

    ids: list[str] = field(default_factory=list)
    n_samples: int = 0

    def add(self, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> None:
        """Count those of a unit."""
        self.n_samples += len(unit)
        for sample, prediction in zip(unit, predictions, strict=True):
            failure = prediction.failure
            if failure is not None and failure.kind is FailureKind.INFRASTRUCTURE:
                self.ids.append(sample.id)

    def notes(self) -> tuple[str, ...]:
        """Return a note that names the first of them, if there are any."""
        if not self.ids:
            return ()
        more = "" if len(self.ids) <= NAMED else ", …"
        named = ", ".join(self.ids[:NAMED]) + more
        absent = f"{len(self.ids)} of {counted(self.n_samples, 'sample')}"
        return (f"{absent} without a prediction count as failed: {named}",)


@dataclass(slots=True)
class Unsure:
    """Counts the predicted boxes that the protocol leaves out because of their scores."""

    boxes: int = 0
    left_out: int = 0

    def add(self, protocol: Protocol, predictions: Sequence[Prediction]) -> None:
        """Count the boxes of a unit."""
        for answer in (prediction.answer for prediction in predictions):
            scores = (answer.box_scores if answer else None) or ()
            self.boxes += len(scores)
            # As `harness.metrics.grec.confident`, to which a written 0.7 is below 0.7.
            single = np.asarray(scores, np.float32).tolist()
            self.left_out += sum(score < protocol.least_score for score in single)

    def notes(self, protocol: Protocol) -> tuple[str, ...]:
        """Return a note if some are left out."""
        if not self.left_out:
            return ()
        return (
            f"{self.left_out} of {self.boxes} boxes have a score below {protocol.least_score} in "
            f"single precision: {protocol.name} leaves them out. "
            "If they are all meant, remove the scores",
        )


def _inside(metrics: object) -> tuple[str, ...]:
    """Return a note if far more responses have the right text in them than are equal to it."""
    shares = metrics if isinstance(metrics, Mapping) else {}
    equal, inside = shares.get("accuracy"), shares.get("contains")
    if equal is None or inside is None or inside < equal + INSIDE:
        return ()
    return (
        f"{inside:.0%} of the responses have the right text in them, and {equal:.0%} are equal to "
        "it: text/exact counts these alone. text/judged reads sentences",
    )


def score_file(
    task: Task,
    submission: Submission,
    *,
    folder: Path | None,
    task_spec: str = "",
    restart: bool = False,
) -> dict[str, object]:
    """Score a predictions file; a sample without a line is a failed sample.

    Args:
        task: The task to score.
        submission: The file, and the settings that it is read with.
        folder: Run folder to write, which boards can use; None: none is written.
        task_spec: The task's SPEC as typed, for the record.
        restart: Rename a run in the folder, instead of refusing it.

    Returns:
        The content of results.json.

    Raises:
        DataError: a line is malformed, its id is not one of the task's, or there is no line.
    """
    needs_folder = submission.tree is not None or submission.run is not None
    _check_path(submission.path, needs_folder=needs_folder)
    task = read_once(task)
    selection = (
        select(task, submission.subset)
        if submission.run is None
        else selection_of(task, submission.run)
    )
    samples = partial(selection.samples, task)
    matched = None if needs_folder else match_rows(task, submission, samples, task_spec)
    manifest = _manifest(task, submission, selection, task_spec, matched)
    scorer = Scorer(task, samples)

    def score_into(journal: Writer | None) -> dict[str, object]:
        # Unit by unit: the masks of a whole file would take gigabytes.
        scored = units_with_predictions(submission, samples, matched)
        covered, agreement, unread, differing = MaskCount(), Agreement(), Unread(), Differing()
        unsure, absent = Unsure(), Absent()
        for number, (unit, predictions) in enumerate(scored):
            scorer.add(unit, predictions)
            covered.add(predictions)
            if submission.run is None:
                absent.add(unit, predictions)
            unsure.add(task.protocol, predictions)
            unread.add(task, unit, predictions)
            differing.add(task, unit, predictions)
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
        unlike = differing.notes(task.protocol.name)
        sure = unsure.notes(task.protocol)
        answered = unread.notes(submission.reader_spec)
        for text in chain(absent.notes(), covered.notes(), sure, answered, unlike, doubts):
            submission.note(f"{submission.path}: {text}")
        results = scorer.results(manifest)
        for text in _inside(results.get("metrics")):
            submission.note(f"{submission.path}: {text}")
        return results

    if folder is None:
        return score_into(None)
    if restart and (folder / MANIFEST).exists():
        set_aside(folder)
    with _run_folder(folder) as journal:
        with journal:
            results = score_into(journal)
        finish(folder, scorer.done, results, manifest=manifest)
    return results


def _check_path(path: Path, *, needs_folder: bool) -> None:
    """Raise DataError if the predictions are not a file, or not a folder if that is needed."""
    if path.is_dir() if needs_folder else path.is_file():
        return  # a pipe is refused: it would be empty when it is read the second time
    is_folder = path.is_dir()
    found_type = "a folder" if is_folder else "something else"
    expected = "a folder" if needs_folder else "a file"
    refuse_foreign(path, DataError, f"predictions {path}", expected)
    listed = [*path.glob("*.json"), *path.glob("*.txt")] if is_folder else []
    boxes = of_boxes(f"{path.name}/*{listed[0].suffix}") if listed else ""
    raise DataError(
        f"predictions {path}",
        found=found_type if path.exists() else "none",
        expected=expected,
        fix="Masks in a folder need --format mask-tree, png-tree or label-tree; other files "
        f"have to be joined into one of JSON lines, or of COCO's results. {boxes}".strip()
        if is_folder
        else "",
    )


def _manifest(
    task: Task,
    submission: Submission,
    selection: Selection,
    task_spec: str,
    matched: Matched | None,
) -> dict[str, Any]:
    """Return the manifest of the run, whose model is `predictions(<name>)`."""
    described: dict[str, object] = {
        "predictions": submission.path.name,
        "content": predictions_hash(submission.path),
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


def predictions_hash(path: Path) -> str:
    """Return a hash of a file, of a run's journal, or of all files in a folder with their names."""
    if path.is_file():
        return content_hash(path).hex()
    combined = hashlib.blake2b(digest_size=16)
    inside = files(path) if (path / MANIFEST).is_file() else path.rglob("*")
    for file in sorted(file for file in inside if file.is_file()):
        combined.update(f"{file.relative_to(path)}\0{content_hash(file).hex()}\n".encode())
    return combined.hexdigest()


@contextmanager
def _run_folder(folder: Path) -> Iterator[Writer]:
    """Open the journal of a new run folder, which has no manifest yet.

    Files of an earlier call that was killed before it wrote its manifest are deleted, because they
    may be of other predictions. If the block fails, all that it wrote is deleted, and the folder
    too if it is then empty.

    Raises:
        StoreError: the folder has a run.
    """
    if (folder / MANIFEST).exists():
        raise StoreError(
            f"run folder {folder}",
            expected="a new folder",
            found="a run",
            fix="Choose another --out or --name, or pass --restart to rename the old run.",
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
    """Delete the journals and results of a run without a manifest, and no other file."""
    journals = [*files(folder)]
    for path in [*journals, *(folder / name for name in (RESULTS, SCORES, CHECKSUMS) if journals)]:
        path.unlink(missing_ok=True)
