"""`harness explain`: everything about one sample of a run, or the rollouts of a training."""

import io
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from PIL import Image

from harness.cli.output import show_json, tell
from harness.cli.spec_arguments import require_minimum
from harness.errors import StoreError, UsageError, printable
from harness.explained.calls import adapted, asked_and_answered
from harness.explained.masks import compare_masks
from harness.explained.masks import lines as mask_lines
from harness.explained.overlay import draw_overlay
from harness.explained.parsed import lines as part_lines
from harness.explained.parsed import parsed_parts
from harness.explained.rollouts import is_training, page_of, select_groups
from harness.interchange.journal_form import prediction_to_json
from harness.leaderboards.images import describe_answer
from harness.leaderboards.runs import task_of
from harness.record import Run
from harness.run.contamination import Training
from harness.run.judging import bind_judge, verdicts_of
from harness.run.rescore import selected
from harness.run.scoring import failure_of, score_unit
from harness.scores import to_json
from harness.store.atomic import write_bytes
from harness.task import Task
from harness.types import Failure, Prediction, Sample

PAGE = "rollouts.html"
GROUPS = 24  # that are shown where none is said


def explain(arguments: Namespace) -> int:
    """Print what a run's record says of one sample, or write a training's page."""
    if is_training(arguments.run):
        return _explain_training(arguments)
    for name in ("out", "groups"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name}", expected="a training's folder", found="a run's")
    run = Run.open(arguments.run)
    if arguments.sample is None:
        first = next((sample_id for unit in run.units() for sample_id in unit.samples), None)
        raise UsageError(
            "SAMPLE",
            expected="the id of a sample of the run",
            found="nothing",
            fix=f"`harness runs samples {run.folder}` lists them"
            + ("." if first is None else f"; the first is {first}."),
        )
    task = bind_judge(task_of(run, arguments.data), verdicts_of(run), None)
    unit = _unit(task, run, arguments.sample)
    sample = next(sample for sample in unit if sample.id == arguments.sample)
    prediction = run.prediction(sample.id)
    fault, kind = prediction.failure, failure_of(task, sample, prediction)
    if fault is None and kind is not None:
        fault = Failure(kind, f"{task.protocol.name} reads nothing from it")
    reader = task.protocol.name if fault is not None and kind is None else ""
    shown: dict[str, object] = {
        **_question(task, run, sample),
        **asked_and_answered(sample, prediction),
        **adapted(prediction),
        "parse": parsed_parts(prediction),
        **({"notes": "; ".join(prediction.notes)} if prediction.notes else {}),
        **({"failure": f"{fault.kind}: {fault.message}"} if kind is not None and fault else {}),
        **_judged(task, run, unit, sample, prediction),
    }
    if arguments.image is not None:
        encoded = io.BytesIO()
        Image.fromarray(draw_overlay(sample, prediction)).save(encoded, "PNG")
        write_bytes(arguments.image, encoded.getvalue())
        shown["image"] = str(arguments.image)
    if arguments.json:
        show_json({**shown, "prediction": prediction_to_json(prediction)})
    else:
        _print(shown, reader)
    return 0


def _explain_training(arguments: Namespace) -> int:
    """Write the page of a training's rollouts, and print where it is."""
    training = Training.open(arguments.run)
    if arguments.image is not None:
        raise UsageError(
            "--image",
            expected="a run folder",
            found="a training's",
            fix="Write its page with --out FILE.html.",
        )
    require_minimum(arguments, 1, "groups")
    groups, notes = select_groups(
        training,
        limit=arguments.groups or GROUPS,
        sample=arguments.sample,
        data_root=arguments.data,
    )
    page = page_of(training, groups, notes)
    out = arguments.out or training.folder / PAGE
    write_bytes(out, page.encode("utf-8", "replace"))
    steps = sorted({group.step for group in groups})
    plain = {"page": str(out), "groups": len(groups), "steps": steps, "notes": notes}
    tell(arguments, plain, out)
    return 0


def _unit(task: Task, run: Run, wanted: str) -> Sequence[Sample]:
    for unit in selected(task, run):
        if any(sample.id == wanted for sample in unit):
            return unit
    raise StoreError(
        f"sample {wanted!r}",
        expected=f"an id of the run's {run.manifest['data']['n_total']} "
        f"samples of {task.name}, split {task.split}",
        found="none of them",
        fix=f"`harness list tasks {task.name}` explains the ids.",
    )


def _question(task: Task, run: Run, sample: Sample) -> dict[str, object]:
    query = sample.query
    shown: dict[str, object] = {
        "sample": sample.id,
        "model": run.manifest["model"]["spec"],
        "protocol": task.protocol.name,
        "question": query.text,
        "media": ", ".join(repr(medium).strip("<>") for medium in query.media),
        "categories": dict(sample.categories),
    }
    if query.options:
        shown["options"] = " | ".join(query.options)
    return shown


def _judged(
    task: Task, run: Run, unit: Sequence[Sample], sample: Sample, prediction: Prediction
) -> dict[str, object]:
    shown: dict[str, object] = {}
    ground_truth = sample.target.answer if sample.target else None
    if prediction.answer is not None:
        shown["answer"] = describe_answer(prediction.answer)
    if ground_truth is not None:
        shown["ground_truth"] = describe_answer(ground_truth)
    if (table := compare_masks(prediction.answer, ground_truth)) is not None:
        shown["masks"] = table
    if ground_truth is not None:
        predictions = [run.prediction(member.id) for member in unit]
        shown["score"] = to_json(score_unit(task, unit, predictions).scores)
    return shown


def _print(shown: Mapping[str, Any], reader: str) -> None:
    """Print one line for each entry, and its parts below it.

    `reader` is the protocol, if it reads what the model's grammar does not; else empty.
    """
    for name, value in shown.items():
        if name == "parse":
            for part in value:
                _print_list("parse", part_lines(part, protocol=reader))
        elif name == "masks":
            _print_list("masks", mask_lines(value))
        elif name == "adaptation":
            _print_list(name, value)
        else:
            text = ", ".join(_pairs(value)) if isinstance(value, Mapping) else value
            _print_value(name, text)


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield each name and its value; of a score the number, a ratio as its parts."""
    for name, value in values.items():
        match value:
            case [number, 1.0]:
                yield f"{name} {number:.4f}"
            case [number, weight]:
                yield f"{name} {number:.4f} (weight {weight:g})"
            case {"ratio": [part, whole]}:
                yield f"{name} {part:g} / {whole:g}"
            case _:
                yield f"{name} {value}"


def _print_list(name: str, lines: Sequence[str]) -> None:
    first, *others = lines
    _print_value(name, first)
    for line in others:
        _print_value("", line, 12)


def _print_value(name: str, text: object, width: int = 10) -> None:
    """Print a value, each further line of it below the first: none looks like an entry."""
    print(printable(f"{name:{width}} {text}").replace("\n", f"\n{'':{width}} "))
