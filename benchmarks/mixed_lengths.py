"""A set of mixed lengths: images of several sizes, questions with short and with long responses.

Questions of the generated world: where is what is meant (about 25 tokens), how many are there (a
list of all, up to 130 tokens), and questions with options (7 to 40 tokens), in random order. Every
image is brought to one of `SIZES`, which are multiples of 28 pixels and are written as PNG: no
processor has to resize it, and every reader decodes the same pixels.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path

from PIL import Image

from harness import plugins
from harness.media import open_image
from harness.scores import Mean, Metric, Scores
from harness.spec import parse
from harness.task import Ceiling, Protocol, Task
from harness.testing import make_shapes
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id

SIZES = ((112, 112), (168, 168), (224, 168), (280, 224), (392, 280))
"""(width, height): 16, 36, 48, 80 and 140 tokens of an image."""
MIN_PIXELS, MAX_PIXELS = 4 * 28 * 28, 400 * 28 * 28
"""Limits of the processor between which every one of these sizes stays as it is."""
SOURCES = ("reason_seg", "counting", "shapes_qa(part=choices)")
QUESTIONS = "questions.jsonl"


def write(
    folder: Path,
    *,
    seed: int,
    samples: int,
    prompt: Callable[[Query], str],
    sizes: Sequence[tuple[int, int]] = SIZES,
) -> None:
    """Write so many questions, with `prompt` as the whole text that a network is to be given.

    Images have `sizes`, some of `SIZES`.
    """
    images, specs = folder / "images", [parse(spec) for spec in SOURCES]
    images.mkdir(parents=True)
    world = folder / "world"
    make_shapes(world, tasks=[spec.name for spec in specs], size=samples, seed=seed)
    tasks: list[Task] = [plugins.build("tasks", spec, world) for spec in specs]
    stills = [[one for one in task.samples() if len(one.query.media[0]) == 1] for task in tasks]
    turns = chain.from_iterable(zip_longest(*stills))
    found = list(islice((one for one in turns if one is not None), samples))
    draw = random.Random(seed)
    draw.shuffle(found)
    with (folder / QUESTIONS).open("w", encoding="utf-8") as out:
        for number, sample in enumerate(found):
            query, image = sample.query, images / f"{number:05d}.png"
            drawn = Image.fromarray(query.media[0].frame(0))
            drawn.resize(draw.choice(sizes), Image.Resampling.BICUBIC).save(image)
            row = {
                "id": image.stem,
                "image": str(image),
                "question": query.text,
                "options": query.options,
                "form": query.form,
                "prompt": prompt(query),
            }
            out.write(json.dumps(row) + "\n")


def task(folder: Path) -> Task:
    """The set as a task. It scores only whether there was an answer: what is measured is speed."""
    return Task(
        name="mixed_lengths",
        version=1,
        split="test",
        forms=(AnswerForm.MASK, AnswerForm.COUNT, AnswerForm.CHOICE),
        protocol=Protocol(
            name="answered",
            score=_answered,
            metrics=(Metric("answered"),),
            headline="answered",
            ceiling=Ceiling(value=1.0),
            about="whether a response could be read",
        ),
        samples=partial(_samples, folder),
        annotations=(folder / QUESTIONS,),
        check=lambda: (),
    )


def _samples(folder: Path) -> Iterator[Sample]:
    with (folder / QUESTIONS).open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            query = Query(
                id=query_id(row["id"]),
                text=row["question"],
                media=(open_image(Path(row["image"])),),
                forms=(AnswerForm(row["form"]),),
                options=tuple(row["options"]),
            )
            yield Sample(id=row["id"], query=query, target=Target(answer=Answer(text="")))


def _answered(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    return {"answered": Mean(float(predictions[0].answer is not None))}
