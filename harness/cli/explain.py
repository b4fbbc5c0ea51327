"""`harness explain`: everything about one sample of a run, or the rollouts of a training."""

import io
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from PIL import Image

from harness import overlay
from harness.cli.ask import needed
from harness.cli.judge import bind
from harness.cli.output import show_json
from harness.cli.rollouts import explain_training, is_training
from harness.errors import HarnessError, StoreError, UsageError
from harness.interchange import prediction_to_json
from harness.leaderboards.pictures import draw, say
from harness.leaderboards.runs import task_of
from harness.media import Frame
from harness.model import ChatRequest
from harness.models.backends.altered import as_seen
from harness.models.backends.inputs import shown as seen_frames
from harness.models.backends.inputs import squashed
from harness.record import Run
from harness.run.judging import verdicts_of
from harness.run.score import selected
from harness.run.scoring import score_unit
from harness.run.workers import build_model
from harness.scores import to_json
from harness.spec import parse
from harness.store.atomic import write_bytes
from harness.task import Task
from harness.types import Answer, Prediction, Sample

FRAMES = 6  # of a video that are drawn


def explain(arguments: Namespace) -> int:
    """Print one sample's question, replies, answer, truth and score, or write a training's page."""
    if is_training(arguments.run):
        return explain_training(arguments)
    needed(arguments.sample, "SAMPLE", "the id of a sample of the run")
    for name in ("out", "groups"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name}", expected="a training's folder", found="a run's")
    run = Run.open(arguments.run)
    task = bind(task_of(run, arguments.data), verdicts_of(run), None)
    unit = _unit(task, run, arguments.sample)
    sample = next(one for one in unit if one.id == arguments.sample)
    prediction = run.prediction(sample.id)
    requests, why_not = _asked(run, sample, prediction.replies)
    shown = _explained(task, run, unit, sample, prediction)
    shown |= {"prompt": why_not} if why_not else _prompts(requests)
    if arguments.image is not None:
        encoded = io.BytesIO()
        Image.fromarray(drawn(sample, prediction, requests)).save(encoded, "PNG")
        write_bytes(arguments.image, encoded.getvalue())
        shown["image"] = str(arguments.image)
    if arguments.json:
        show_json({**shown, "prediction": prediction_to_json(prediction)})
    else:
        for name, value in shown.items():
            print(f"{name:10} {value}")
    return 0


def _asked(
    run: Run, sample: Sample, replies: Sequence[str]
) -> tuple[Sequence[ChatRequest], str]:  # fmt: skip
    """What the model asked its networks about a sample, or why that is not known.

    Requests are made again from the model's SPEC; no weights are loaded for that. A model that asks
    several times, each time by what it heard before, has a method `retold(query, replies)`, which
    makes them from what it heard.
    """
    spec = run.manifest["model"]["spec"]
    try:
        model = build_model(parse(spec), run.manifest["seed"])
        if (retold := getattr(model, "retold", None)) is not None:
            return tuple(retold(sample.query, replies)), ""
        made = getattr(model, "requests", lambda _: ())(sample.query)
        chat: Any = getattr(model, "chat", None)
        return tuple(as_seen(chat, request) for request in made), ""
    except HarnessError as error:
        return (), f"not known here: {error}"


