"""Write sample data of table benchmarks: questions of generated scenes, by the reader's `Fields`.

`question_writer` makes a benchmark's `write` from the same `Fields` that its task reads with.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from harness.tasks.qa.options import lettered
from harness.tasks.qa.questions import Fields
from harness.tasks.video_qa.writing import choose_questions, write_table, write_videos
from harness.tasks.video_qa.writing import name as file_name
from harness.world.encode import scene_png
from harness.world.qa import QA
from harness.world.scene import Scene
from harness.world.shapes import World

Row = dict[str, object]


class Asked(NamedTuple):
    """A multiple-choice question of the world's test split, with its scene."""

    number: int
    scene: Scene
    question: QA

    @property
    def place(self) -> int:
        """Index of the correct option."""
        return self.question.options.index(str(self.question.answer))

    @property
    def image(self) -> dict[str, Any]:
        """The first frame as a table cell."""
        return images(self.scene, 1)[0]


def asked(world: World) -> Iterator[Asked]:
    """Yield the multiple-choice questions of the world's test split, in order."""
    videos = choose_questions(world, "test")
    pairs = ((scene, question) for scene, questions in videos for question in questions)
    yield from (Asked(number, *pair) for number, pair in enumerate(pairs))


def images(scene: Scene, number: int = 2) -> list[dict[str, Any]]:
    """Return `number` evenly spaced frames of a scene as table cells."""
    frames = [scene.frames * k // number for k in range(number)]
    return [{"bytes": scene_png(scene, k), "path": f"{k}.png"} for k in frames]


def in_text(question: QA) -> str:
    """Return the text of a question followed by its options."""
    return f"{question.text} Options: {' '.join(lettered(question.options))}"


def record(fields: Fields, example: Asked, **extra: object) -> Row:
    """Return the record of a question: the inverse of `Fields.read_record`.

    Args:
        fields: The fields of the benchmark's records.
        example: The question and its scene.
        extra: Further fields, or replacements for the fields above; a function is called with
            `example` and returns the field's value.
    """
    question, row = example.question, Row()
    image_cells = images(example.scene) if fields.images else []
    # One field holds a list; several fields hold an image or an option each, None if there are
    # fewer of these than fields.
    if len(fields.images) == 1:
        row[fields.images[0]] = image_cells
    elif fields.images:
        row |= zip_longest(fields.images, image_cells)
    if isinstance(fields.options, str):
        row[fields.options] = lettered(question.options) if fields.lettered else [*question.options]
    elif fields.options:
        row |= zip_longest(fields.options, question.options)
    row |= {
        name: file_name(example.scene) for _, name, _, _ in Formatter().parse(fields.media) if name
    }
    row[fields.question] = in_text(question) if fields.letters else question.text
    answers = {"place": example.place, "option": question.answer, "letter": question.letter}
    row[fields.answer] = answers.get(fields.form, f"{question.letter}. {question.answer}")
    return row | {key: value(example) if callable(value) else value for key, value in extra.items()}


def question_writer(
    path: str, fields: Fields, *, videos: str = "", **extra: object
) -> Callable[[World, Path], None]:
    """Return a function that writes a table with one row per question.

    Args:
        path: Path of the table below the data root.
        fields: The fields of a row, as the benchmark's reader knows them.
        videos: Folder of the videos below the data root; if empty, no videos are written.
        extra: Further fields of a row; see `record`.
    """

    def write(world: World, root: Path) -> None:
        """Write the table, and the videos of its questions."""
        write_table(root / path, [record(fields, example, **extra) for example in asked(world)])
        if videos:
            scenes = {file_name(example.scene): example.scene for example in asked(world)}
            write_videos(root / videos, list(scenes.values()))

    return write
