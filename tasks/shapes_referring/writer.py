"""Write the data of `shapes_referring`: still images with referring questions, in its layout."""

from collections.abc import Iterator
from pathlib import Path

from harness.masks import Rle
from harness.tasks.shapes.writing import write_images, write_questions
from harness.world.questions import ask_kind
from harness.world.raster import edges, visible_masks
from harness.world.scene import SPLITS, Split
from harness.world.shapes import Example, World


def write(world: World, root: Path) -> None:
    """Write `root/shapes_referring/{train,val,test}`: questions.jsonl and images."""
    for split in SPLITS:
        folder = root / "shapes_referring" / split
        write_questions(folder, _questions(world, split, folder))


def _questions(world: World, split: Split, folder: Path) -> Iterator[dict[str, object]]:
    """Write the images of a split, and yield its questions."""
    for example in world.examples_of("referring", split):
        (image,) = write_images(example.scene, folder)
        yield from records(example, image)


def records(example: Example, image: str) -> Iterator[dict[str, object]]:
    """Yield the lines of one scene: a question with boxes and visible pixels of its referents."""
    scene = example.scene
    masks = visible_masks(scene)
    for number, question in enumerate(example.questions):
        target = [masks[index] for index in question.referents]
        yield {
            "id": f"{scene.family}_{scene.index:05d}_{number}",
            "image": image,
            "question": question.text,
            "kind": question.kind,
            "level": scene.level,
            "asks": ask_kind(question),
            "boxes": [list(edges(mask)) for mask in target],
            "masks": [Rle.from_array(mask).to_json() for mask in target],
        }
