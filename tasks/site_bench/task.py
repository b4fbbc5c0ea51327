"""SITE-Bench's questions about images, in six categories; the score is relative to chance.

A record: `{"question": "…", "options": ["…", "…"], "answer": "A",
"category": "counting & existence", "dataset": "…", "visual": ["images/a.jpg"]}`
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from harness.foreign import listed
from harness.metrics.choices import seeded_choice
from harness.metrics.letter_readers import site_choice
from harness.scores import Metric, Ratio, Scores
from harness.task import Task, ground_truth, official_and_strict, single_answer
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.letters import ACCURACY
from harness.tasks.qa.options import stated_letter
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import table_task
from harness.types import Prediction, Sample

FIELDS = Fields(
    id="{_file}/{_index}",
    images=("visual",),
    options="options",
    categories={"category": "category", "dataset": "dataset"},
)


def site_bench(
    data: Path, *, split: Literal["image_test"] = "image_test", protocol: str = "site/official"
) -> Task:
    """One sample per question; `protocol` is `site/official` or `site/strict`."""
    root = data / "site_bench"
    files = f"{split}/*" if listed(root, f"{split}/*.parquet") else f"**/{split}*"
    return table_task("site_bench", root, files, FIELDS, PROTOCOLS, split, protocol, version=2)


def read_letter(sample: Sample, text: str, *, strict: bool) -> str | None:
    """Return the letter that a protocol reads in a response; None if it reads none."""
    if strict:
        return stated_letter(sample, text)
    return site_choice(text, ground_truth(sample).extra["letters"])


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Return a sample's parts of the accuracy and of CAA, the chance-adjusted accuracy.

    CAA is (accuracy - chance) / (1 - chance) over all samples; chance is 1 / number of options.

    For a response without a letter, the official reader draws an option at random; here the
    sample's id decides the draw.
    """
    sample, target, prediction = single_answer(unit, predictions)
    letters, text = target.extra["letters"], answer_text(prediction)
    letter = None if text is None else read_letter(sample, text, strict=strict)
    if letter is None and not strict and text is not None:
        letter = seeded_choice(sample.id, letters)
    right, chance = float(letter == target.extra["letter"]), 1.0 / len(letters)
    return {"accuracy": Ratio(right, 1.0), "CAA": Ratio(right - chance, 1.0 - chance)}


PROTOCOLS = official_and_strict(
    "site",
    score,
    reads=read_by(read_letter),
    metrics=(
        Metric("accuracy", about=ACCURACY),
        Metric("CAA", about="accuracy above chance, over 1 less chance"),
    ),
    headline="CAA",
    beside=("accuracy",),
    official="sitebench/utils.py: for a response without a letter an option is drawn at random",
    strict="only a letter that the response states counts",
)
