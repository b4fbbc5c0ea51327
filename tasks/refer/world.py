"""Still scenes of the generated world as images of COCO: numbers, objects, expressions."""

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

FIRST: Mapping[tuple[str, Split], int] = MappingProxyType(
    {
        ("still", "train"): 100_000,
        ("still", "val"): 200_000,
        ("still", "test"): 300_000,
        ("count", "test"): 400_000,
    }
)
"""The number of the first image of each family and split that is used."""
PER_IMAGE = 100  # numbers of objects an image

Part = tuple[str, Split]
"""A family of scenes and its split."""


def number_of(scene: Scene) -> int:
    """The image's number."""
    return FIRST[scene.family, scene.split] + scene.index


def file_name(scene: Scene, *, year: str = "train2014") -> str:
    """Return COCO's name of the image: before 2017 the names contain the split."""
    return f"COCO_{year}_{number_of(scene):012d}.jpg"


def thing_number(scene: Scene, index: int) -> int:
    """The number of one thing of a scene."""
    return number_of(scene) * PER_IMAGE + index


def instances(scenes: Sequence[Scene], *, named: Callable[[Scene], str]) -> dict[str, object]:
    """Return COCO's `instances.json` of the scenes: all their things, by the visible parts."""
    images = [
        {
            "id": number_of(scene),
            "file_name": named(scene),
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
    """All things of a scene; kept, for copies of several benchmarks have the same scenes."""
    return [annotation(scene, index, mask) for index, mask in enumerate(visible_masks(scene))]


def annotation(scene: Scene, index: int, mask: BoolArray) -> dict[str, object]:
    """One thing as COCO annotates it."""
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
    """The number of a thing's shape."""
    return 1 + SHAPES.index(scene.things[index].shape)


def write_images(scenes: Sequence[Scene], folder: Path, *, named: Callable[[Scene], str]) -> None:
    """Draw the scenes, except those that another benchmark has drawn before."""
    folder.mkdir(parents=True, exist_ok=True)
    for scene in scenes:
        if not (folder / named(scene)).exists():
            write_jpeg(folder / named(scene), render(scene))


@dataclass(frozen=True, slots=True)
class Mention:
    """Expressions that all mean the same things of a scene."""

    scene: Scene
    things: tuple[int, ...]
    texts: tuple[str, ...]


def mentions(
    world: World, part: Part, kinds: Sequence[Generator], *, name: str, plural: bool = False
) -> list[Mention]:
    """Return the expressions of a split: as many together as the world has samples.

    Each scene gets one question before any gets another.

    Args:
        world: The world.
        part: Family and split of the scenes.
        kinds: The kinds of expressions.
        name: Draws the choices, so that benchmarks differ.
        plural: One expression may mean several things.
    """
    wanted = world.size * (4 if part[1] == "train" else 1)
    kept: list[Mention] = []
    for mention in islice(_rounds(world.scenes(*part), kinds, name, plural), 4 * wanted):
        texts = mention.texts[:wanted]
        kept.append(Mention(mention.scene, mention.things, texts))
        wanted -= len(texts)
        if wanted <= 0:
            break
    return kept


def _rounds(
    scenes: Sequence[Scene], kinds: Sequence[Generator], name: str, plural: bool
) -> Iterator[Mention]:
    mentions = {scene.id: list(_all_mentions(scene, kinds, name, plural)) for scene in scenes}
    while any(mentions.values()):
        for options in mentions.values():
            if options:
                yield options.pop(0)


@lru_cache(maxsize=4096)
def _asked(kind: Generator, scene: Scene) -> tuple[Question, ...]:
    """All questions of a kind; kept, for every benchmark chooses among them."""
    return tuple(kind(scene))


def _all_mentions(
    scene: Scene, kinds: Sequence[Generator], name: str, plural: bool
) -> Iterator[Mention]:
    texts: dict[tuple[int, ...], list[str]] = {}
    for kind in kinds:
        for question in _asked(kind, scene):
            if plural or len(question.referents) == 1:
                known = texts.setdefault(question.referents, [])
                known += [text for text in question.texts if text not in known]
    draws = Draws(scene.seed, scene.id, name)
    for things in draws.shuffle(sorted(texts)):
        chosen = draws.shuffle(texts[things])[: draws.integer_between(1, 2)]
        yield Mention(scene, things, tuple(chosen))
