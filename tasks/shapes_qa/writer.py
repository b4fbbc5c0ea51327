"""Write the data of `shapes_qa`: still images and videos with questions, in the world's layout."""

from collections.abc import Iterator
from pathlib import Path

from harness.tasks.shapes.writing import write_images, write_questions
from harness.world.qa import QA
from harness.world.scene import SPLITS, Split
from harness.world.shapes import Example, World

PERCENT_KINDS = ("width", "height", "distance", "path")
"""Kinds of questions for a percentage of the image's side; the other numbers are counts."""


def write(world: World, root: Path) -> None:
    """Write `root/shapes_qa/{train,val,test}`: questions.jsonl and images."""
    for split in SPLITS:
        folder = root / "shapes_qa" / split
        write_questions(folder, _questions(world, split, folder))


def shares(total: int) -> dict[str, int]:
    """Return the number of questions of each family, of `total` in all; half are about stills.

    >>> shares(24), shares(3)
    ({'qa': 12, 'qa_video': 6, 'arrivals': 6}, {'qa': 2, 'qa_video': 1, 'arrivals': 0})
    """
    moving, arriving = (total + 1) // 4, total // 4
    return {"qa": total - moving - arriving, "qa_video": moving, "arrivals": arriving}


def _questions(world: World, split: Split, folder: Path) -> Iterator[dict[str, object]]:
    """Write the images of a split, and yield its questions."""
    total = sum(len(example.quizzes) for example in world.examples_of("qa", split))
    for family, number in shares(total).items():
        for example in world.examples_of(family, split):
            chosen = example.quizzes[:number]
            number -= len(chosen)
            if chosen:
                names = write_images(example.scene, folder)
                yield from (record(example, names, k, qa) for k, qa in enumerate(chosen))


def record(example: Example, names: list[str], number: int, qa: QA) -> dict[str, object]:
    """Return one line: a question with its images, its answer and the keys of its breakdowns."""
    scene = example.scene
    return {
        "id": f"{scene.family}_{scene.index:05d}_{number}",
        "frames": names,
        "question": qa.text,
        "options": list(qa.options),
        "answer": qa.answer,
        "kind": qa.kind,
        "level": scene.level,
        "family": scene.family,
        "unit": "percent" if qa.kind in PERCENT_KINDS else "",
    }
