"""Still scenes in the layout of gRefCOCO: expressions with one referent, several, or none."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from harness.tasks.refer.world import (
    Mention,
    Part,
    category,
    file_name,
    instances,
    mentions,
    number_of,
    thing_number,
    write_images,
)
from harness.tasks.refer.writer import GAME, Mentions, sentence, write_json
from harness.world.draws import Draws
from harness.world.language import Noun
from harness.world.referring import attributes, relations, superlatives
from harness.world.scene import COMBINATIONS, Scene
from harness.world.shapes import World

KINDS = (attributes, relations, superlatives)
NOTHING_EVERY = 4
"""One expression in so many means nothing."""


def write(world: World, root: Path, *, parts: Mapping[str, Part] = GAME) -> None:
    """Write `root/refer_seg/grefcoco` and its images; referents are JSON, as officially."""
    place = root / "refer_seg"
    splits = {
        split: list(_with_nothing(mentions(world, part, KINDS, name="grefcoco", plural=True)))
        for split, part in parts.items()
    }
    scenes = {one.scene.id: one.scene for several in splits.values() for one in several}
    write_images(list(scenes.values()), place / "images/mscoco/images/train2014", named=file_name)
    folder = place / "grefcoco"
    folder.mkdir()
    write_json(folder / "instances.json", instances(list(scenes.values()), named=file_name))
    write_json(folder / "grefs(unc).json", referents(splits))


def _with_nothing(several: Sequence[Mention]) -> Iterator[Mention]:
    """Yield the same number of expressions; each fourth has no referent in the image."""
    for place, one in enumerate(several):
        if place % NOTHING_EVERY == NOTHING_EVERY - 2:
            draws = Draws(one.scene.seed, one.scene.id, "nothing")
            yield Mention(one.scene, (), tuple(absent_phrase(one.scene, draws) for _ in one.texts))
        else:
            yield one


def absent_phrase(scene: Scene, draws: Draws) -> str:
    """A phrase that nothing in the scene could be called by."""
    phrases = (Noun(each.shape, each.colour) for each in draws.shuffle(COMBINATIONS))
    missing = next(noun for noun in phrases if not any(map(noun.could_fit, scene.things)))
    return f"the {missing.words()}"


def referents(splits: Mentions) -> list[dict[str, object]]:
    """The content of the file of referents."""
    numbers = count(1)
    pairs = [(split, one) for split, several in splits.items() for one in several]
    return [
        {
            "ref_id": ref_id,
            "ann_id": [thing_number(one.scene, thing) for thing in one.things] or [-1],
            "category_id": [category(one.scene, thing) for thing in one.things] or [-1],
            "image_id": number_of(one.scene),
            "file_name": file_name(one.scene),
            "split": split,
            "sentences": (phrases := [sentence(next(numbers), text) for text in one.texts]),
            "sent_ids": [each["sent_id"] for each in phrases],
        }
        for ref_id, (split, one) in enumerate(pairs, start=1)
    ]
