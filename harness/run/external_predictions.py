"""Match predictions of other programs to a task's samples, and read them into answers.

`score` gives a `Submission` (a file, a folder of masks, or a run to parse again) and gets the
predictions of each unit. Formats are read by `harness.formats`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from pathlib import Path
from typing import TypeAlias

from harness.errors import DataError, UsageError, counted
from harness.foreign import extra_fix
from harness.foreign_lines import by_number, if_in_order, print_ids, renaming
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
"""Called with a folder, samples and `allow_extra`; yields the prediction for each sample."""
MAX_DIGITS = 10  # of an id that is the number of a sample
SHOWN = 3  # unmatched entries that an error names
AMBIGUOUS_HINT = (
    "A column or key `id` with the benchmark's ids (`load_task(…).samples()` has them) decides "
    "between equal questions. "
)
NO_MATCH_HINT = "No line belongs to a sample: check the split. {} prints the ids in their order."


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Predictions of another program, and the settings with which they are read."""

    path: Path
    name: str
    """The name under which a board shows them."""
    reader: RecordedReader | None = None
    reader_spec: str = ""
    subset: str | None = None
    seed: int = 0
    allow_extra: bool | None = False
    """Accept ids that the task does not have, instead of refusing the file; None: refuse it, where
    no option can accept them."""
    allow_missing: bool = False
    """Accept missing images: answers as text are scored without them."""
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
    """Receives notes on irregular entries of the file that were accepted, with their numbers."""

    def deviations(self, task: Task) -> list[Deviation]:
        """Return deviations of the reader from the paper of its method; none without a reader."""
        if self.reader is None:
            return []
        return deviations(self.reader_spec, self.reader.describe(), task.forms, task.name)


def match_rows(
    task: Task, submission: Submission, samples: Callable[[], Iterator[Sample]], task_spec: str
) -> Matched:
    """Match a file's rows to samples.

    Args:
        task: The task.
        submission: The file and its settings.
        samples: Returns the chosen samples; called several times.
        task_spec: The task as typed, for commands in messages.

    Raises:
        DataError: the file is empty or malformed, or has ids of another benchmark.
        UsageError: the meaning of numbers is stated for a file of responses.
    """
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
    _refuse_unmatched(task, submission, matched, known_ids, task_spec)
    file, is_stated = f"predictions {submission.path}", submission.written is not None
    texts = [row for row in matched.rows.values() if row.responses is not None]
    if is_stated and texts:
        raise UsageError(
            f"{file} with --coordinates or --mask-order",
            expected="values (`boxes`, `points`, `masks`), whose numbers it is about",
            found=f"{counted(len(texts), 'response')}, such as {texts[0].where}",
            fix="A response is read by --model, whose `coordinates=` says what its numbers mean.",
        )
    notes = check_units(
        matched.rows,
        samples(),
        file,
        sizes=submission.format == "coco",
        stated=is_stated,
        lines=submission.format == "jsonl",
    )
    if not is_stated:
        notes += check_order(matched.rows, samples(), file)
    if matched.unmatched:
        notes = (*notes, f"{len(matched.unmatched)} entries that belong to no sample, left out")
    matched = replace(matched, notes=(*matched.notes, *notes))
    for text in matched.notes:
        submission.note(f"{submission.path}: {text}")
    return matched


def _refuse_unmatched(
    task: Task, submission: Submission, matched: Matched, known_ids: set[str], task_spec: str
) -> None:
    """Raise DataError for entries of no sample, unless they are allowed and others have samples."""
    of_samples = known_ids & matched.rows.keys()
    if not matched.unmatched or (submission.allow_extra and of_samples):
        return
    examples = "; ".join(matched.unmatched[:SHOWN])
    subset = f", subset {submission.subset}" if submission.subset else ""
    raise DataError(
        f"predictions {submission.path}",
        expected=f"ids of {task.name}, split {task.split}{subset}",
        found=f"{len(matched.unmatched)} others, such as {examples}",
        fix=_unmatched_fix(submission, matched, known_ids, task_spec or task.name),
    )


