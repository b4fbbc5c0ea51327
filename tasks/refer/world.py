"""Describe generated still scenes as COCO images, for writers of RefCOCO's and similar sample data.

Gives scenes their ids and file names, COCO's `instances.json`, and expressions about their things.
Boxes and polygons are in pixels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from harness.masks import BoolArray
from harness.tasks.refer.borders import borders
from harness.world.draws import Draws
from harness.world.encode import write_jpeg
from harness.world.language import Generator, Question
from harness.world.raster import edges, render, visible_masks
from harness.world.scene import SHAPES, Scene, Split
from harness.world.shapes import World

FIRST_IMAGE_ID: Mapping[tuple[str, Split], int] = MappingProxyType(
    {
        ("still", "train"): 100_000,
        ("still", "val"): 200_000,
        ("still", "test"): 300_000,
        ("count", "test"): 400_000,
    }
)
"""Id of the first image of each family and split; an image's id is this plus its scene's index."""
IDS_PER_IMAGE = 100  # object ids reserved for each image

Part = tuple[str, Split]
"""(Family of scenes, split of the family)."""


def number_of(scene: Scene) -> int:
    """Return the id of a scene's image."""
    return FIRST_IMAGE_ID[scene.family, scene.split] + scene.index


def file_name(scene: Scene, *, year: str = "train2014") -> str:
    """Return the file name of a scene's image, in COCO's pattern of 2014, which has the split."""
    return f"COCO_{year}_{number_of(scene):012d}.jpg"


def thing_number(scene: Scene, index: int) -> int:
    """Return the id of a scene's thing with the given index."""
    return number_of(scene) * IDS_PER_IMAGE + index


def instances(scenes: Sequence[Scene], *, name_of: Callable[[Scene], str]) -> dict[str, object]:
    """Return the content of COCO's `instances.json`: the visible parts of all scenes' things."""
    images = [
        {
            "id": number_of(scene),
            "file_name": name_of(scene),
            "width": scene.width,
            "height": scene.height,
        }
        for scene in scenes
    ]
    annotations = [dict(row) for scene in scenes for row in _annotations(scene)]
    categories = [{"id": number, "name": shape} for number, shape in enumerate(SHAPES, start=1)]
    return {"images": images, "annotations": annotations, "categories": categories}


@lru_cache(maxsize=1024)
def _annotations(scene: Scene) -> list[dict[str, object]]:
    """Return the annotations of a scene; cached, because several benchmarks share the scenes."""
    return [annotation(scene, index, mask) for index, mask in enumerate(visible_masks(scene))]


def annotation(scene: Scene, index: int, mask: BoolArray) -> dict[str, object]:
    """Return COCO's annotation of one thing from its visible mask."""
    x1, y1, x2, y2 = edges(mask)
    return {
        "id": thing_number(scene, index),
        "image_id": number_of(scene),
        "category_id": category(scene, index),
        "bbox": [float(x1), float(y1), float(x2 - x1), float(y2 - y1)],
        "area": float(mask.sum()),
        "iscrowd": 0,
        "segmentation": borders(mask),
    }


def category(scene: Scene, index: int) -> int:
    """Return the category id of a thing, which is that of its shape."""
    return 1 + SHAPES.index(scene.things[index].shape)


def write_images(scenes: Sequence[Scene], folder: Path, *, name_of: Callable[[Scene], str]) -> None:
    """Write the images of scenes; skip files that another benchmark has already written."""
    folder.mkdir(parents=True, exist_ok=True)
    for scene in scenes:
        if not (folder / name_of(scene)).exists():
            write_jpeg(folder / name_of(scene), render(scene))


@dataclass(frozen=True, slots=True)
class Mention:
    """Expressions that refer to the same things of a scene."""

    scene: Scene
    things: tuple[int, ...]  # indices in the scene
    texts: tuple[str, ...]


def mentions(
    world: World, part: Part, generators: Sequence[Generator], *, name: str, plural: bool = False
) -> list[Mention]:
    """Return mentions with `world.size` expressions in total (in `train` four times as many).

    Each scene gets one mention before any scene gets a second one.

    Args:
        world: The generated world.
        part: Family and split of the scenes.
        generators: Generators of the expressions.
        name: Seeds the random choices, so that benchmarks differ.
        plural: Also take expressions that refer to several things.
    """
    remaining = world.size * (4 if part[1] == "train" else 1)
    chosen: list[Mention] = []
    rounds = _rounds(world.scenes(*part), generators, name, plural)
    for mention in islice(rounds, 4 * remaining):
        chosen_texts = mention.texts[:remaining]
        chosen.append(Mention(mention.scene, mention.things, chosen_texts))
        remaining -= len(chosen_texts)
        if remaining <= 0:
            break
    return chosen


def _rounds(
    scenes: Sequence[Scene], generators: Sequence[Generator], name: str, plural: bool
) -> Iterator[Mention]:
    """Yield the first mention of each scene, then the second of each, and so on."""
    remaining = {scene.id: list(_all_mentions(scene, generators, name, plural)) for scene in scenes}
    while any(remaining.values()):
        for mentions_of_scene in remaining.values():
            if mentions_of_scene:
                yield mentions_of_scene.pop(0)


@lru_cache(maxsize=4096)
def _questions_of(generator: Generator, scene: Scene) -> tuple[Question, ...]:
    """Return a generator's questions about a scene; cached, because several benchmarks use them."""
    return tuple(generator(scene))


def _all_mentions(
    scene: Scene, generators: Sequence[Generator], name: str, plural: bool
) -> Iterator[Mention]:
    """Yield a scene's mentions in random order, each with one or two of its texts."""
    texts_of: dict[tuple[int, ...], list[str]] = {}
    for generator in generators:
        for question in _questions_of(generator, scene):
            if plural or len(question.referents) == 1:
                known_texts = texts_of.setdefault(question.referents, [])
                known_texts += [text for text in question.texts if text not in known_texts]
    draws = Draws(scene.seed, scene.id, name)
    for things in draws.shuffle(sorted(texts_of)):
        chosen_texts = draws.shuffle(texts_of[things])[: draws.integer_between(1, 2)]
        yield Mention(scene, things, tuple(chosen_texts))
