"""Run folders of three models on an image task and a video task that exist only here."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import media, plugins
from harness.errors import DataError
from harness.interchange.journal_form import prediction_to_json
from harness.masks import Rle
from harness.record import VERSION, finish
from harness.scores import Mean, Metric, Ratio, UnitScore
from harness.spec import parse
from harness.statistics.bootstrap import intervals
from harness.store.atomic import write_json
from harness.store.journal import Writer
from harness.summary import breakdowns, summarise, values
from harness.task import Ceiling, Protocol, Task
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Prediction,
    Query,
    Sample,
    Target,
    Usage,
    query_id,
)
from tests.leaderboards.postgresql import server as server
from tests.leaderboards.postgresql import url as url

WIDTH, HEIGHT = 96, 72
COLOURS = {"red": (200, 60, 50), "blue": (60, 90, 190), "ochre": (205, 160, 60)}
HOSTILE = "<script>alert(1)</script>"


def disc(x, y, radius):
    rows, columns = np.ogrid[:HEIGHT, :WIDTH]
    return (columns - x) ** 2 + (rows - y) ** 2 <= radius**2


def iou(a, b):
    union = (a | b).sum()
    return float((a & b).sum() / union) if union else 1.0


def place(index, frame=0):
    """Centre and radius of the disc of an image or frame."""
    generator = np.random.default_rng(index)
    x, y, radius = generator.integers((20, 18, 8), (76, 54, 17))
    return int(x) + 3 * frame, int(y), int(radius)


def draw(path, index, frame=0):
    ground = np.linspace(225, 175, HEIGHT)[:, None, None] + np.array([0, 3, 8])
    image = np.broadcast_to(ground, (HEIGHT, WIDTH, 3)).astype(np.uint8).copy()
    image[disc(*place(index, frame))] = list(COLOURS.values())[index % 3]
    image[50:60, 4:18] = (90, 90, 90)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)


def mask_task(root: Path) -> Task:
    """Two questions an image; gIoU, cIoU and an error that is better when lower."""
    folder = root / "disc_seg"
    if not folder.is_dir():
        raise DataError(f"folder {folder}", expected="images", found="none")

    def samples():
        for index in range(20):
            image = media.open_image(folder / f"{index}.png")
            colour = list(COLOURS)[index % 3]
            for question in ("Which thing would roll?", f"the {colour} disc {HOSTILE}"):
                name = f"{index}/{'roll' if 'roll' in question else 'disc'}"
                yield Sample(
                    id=name,
                    query=Query(
                        id=query_id(name), text=question, media=(image,), forms=(AnswerForm.MASK,)
                    ),
                    target=Target(answer=Answer(masks=(Rle.from_array(disc(*place(index))),))),
                    group=str(index),
                    categories={"colour": colour},
                )

    def score(members, predictions):
        (sample,), (prediction,) = members, predictions
        ground_truth = sample.target.answer.masks[0].to_array()
        found = prediction.answer.masks[0].to_array() if prediction.answer else ground_truth & False
        return {
            "giou": Mean(iou(found, ground_truth)),
            "ciou": Ratio(float((found & ground_truth).sum()), float((found | ground_truth).sum())),
            "area_error": Mean(
                abs(float(found.sum()) - float(ground_truth.sum())) / ground_truth.sum()
            ),
        }

    return Task(
        name="disc_seg",
        version=1,
        split="val",
        forms=(AnswerForm.MASK,),
        protocol=Protocol(
            name="seg/lisa",
            score=score,
            headline="giou",
            ceiling=Ceiling(value=1.0),
            metrics=(
                Metric("giou", about="mean IoU over samples"),
                Metric("ciou", epsilon=1e-10, about="IoU of summed areas"),
                Metric("area_error", better="lower", about="relative error of the area"),
            ),
            about="",
        ),
        samples=samples,
        annotations=(),
        check=lambda: (),
    )


def video_task(root: Path) -> Task:
    """Nine-frame videos; the headline is derived."""
    folder = root / "disc_video"
    if not folder.is_dir():
        raise DataError(f"folder {folder}", expected="videos", found="none")

    def samples():
        for index in range(8):
            frames = [folder / str(index) / f"{frame}.png" for frame in range(9)]
            ground_truth = tuple(Rle.from_array(disc(*place(index, f))) for f in range(9))
            yield Sample(
                id=f"clip{index}",
                query=Query(
                    id=query_id(f"clip{index}"),
                    text="the disc that moves to the right",
                    media=(media.frame_files(frames),),
                    forms=(AnswerForm.MASK_TRACK,),
                ),
                target=Target(answer=Answer(masks=ground_truth)),
            )

    def score(members, predictions):
        (sample,), (prediction,) = members, predictions
        ground_truth = [mask.to_array() for mask in sample.target.answer.masks]
        if prediction.answer is None:
            return {"J": Mean(0.0), "F": Mean(0.0)}
        found = [mask.to_array() for mask in prediction.answer.masks]
        mean = float(np.mean([iou(a, b) for a, b in zip(found, ground_truth, strict=True)]))
        return {"J": Mean(mean), "F": Mean(mean**0.5)}

    return Task(
        name="disc_video",
        version=1,
        split="valid_u",
        forms=(AnswerForm.MASK_TRACK,),
        protocol=Protocol(
            name="rvos/mevis",
            score=score,
            headline="J&F",
            ceiling=Ceiling(value=1.0),
            metrics=(
                Metric("J", about="region similarity"),
                Metric("F", about="contour accuracy"),
                Metric(
                    "J&F",
                    inputs=("J", "F"),
                    derived=lambda j, f: (j + f) / 2,
                    about="mean of region similarity and contour accuracy",
                ),
            ),
            about="",
        ),
        samples=samples,
        annotations=(),
        check=lambda: (),
    )


TASKS = {"disc_seg": mask_task, "disc_video": video_task}


def write_run(folder, task, *, model, predict, root, changes=None, subset=None):
    """A run folder as the engine writes it; `predict` maps (sample, its number) to a prediction."""
    folder.mkdir(parents=True)
    samples = list(task.samples())
    predictions = [predict(sample, number) for number, sample in enumerate(samples)]
    units = [
        UnitScore(
            unit=sample.unit,
            group=sample.group,
            samples=(sample.id,),
            categories=sample.categories,
            failed=int(prediction.failure is not None),
            scores=task.protocol.score([sample], [prediction]),
        )
        for sample, prediction in zip(samples, predictions, strict=True)
    ]
    manifest = {
        "version": VERSION,
        "harness": "0.1.0",
        "task": {
            "spec": task.name,
            "name": task.name,
            "version": task.version,
            "split": task.split,
            "protocol": task.protocol.name,
            "arguments": {},
        },
        "subset": subset,
        "model": {"spec": f"{model}(checkpoint=runs/{model})", "name": model, "description": {}},
        "data": {"root": str(root), "fingerprint": "f00d" * 8, "n_total": len(samples)},
        "seed": 0,
        "provenance": {
            "commit": "0123456789abcdef",
            "dirty": False,
            "packages": {},
            "python": "3.11.9",
            "platform": "Linux x86_64",
            "device": "cpu",
        },
        "config_hash": "c0ffee" * 5 + "00",
    }
    failures = {}
    for prediction in predictions:
        if prediction.failure is not None:
            kind = prediction.failure.kind
            failures[kind] = failures.get(kind, 0) + 1
    usage = {
        name: sum(getattr(prediction.usage, name) for prediction in predictions)
        for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens", "frames")
    }
    found = intervals(task.protocol.metrics, units, resamples=300)
    results = summarise(task, manifest, units, failures, usage, found, ceiling=1.0)
    with Writer(folder, 0, 1) as journal:
        journal.append(
            [
                {"sample": sample.query.id, "prediction": prediction_to_json(prediction)}
                for sample, prediction in zip(samples, predictions, strict=True)
            ]
        )
    for part, changed in (changes or {}).items():
        places = {
            "manifest": manifest,
            "data": manifest["data"],
            "results": results,
            "arguments": manifest["task"]["arguments"],
        }
        places[part].update(changed)
    write_json(folder / "manifest.json", manifest)
    finish(folder, units, results)
    write_json(folder / "timing.json", {"wall_seconds": 61.5, "samples_per_second": 0.6})
    return folder


def guesses(
    *, shift, failing=(), kind=FailureKind.PARSE, seed=0, response="<answer>here it is</answer>"
):
    """A model that finds every disc about `shift` pixels beside where it is."""
    generator = np.random.default_rng(seed)

    def predict(sample, number):
        offset = shift * generator.uniform(0.3, 1.7)
        if number in failing:
            return Prediction(
                query_id=sample.query.id,
                responses=(f"I cannot {HOSTILE}",),
                failure=Failure(kind, f"no JSON {HOSTILE}"),
            )
        masks = [
            Rle.from_array(np.roll(mask.to_array(), round(offset), axis=1))
            for mask in sample.target.answer.masks
        ]
        return Prediction(
            query_id=sample.query.id,
            answer=Answer(masks=tuple(masks)),
            responses=(response,),
            usage=Usage(prompt_tokens=400, completion_tokens=60, reasoning_tokens=40, frames=1),
        )

    return predict


@dataclass(frozen=True)
class World:
    data: Path
    runs: Path

    def task(self, name="disc_seg", root=None):
        return TASKS[name](root or self.data)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """The data, and runs of three models on both tasks."""
    base = tmp_path_factory.mktemp("boards")
    made = World(data=base / "data", runs=base / "runs")
    for index in range(20):
        draw(made.data / "disc_seg" / f"{index}.png", index)
    for index in range(8):
        for frame in range(9):
            draw(made.data / "disc_video" / str(index) / f"{frame}.png", index, frame)
    models = {
        "steady": guesses(shift=1, response=f"It rolls. {HOSTILE} </script>"),
        f"evil {HOSTILE}": guesses(shift=1.05, seed=1),
        "clumsy": guesses(shift=7, failing={3, 4, 11}, seed=2),
    }
    for name in TASKS:
        for number, (model, predict) in enumerate(models.items()):
            write_run(
                made.runs / f"{name}-{number}",
                made.task(name),
                model=model,
                predict=predict,
                root=made.data,
            )
    return made


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The two tasks as if they were plugins."""

    def build(kind, spec, /, *context, **given):
        assert kind == "tasks"
        return TASKS[spec.name](*context)

    monkeypatch.setattr(plugins, "build", build)


