"""`harness explain`: everything about one sample of a run, or the rollouts of a training."""

import io
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from harness import overlay
from harness.cli.judge import bind
from harness.cli.mask_diff import compare_masks
from harness.cli.mask_diff import lines as mask_lines
from harness.cli.output import show_json
from harness.cli.parsed import lines as part_lines
from harness.cli.parsed import parsed_parts
from harness.cli.rollouts import explain_training, is_training
from harness.errors import StoreError, UsageError, printable
from harness.interchange import prediction_to_json
from harness.leaderboards.images import describe_answer, draw
from harness.leaderboards.request_log import request_log
from harness.leaderboards.runs import task_of
from harness.media import Frame
from harness.models.backends.inputs import squashed
from harness.record import Run
from harness.run.judging import verdicts_of
from harness.run.score import selected
from harness.run.scoring import failure_of, score_unit
from harness.scores import to_json
from harness.store.atomic import write_bytes
from harness.task import Task
from harness.types import Answer, Call, Failure, Prediction, Query, Sample, Shown

FRAMES = 6  # of a video that are drawn


def explain(arguments: Namespace) -> int:
    """Print what a run's record says of one sample, or write a training's page."""
    if is_training(arguments.run):
        return explain_training(arguments)
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
            fix=f"`harness samples {run.folder}` lists them"
            + ("." if first is None else f"; the first is {first}."),
        )
    task = bind(task_of(run, arguments.data), verdicts_of(run), None)
    unit = _unit(task, run, arguments.sample)
    sample = next(sample for sample in unit if sample.id == arguments.sample)
    prediction = run.prediction(sample.id)
    fault = prediction.failure
    if fault is None and (kind := failure_of(task, sample, prediction)) is not None:
        fault = Failure(kind, f"{task.protocol.name} reads nothing from it")
    shown: dict[str, object] = {
        **_question(task, run, sample),
        **_called(sample, prediction),
        **adapted(prediction),
        "parse": parsed_parts(prediction),
        **({"notes": "; ".join(prediction.notes)} if prediction.notes else {}),
        **({"failure": f"{fault.kind}: {fault.message}"} if fault is not None else {}),
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
        _print(shown)
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


def _called(sample: Sample, prediction: Prediction) -> dict[str, str]:
    if not prediction.calls:
        log = {"prompt": "none in the record: no network was called, or it failed"}
        texts: Sequence[str | None] = prediction.responses
    else:
        log = request_log(sample.query, prediction.calls)
        texts = [call.response for call in prediction.calls]
    return log | {
        f"response {number}": "none: the network failed" if text is None else text
        for number, text in enumerate(texts, start=1)
    }


def adapted(prediction: Prediction) -> dict[str, list[str]]:
    """Return a line for each step in which a network learned from the sample."""
    if prediction.adaptation is None:
        return {}
    numbers = {call.key: number for number, call in enumerate(prediction.calls, start=1)}
    lines = []
    for place, step in enumerate(prediction.adaptation.steps):
        parts = []
        if step.label is not None:
            number = numbers.get(f"@step{place}#{step.label}", numbers.get(f"@step0#{step.label}"))
            parts.append(f"label is response {number}, agreement {step.agreement:.2f}")
        if step.parsed is not None:
            parts.append(f"{step.parsed} can be read")
        if step.rewards:
            parts.append(f"rewards {', '.join(f'{reward:.2f}' for reward in step.rewards)}")
        if step.entropy is not None:
            parts.append(f"entropy {step.entropy:.3f} nats a token")
        if step.rolled_back:
            parts.append("the update was NaN or infinite and was not made")
        if (after := numbers.get(f"@after{place + 1}#0")) is not None:
            parts.append(f"then response {after}")
        lines.append(f"step {place + 1}: {'; '.join(parts)}")
    return {"adaptation": [prediction.adaptation.method, *lines]}


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


def _print(shown: Mapping[str, Any]) -> None:
    """Print one line for each entry, and its parts below it."""
    for name, value in shown.items():
        if name == "parse":
            for part in value:
                _print_list("parse", part_lines(part))
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


def draw_overlay(sample: Sample, prediction: Prediction) -> Frame:
    """Draw the ground truth above the prediction with its outline; of a video, some frames.

    Under them stands what the networks were shown, as large as they were shown it, once each.
    """
    media = sample.query.media[0]
    step = max(1, -(-len(media) // FRAMES))
    frames = range(0, len(media), step)
    ground_truth = sample.target.answer if sample.target else None
    truth = [(ground_truth, overlay.GROUND_TRUTH, True)]
    both = [
        (prediction.answer, overlay.PREDICTION, True),
        (ground_truth, overlay.GROUND_TRUTH, False),
    ]
    layers = [truth, both] if ground_truth else [both]
    rows = [_row(sample, frames, layer) for layer in layers]
    rows += _draw_frames(sample.query, prediction.calls)
    widest = max(row.shape[1] for row in rows)
    padded = [
        np.pad(row, ((0, 8), (0, widest - row.shape[1]), (0, 0)), constant_values=255)
        for row in rows
    ]
    return np.concatenate(padded)


def _row(
    sample: Sample, frames: Sequence[int], layers: list[tuple[Answer | None, overlay.Colour, bool]]
) -> Frame:
    media = sample.query.media[0]
    images = []
    for index in frames:
        image = media.frame(index)
        for answer, colour, filled in layers:
            if answer is not None:
                image = draw(
                    image, answer, index=index, size=media.size, colour=colour, filled=filled
                )
        images.append(image)
    return overlay.side_by_side(images)


def _draw_frames(query: Query, calls: Sequence[Call]) -> list[Frame]:
    """Draw a row of frames for each of the query's media shown, as large as seen; equal ones once.

    Media of other queries, and altered ones, are not in the record and are left out.
    """
    rows = dict.fromkeys(shown for call in calls for shown in call.request.shown)
    return [
        overlay.side_by_side(
            [_as_seen(query.media[shown.medium].frame(frame), shown) for frame in shown.frames]
        )
        for shown in rows
        if isinstance(shown.medium, int)
    ]


def _as_seen(frame: Frame, shown: Shown) -> Frame:
    image: Frame = squashed(squashed(frame, shown.resize), shown.canvas)
    return np.ascontiguousarray(image)
