"""Reasoning and descriptions for samples of generated benchmarks, from pocket's lessons.

The scene behind a sample is drawn again from the seed of its data. Reasoning is worded as pocket
was taught it, so that teaching it another grammar does not cost it what it knows.

    Which shape has five points?   rationale    large blue star: large blue star
                                   description  the star
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from harness.errors import DataError
from harness.responses import tag_text
from harness.task import Task
from harness.types import Sample
from harness.world.families import FAMILIES, draw_scene
from harness.world.qa import every_qa
from harness.world.questions import REASONED, every_question
from harness.world.scene import SPLITS, Scene
from harness.world.shapes import MANIFEST
from pocket_training.vlm.reasoning_templates import in_words
from pocket_training.vlm.training_examples import name
from pocket_training.vlm.views import View

RATIONALE, DESCRIPTION = "rationale", "description"
"""The names under which a target's `extra` has them."""

TIMES = (2, 5)
"""Number of times that a short reasoning, and a long one, name an implied object. At least twice:
DR2Seg wants more words in the first pass than in the second, whose question names the object."""


def shapes_captions(task: Task, sample: Sample) -> Mapping[str, str]:
    """Return texts about a sample beside its answer; nothing for unknown benchmarks.

    The reasoning about places names the referent. Where the question does not name it, the sentence
    comes twice, and in half of the samples, chosen by id, many times, as in large models that are
    sure already: the reasoning can then be shortened, and pocket can write all of it.

    Args:
        task: `shapes_referring` or `shapes_qa`, below the root of a generated world.
        sample: One of its samples.

    Returns:
        `rationale`, and for `shapes_referring` also `description`.

    Raises:
        DataError: the data is not of a generated world.
    """
    if task.name == "shapes_referring":
        return _referring_captions(sample, scene_of(task, sample))
    if task.name == "shapes_qa":
        return _in_words(sample, scene_of(task, sample))
    return {}


def scene_of(task: Task, sample: Sample) -> Scene:
    """The scene of a sample of the world's own benchmarks.

    Raises:
        DataError: the data is not of a generated world.
    """
    family, _, index = sample.id.rpartition("_")[0].rpartition("_")
    split = next((one for one in SPLITS if one == task.split), None)
    if family not in FAMILIES or not index.isdigit() or split is None:
        raise DataError(
            f"{task.name}: sample {sample.id!r}",
            expected="family_index_question of train, val or test",
            found=f"{sample.id} of {task.split}",
        )
    seed = _seed(task.annotations[0].parents[2] / MANIFEST)
    return draw_scene(seed, family=family, split=split, index=int(index))


def _referring_captions(sample: Sample, scene: Scene) -> dict[str, str]:
    every = every_question(scene)
    question = next((one for one in every if sample.query.text in one.texts), None)
    if question is None:
        raise DataError(
            f"sample {sample.id}",
            expected="a question that its scene allows",
            found=sample.query.text,
        )
    view = View(scene, (0,))
    target = view.in_order(question.referents, 0)
    names = ", ".join(_name(scene, index) for index in target)
    if question.kind not in REASONED:
        return {RATIONALE: names, DESCRIPTION: sample.query.text}
    description = next(
        (
            one.text
            for one in every
            if one.kind not in REASONED and one.referents == question.referents
        ),
        names,
    )
    named = [names] * TIMES[_is_even(sample.id)]
    return {RATIONALE: ": ".join(named), DESCRIPTION: description}


def _in_words(sample: Sample, scene: Scene) -> dict[str, str]:
    view = View(scene, tuple(range(scene.frames)))
    for qa in every_qa(scene):
        # Options are drawn with the question, so that one of the same text has the same ones.
        if qa.text == sample.query.text and tuple(qa.options) == sample.query.options:
            return {RATIONALE: tag_text(in_words(view, qa).response, "think") or ""}
    return {}


def _name(scene: Scene, index: int) -> str:
    return name(scene.things[index])


def _is_even(text: str) -> bool:
    return hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % 2 == 0


@lru_cache
def _seed(path: Path) -> int:
    try:
        seed = json.loads(path.read_text("utf-8"))["seed"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        raise DataError(
            f"file {path}",
            expected="the seed of a generated world",
            found=str(error),
            fix="Make the data with `harness data make`.",
        ) from error
    if type(seed) is not int:
        raise DataError(f"file {path}: 'seed'", expected="a whole number", found=repr(seed)[:60])
    return seed
