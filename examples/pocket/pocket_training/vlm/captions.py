"""Reasoning and descriptions for samples of generated benchmarks, from pocket's lessons.

Reasoning is worded as pocket was taught it, so that another grammar does not cost what it knows.

    Which shape has five points?   rationale    large blue star: large blue star
                                   description  the star
"""

import hashlib
from collections.abc import Mapping

from harness.errors import DataError
from harness.responses import tag_text
from harness.task import Task
from harness.trainers.video_str.shapes import scene_of
from harness.types import Sample
from harness.world.qa import every_qa
from harness.world.questions import REASONING_KINDS, every_question
from pocket_training.vlm.lessons import in_words
from pocket_training.vlm.views import View

TIMES = (2, 5)
"""Number of times that a short reasoning, and a long one, name an implied object. At least twice:
DR2Seg wants more words in the first pass than in the second, whose question names the object."""


def shapes_captions(task: Task, sample: Sample) -> Mapping[str, str]:
    """Return `rationale` for a sample, and for `shapes_referring` also `description`.

    The reasoning about places names the referent. Where the question does not name it, the sentence
    comes twice, and in half of the samples, chosen by id, many times, as in large models that are
    sure already: the reasoning can then be shortened, and pocket can write all of it. Nothing is
    returned for unknown benchmarks.

    Raises:
        DataError: the data is not of a generated world.
    """
    if task.name == "shapes_qa":
        scene = scene_of(task, sample)
        view = View(scene, range(scene.frames))
        for qa in every_qa(scene):
            # Options are drawn with the question, so that one of the same text has the same ones.
            if qa.text == sample.query.text and tuple(qa.options) == sample.query.options:
                return {"rationale": tag_text(in_words(view, qa).response, "think") or ""}
    if task.name != "shapes_referring":
        return {}
    scene = scene_of(task, sample)
    every = every_question(scene)
    question = next((one for one in every if sample.query.text in one.texts), None)
    if question is None:
        raise DataError(
            f"sample {sample.id}",
            expected="a question that its scene allows",
            found=sample.query.text,
        )
    view = View(scene)
    names = ", ".join(view.names[index] for index in view.in_order(question.referents))
    if question.kind not in REASONING_KINDS:
        return {"rationale": names, "description": sample.query.text}
    explicit = (one for one in every if one.kind not in REASONING_KINDS)
    same = (one.text for one in explicit if one.referents == question.referents)
    half = hashlib.blake2b(sample.id.encode(), digest_size=1).digest()[0] % 2
    named = [names] * TIMES[half == 0]
    return {"rationale": ": ".join(named), "description": next(same, names)}
