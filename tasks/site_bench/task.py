"""SITE-Bench, the part on images: questions of six categories, scored against chance.

A record: `{"question": "…", "options": ["…", "…"], "answer": "A",
"category": "counting & existence", "dataset": "…", "visual": ["images/a.jpg"]}`
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.choices import seeded_choice
from harness.metrics.letter_readers import site_choice
from harness.scores import Metric, Ratio, Scores
from harness.task import Protocol, Task, choose
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.options import stated_letter
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import text
from harness.types import Prediction, Sample

FIX = "`harness list tasks site_bench` says where the data is had."
CATEGORIES = ("category", "dataset")
COLUMNS = dict.fromkeys(("question", "options", "answer", "visual", *CATEGORIES), "field")


def site_bench(
    data: Path, *, split: Literal["image_test"] = "image_test", protocol: str = "site/official"
) -> Task:
    """One sample a question; `protocol` is `site/official` or `site/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "site_bench"
    files = parts(place, f"**/{split}*", fix=FIX)
    make = partial(_question, place)
    return image_task("site_bench", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    return lettered_question(
        row,
        where,
        id=f"{row['_file']}/{row['_index']}",
        media=images_of(row["visual"], where, place),
        options=row["options"],
        categories={name: text(row, name, where) for name in CATEGORIES},
    )


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Accuracy, and accuracy less that of chance over what chance leaves (CAA).

    By the official reader, a response without a letter gets an option at random, here by its id.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the ground truth is public"
    letters, said = sample.target.extra["letters"], answer_text(prediction)
    letter = None
    if said is not None:
        letter = stated_letter(sample, said) if strict else site_choice(said, letters)
        if letter is None and not strict:
            letter = seeded_choice(sample.id, letters)
    right, chance = float(letter == sample.target.extra["letter"]), 1.0 / len(letters)
    return {"accuracy": Ratio(right, 1.0), "CAA": Ratio(right - chance, 1.0 - chance)}


def _official(sample: Sample, said: str) -> str | None:
    assert sample.target is not None, "the ground truth is public"
    return site_choice(said, sample.target.extra["letters"])


def _protocol(plain: Protocol) -> Protocol:
    strict = plain.name.endswith("strict")
    return replace(
        plain,
        score=partial(score, strict=strict),
        reads=read_by(stated_letter if strict else _official),
        metrics=(*plain.metrics, Metric("CAA", about="accuracy above chance, over 1 less chance")),
        headline="CAA",
        beside=("accuracy",),
    )


PROTOCOLS = {
    name: _protocol(plain)
    for name, plain in letter_protocols(
        "site",
        lambda response: site_choice(response, "ABCDEFGH"),
        official="sitebench/utils.py: a response without a letter gets an option at random",
    ).items()
}
