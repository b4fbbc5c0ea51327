"""Everything that a run recorded of one sample, as entries that `harness explain` prints.

It joins the sample of the task, the prediction in the journal, and its score, computed again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.errors import StoreError, UsageError
from harness.explained.calls import adapted, asked_and_answered, vendor_note
from harness.explained.masks import compare_masks
from harness.explained.parsed import parsed_parts
from harness.leaderboards.images import describe_answer
from harness.leaderboards.runs import task_of
from harness.record import Run
from harness.run.judging import bind_judge, verdicts_of
from harness.run.rescore import selected
from harness.run.scoring import failure_of, score_unit
from harness.scores import to_json
from harness.task import Task
from harness.types import Failure, Prediction, Sample


class RecordedSample(NamedTuple):
    """A sample of a run, its prediction, and the entries that are printed."""

    sample: Sample
    prediction: Prediction
    entries: dict[str, object]
    """Texts, tables and plain data by name, in the order in which they are printed."""
    reader: str
    """Name of the protocol, if it parses a response that the model's grammar could not; else ""."""


def recorded_sample(run: Run, sample_id: str | None, data_root: Path | None) -> RecordedSample:
    """Return the record of one sample of a run.

    Args:
        run: The run.
        sample_id: The official id of the sample.
        data_root: The benchmarks' folder; None: that of the run.

    Raises:
        UsageError: no sample is named.
        StoreError: the run has no such sample.
    """
    if sample_id is None:
        first = next((member for unit in run.units() for member in unit.samples), None)
        raise UsageError(
            "SAMPLE",
            expected="the id of a sample of the run",
            found="nothing",
            fix=f"`harness runs samples {run.folder}` lists them"
            + ("." if first is None else f"; the first is {first}."),
        )
    task = bind_judge(task_of(run, data_root), verdicts_of(run), None)
    unit = _unit_of(task, run, sample_id)
    sample = next(sample for sample in unit if sample.id == sample_id)
    prediction = run.prediction(sample.id)
    # A protocol that reads responses itself may read one that the grammar could not (then `kind`
    # is None), or fail on one that the grammar could read (then `fault` is None).
    fault, kind = prediction.failure, failure_of(task, sample, prediction)
    if fault is None and kind is not None:
        fault = Failure(kind, task.protocol.unread)
    entries: dict[str, object] = {
        **_question(task, run, sample),
        **vendor_note(run.manifest["model"]["description"]),
        **asked_and_answered(sample, prediction),
        **adapted(prediction),
        "parse": parsed_parts(prediction),
        **({"notes": "; ".join(prediction.notes)} if prediction.notes else {}),
        **({"failure": f"{fault.kind}: {fault.message}"} if kind is not None and fault else {}),
        **_judged(task, run, unit, sample, prediction),
    }
    reader = task.protocol.name if fault is not None and kind is None else ""
    return RecordedSample(sample, prediction, entries, reader)


def _unit_of(task: Task, run: Run, sample_id: str) -> Sequence[Sample]:
    """Return the samples that are scored together with a sample, itself included."""
    for unit in selected(task, run):
        if any(sample.id == sample_id for sample in unit):
            return unit
    raise StoreError(
        f"sample {sample_id!r}",
        expected=f"an id of the run's {run.manifest['data']['n_total']} "
        f"samples of {task.name}, split {task.split}",
        found="none of them",
        fix=f"`harness list tasks {task.name}` explains the ids.",
    )


def _question(task: Task, run: Run, sample: Sample) -> dict[str, object]:
    """Return the entries on the sample and its question."""
    query = sample.query
    return {
        "sample": sample.id,
        "model": run.manifest["model"]["spec"],
        "protocol": task.protocol.name,
        "question": query.text,
        "media": ", ".join(repr(medium).strip("<>") for medium in query.media),
        "categories": dict(sample.categories),
        **({"options": " | ".join(query.options)} if query.options else {}),
    }


def _judged(
    task: Task, run: Run, unit: Sequence[Sample], sample: Sample, prediction: Prediction
) -> dict[str, object]:
    """Return the entries on the answer, the ground truth, their masks, and the unit's score."""
    judged: dict[str, object] = {}
    ground_truth = sample.target.answer if sample.target else None
    if prediction.answer is not None:
        judged["answer"] = describe_answer(prediction.answer)
    if ground_truth is not None:
        judged["ground_truth"] = describe_answer(ground_truth)
    if (table := compare_masks(prediction.answer, ground_truth)) is not None:
        judged["masks"] = table
    if ground_truth is not None:
        predictions = [run.prediction(member.id) for member in unit]
        judged["score"] = to_json(score_unit(task, unit, predictions).scores)
    return judged