def _prompts(requests: Sequence[ChatRequest]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    first = 1
    for _, group in groupby(requests, _alike):
        request, *others = group
        number = f"{first} to {first + len(others)}" if others else str(first)
        first += 1 + len(others)
        if request.system:
            shown[f"system {number}"] = request.system
        shown[f"prompt {number}"] = request.text
        shown[f"shown {number}"] = "; ".join(
            f"{_frames(request, place)} at {_size(request, place)}"
            for place in range(len(request.media))
        ) or "pictures of another question; the record does not say of which"  # fmt: skip
    return shown


def _alike(request: ChatRequest) -> Any:
    """What is equal for requests that differ in nothing but their keys."""
    return replace(request, key="", media=()), [media.id for media in request.media]


def _frames(request: ChatRequest, place: int) -> str:
    frames = seen_frames(request, place)
    return f"frame {frames[0]}" if len(frames) == 1 else f"frames {', '.join(map(str, frames))}"


def _size(request: ChatRequest, place: int) -> str:
    chosen = request.squash(place)
    width, height = chosen or request.media[place].size
    return f"{width} × {height}" + ("" if chosen else ", before the processor's own rule")


def _unit(task: Task, run: Run, wanted: str) -> Sequence[Sample]:
    for unit in selected(task, run):
        if any(sample.id == wanted for sample in unit):
            return unit
    raise StoreError(
        f"sample {wanted!r}", expected=f"an id of the run's {run.manifest['data']['n_total']} "
        f"samples of {task.name}, split {task.split}", found="none of them",
        fix=f"`harness list tasks {task.name}` says how its ids are formed.",
    )  # fmt: skip


def _explained(
    task: Task, run: Run, unit: Sequence[Sample], sample: Sample, prediction: Prediction
) -> dict[str, Any]:
    query = sample.query
    shown: dict[str, Any] = {
        "sample": sample.id,
        "model": run.manifest["model"]["spec"],
        "protocol": task.protocol.name,
        "question": query.text,
        "media": ", ".join(map(repr, query.media)),
        "categories": dict(sample.categories),
    }
    if query.options:
        shown["options"] = " | ".join(query.options)
    for number, reply in enumerate(prediction.replies, start=1):
        shown[f"reply {number}"] = reply
    if prediction.notes:
        shown["notes"] = "; ".join(prediction.notes)
    if prediction.failure is not None:
        shown["failure"] = f"{prediction.failure.kind}: {prediction.failure.message}"
    if prediction.answer is not None:
        shown["answer"] = say(prediction.answer)
    if sample.target is not None:
        shown["truth"] = say(sample.target.answer)
        predictions = [run.prediction(one.id) for one in unit]
        shown["score"] = to_json(score_unit(task, unit, predictions).scores)
    return shown


def drawn(sample: Sample, prediction: Prediction, requests: Sequence[ChatRequest] = ()) -> Frame:
    """Truth above, prediction with the truth's outline below; of a video, some frames.

    Under them stands what the networks were shown, as large as they were shown it, once each.
    """
    media = sample.query.media[0]
    step = max(1, -(-len(media) // FRAMES))
    frames = range(0, len(media), step)
    truth = sample.target.answer if sample.target else None
    rows = [_row(sample, frames, [(truth, overlay.TRUTH, True)])] if truth else []
    rows.append(_row(sample, frames, [(prediction.answer, overlay.PREDICTION, True),
                                      (truth, overlay.TRUTH, False)]))  # fmt: skip
    rows += _shown(requests)
    widest = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 8), (0, widest - row.shape[1]), (0, 0)), constant_values=255)
              for row in rows]  # fmt: skip
    return np.concatenate(padded)


def _shown(requests: Sequence[ChatRequest]) -> list[Frame]:
    """A row for every medium of the requests, in their order; one that is like another, once."""
    rows: dict[Any, Frame] = {}
    for one in requests:
        for place, media in enumerate(one.media):
            frames, size = seen_frames(one, place), one.squash(place)
            key = media.id, frames, size
            if frames and key not in rows:
                rows[key] = overlay.side_by_side(
                    [squashed(media.frame(frame), size) for frame in frames]
                )
    return list(rows.values())


def _row(
    sample: Sample, frames: Sequence[int], layers: list[tuple[Answer | None, Any, bool]]
) -> Frame:
    media = sample.query.media[0]
    pictures = []
    for index in frames:
        picture = media.frame(index)
        for answer, colour, filled in layers:
            if answer is not None:
                picture = draw(picture, answer, index=index, size=media.size, colour=colour,
                               filled=filled)  # fmt: skip
        pictures.append(picture)
    return overlay.side_by_side(pictures)
