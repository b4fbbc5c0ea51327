"""Predictions from elsewhere, matched to a task's samples and read into answers."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from pathlib import Path
from typing import TypeAlias

from harness.errors import DataError
from harness.foreign_lines import by_number, command, print_ids, renamed
from harness.formats import Matched, read_format
from harness.formats.mask_order import check_order
from harness.formats.units import check_units
from harness.interchange.answers import row_to_prediction as read_row
from harness.interchange.rows import AS_DOCUMENTED, Row, Written
from harness.model import RecordedReader
from harness.papers import Deviation, deviations
from harness.record import Run
from harness.run.batching import samples_of, units
from harness.task import Task
from harness.types import Failure, FailureKind, Prediction, Sample

Tree: TypeAlias = Callable[..., Iterator[Prediction]]
"""Maps a folder, samples and `allow_extra` to the prediction for each sample."""
MAX_DIGITS = 10  # of an id that is the number of a sample
SHOWN = 3  # entries of no sample that are named
EXTRA = "Check the split, or pass --allow-extra to ignore such lines."
AMBIGUOUS = (
    "A column or key `id` with the benchmark's ids (`load_task(…).samples()` has them) decides "
    "between equal questions. "
)
OTHERS = "No line is about a sample: check the split. {} prints the ids in their order."


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


def match_rows(
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
            or (AMBIGUOUS if "(fits " in matched.unmatched[0] else "")
            + (EXTRA if of_samples else OTHERS.format(print_ids(spec, submission.data_root))),
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


def units_with_predictions(
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
