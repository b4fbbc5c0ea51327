"""Write sample data: still scenes in the layout of gRefCOCO, with one referent, several or none."""

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
from harness.tasks.refer.writer import TWO_TEST_SETS, Mentions, sentence, write_json
from harness.world.draws import Draws
from harness.world.language import Noun
from harness.world.referring import attributes, relations, superlatives
from harness.world.scene import COMBINATIONS, Scene
from harness.world.shapes import World

KINDS = (attributes, relations, superlatives)
ABSENT_PERIOD = 4
"""One mention in so many has no referent."""


def write(world: World, root: Path, *, part_of_split: Mapping[str, Part] = TWO_TEST_SETS) -> None:
    """Write `root/refer_seg/grefcoco` and its images; the file of referents is JSON."""
    refer_root = root / "refer_seg"
    splits = {
        split: list(_with_absent(mentions(world, part, KINDS, name="grefcoco", plural=True)))
        for split, part in part_of_split.items()
    }
    scenes = {mention.scene.id: mention.scene for several in splits.values() for mention in several}
    write_images(
        list(scenes.values()), refer_root / "images/mscoco/images/train2014", name_of=file_name
    )
    folder = refer_root / "grefcoco"
    folder.mkdir()
    write_json(folder / "instances.json", instances(list(scenes.values()), name_of=file_name))
    write_json(folder / "grefs(unc).json", referents(splits))


def _with_absent(all_mentions: Sequence[Mention]) -> Iterator[Mention]:
    """Yield the mentions; every fourth is replaced by phrases without a referent in the image."""
    for index, mention in enumerate(all_mentions):
        if index % ABSENT_PERIOD == ABSENT_PERIOD - 2:
            draws = Draws(mention.scene.seed, mention.scene.id, "nothing")
            yield Mention(
                mention.scene, (), tuple(absent_phrase(mention.scene, draws) for _ in mention.texts)
            )
        else:
            yield mention


def absent_phrase(scene: Scene, draws: Draws) -> str:
    """Return a phrase, such as "the red star", that fits no thing of the scene."""
    phrases = (
        Noun(combination.shape, combination.colour) for combination in draws.shuffle(COMBINATIONS)
    )
    missing = next(noun for noun in phrases if not any(map(noun.could_fit, scene.things)))
    return f"the {missing.words()}"


def referents(splits: Mentions) -> list[dict[str, object]]:
    """Return the content of the file of referents: one entry per mention, ids counted from 1."""
    sent_ids = count(1)
    pairs = [(split, mention) for split, several in splits.items() for mention in several]
    entries: list[dict[str, object]] = []
    for ref_id, (split, mention) in enumerate(pairs, start=1):
        scene = mention.scene
        sentences = [sentence(next(sent_ids), text) for text in mention.texts]
        entries.append(
            {
                "ref_id": ref_id,
                "ann_id": [thing_number(scene, index) for index in mention.things] or [-1],
                "category_id": [category(scene, index) for index in mention.things] or [-1],
                "image_id": number_of(scene),
                "file_name": file_name(scene),
                "split": split,
                "sentences": sentences,
                "sent_ids": [entry["sent_id"] for entry in sentences],
            }
        )
    return entries