def _unmatched_fix(submission: Submission, matched: Matched, known_ids: set[str], task: str) -> str:
    """Return what to do about entries of no sample; `task` is the task's SPEC."""
    if "0" in known_ids and "0" not in matched.rows and len(matched.unmatched) == 1:
        return "No id is 0: if your ids start at 1, subtract 1 from each."
    conversion = _rename(matched, known_ids, submission)
    conversion = conversion or _by_number(matched, known_ids, task, submission)
    if conversion:
        return conversion
    ambiguous = AMBIGUOUS_HINT if "(fits " in matched.unmatched[0] else ""
    if known_ids & matched.rows.keys():
        return ambiguous + extra_fix(submission.allow_extra, "lines")
    others = NO_MATCH_HINT.format(print_ids(task, submission.data_root))
    return ambiguous + others + _in_order(matched, known_ids, task, submission)


def _rename(matched: Matched, known_ids: set[str], submission: Submission) -> str:
    """Return a command that makes ids of file names (`images/0001.png` for `1`); empty if none."""
    key = {"jsonl": ".id", "coco": ".[].image_id"}.get(submission.format)
    if submission.format == "coco":  # records name images; ids are `image/category`
        known_ids = {*known_ids, *(name.rpartition("/")[0] for name in known_ids)}
    return renaming(matched.unknown, known_ids, submission.path.name, key) if key else ""


def _by_number(matched: Matched, known_ids: set[str], task: str, submission: Submission) -> str:
    """Return a command that turns samples' numbers into ids; empty if the file has other ids."""
    are_numbers = all(
        name not in known_ids
        and name.isdecimal()
        and len(name) < MAX_DIGITS
        and int(name) < len(known_ids)
        for name in matched.rows
    )
    if submission.format != "jsonl" or not are_numbers:
        return ""
    conversion = by_number(task, submission.data_root, submission.path.name)
    return f"If they number the samples from 0, {conversion} makes ids of them."


def _in_order(matched: Matched, known_ids: set[str], task: str, submission: Submission) -> str:
    """Return a command for lines that may be in the samples' order; empty if their number differs.

    None of the lines has the id of a sample.
    """
    if submission.format != "jsonl" or len(matched.unknown) != len(known_ids):
        return ""
    return f" {if_in_order(task, submission.data_root, submission.path.name)}"


def units_with_predictions(
    submission: Submission, samples: Callable[[], Iterator[Sample]], matched: Matched | None
) -> Iterator[tuple[Sequence[Sample], Sequence[Prediction]]]:
    """Yield each unit of samples with their predictions; `matched` is None for folders and runs."""
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
    requested, scored = tee(samples())  # `tree` reads samples while predictions are taken
    predictions = submission.tree(submission.path, requested, allow_extra=submission.allow_extra)
    for unit in units(scored):
        yield unit, list(islice(predictions, len(unit)))
    deque(predictions, maxlen=0)  # at its end, the reader raises for files of no sample


def _read_again(sample: Sample, run: Run, reader: RecordedReader | None) -> Prediction:
    """Parse a record's responses with another reader; keep a prediction without responses."""
    recorded = run.prediction(sample.id)
    if not recorded.responses or reader is None:
        return recorded
    reading = reader.read(sample.query, recorded.responses, recorded.calls)
    cut = {entry.form for entry in recorded.parsed if entry.cut}
    parsed = tuple(replace(entry, cut=entry.form in cut) for entry in reading.parsed)
    return replace(reading, calls=recorded.calls, parsed=parsed, usage=recorded.usage)


def _prediction(sample: Sample, row: Row | None, submission: Submission) -> Prediction:
    if row is None:
        message = f"no line for this sample in {submission.path.name}"
        return Prediction(
            query_id=sample.query.id, failure=Failure(FailureKind.INFRASTRUCTURE, message)
        )
    return read_row(row, sample.query, submission.reader)
