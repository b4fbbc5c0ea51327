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
    scenes = {mention.scene.id: mention.scene for several in splits.values() for mention in several}
    write_images(list(scenes.values()), place / "images/mscoco/images/train2014", named=file_name)
    folder = place / "grefcoco"
    folder.mkdir()
    write_json(folder / "instances.json", instances(list(scenes.values()), named=file_name))
    write_json(folder / "grefs(unc).json", referents(splits))


def _with_nothing(several: Sequence[Mention]) -> Iterator[Mention]:
    """Yield the same number of expressions; each fourth has no referent in the image."""
    for place, mention in enumerate(several):
        if place % NOTHING_EVERY == NOTHING_EVERY - 2:
            draws = Draws(mention.scene.seed, mention.scene.id, "nothing")
            yield Mention(
                mention.scene, (), tuple(absent_phrase(mention.scene, draws) for _ in mention.texts)
            )
        else:
            yield mention


def absent_phrase(scene: Scene, draws: Draws) -> str:
    """A phrase that nothing in the scene could be called by."""
    phrases = (
        Noun(combination.shape, combination.colour) for combination in draws.shuffle(COMBINATIONS)
    )
    missing = next(noun for noun in phrases if not any(map(noun.could_fit, scene.things)))
    return f"the {missing.words()}"


def referents(splits: Mentions) -> list[dict[str, object]]:
    """The content of the file of referents."""
    numbers = count(1)
    pairs = [(split, mention) for split, several in splits.items() for mention in several]
    return [
        {
            "ref_id": ref_id,
            "ann_id": [thing_number(mention.scene, thing) for thing in mention.things] or [-1],
            "category_id": [category(mention.scene, thing) for thing in mention.things] or [-1],
            "image_id": number_of(mention.scene),
            "file_name": file_name(mention.scene),
            "split": split,
            "sentences": (phrases := [sentence(next(numbers), text) for text in mention.texts]),
            "sent_ids": [phrase["sent_id"] for phrase in phrases],
        }
        for ref_id, (split, mention) in enumerate(pairs, start=1)
    ]
