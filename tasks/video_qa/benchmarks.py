"""Questions of the generated world as the tables of further benchmarks have them."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.tasks.video_qa.writing import choose_questions, write_table
from harness.world.encode import encode_png
from harness.world.qa import QA
from harness.world.raster import render
from harness.world.scene import Scene
from harness.world.shapes import World

Row = dict[str, object]


def asked(world: World) -> Iterator[tuple[int, Scene, QA]]:
    """(number, scene, question) of each question with options of the world's test split."""
    found = choose_questions(world, "test")
    pairs = ((scene, question) for scene, questions in found for question in questions)
    yield from ((number, *pair) for number, pair in enumerate(pairs))


def images(scene: Scene, number: int = 2) -> list[dict[str, bytes | str]]:
    """The first frames of a scene, evenly apart, as cells of a table."""
    frames = [scene.frames * k // number for k in range(number)]
    return [{"bytes": encode_png(render(scene, k)), "path": f"{k}.png"} for k in frames]


def in_text(question: QA) -> str:
    """A question with its options behind it, in one text."""
    letters = zip("ABCDEFGH", question.options, strict=False)
    options = " ".join(f"{letter}. {text}" for letter, text in letters)
    return f"{question.text} Options: {options}"


def write_rows(
    world: World,
    path: Path,
    columns: Mapping[str, str],
    row: Callable[[int, Scene, QA], Row],
) -> None:
    """Write a table with one row a question; the columns' types are those of `write_table`."""
    write_table(path, [row(*one) for one in asked(world)], columns)