@pytest.fixture
def make_run(world, tmp_path):
    """Write one more run: `make_run("a", shift=2)`."""

    def make(
        name,
        *,
        task="disc_seg",
        model="one",
        shift=1.0,
        failing=(),
        kind=FailureKind.PARSE,
        seed=0,
        predict=None,
        **given,
    ):
        return write_run(
            tmp_path / name,
            world.task(task),
            model=model,
            root=world.data,
            predict=predict or guesses(shift=shift, failing=failing, kind=kind, seed=seed),
            **given,
        )

    return make


@pytest.fixture
def rewrite():
    """Change a finished run's scores, and write all that follows from them as the engine does."""

    def change(folder, edit, **results):
        units = [json.loads(line) for line in (folder / "scores.jsonl").open(encoding="utf-8")]
        edit(units)
        manifest = read(folder / "manifest.json")
        root = Path(manifest["data"]["root"])
        task = plugins.build("tasks", parse(manifest["task"]["spec"]), root)
        scores = [UnitScore.from_json(unit) for unit in units]
        known = read(folder / "results.json")
        made = {"metrics": values(task, scores), "breakdowns": breakdowns(task, scores)}
        finish(folder, scores, {**known, **made, **results})
        return folder

    return change


@pytest.fixture
def rescore(rewrite):
    """Change each unit's value of a metric: `rescore(folder, lambda index, value: …)`."""

    def change(folder, value, *, metric="giou"):
        def edit(units):
            for index, unit in enumerate(units):
                unit["scores"][metric][0] = value(index, unit["scores"][metric][0])

        return rewrite(folder, edit)

    return change


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))
