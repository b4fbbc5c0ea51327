"""Every text is read again here, by another reader, and its referents are found from scratch."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.world.families import draw_scene
from harness.world.language import Noun
from harness.world.questions import KINDS, ask_questions, every_question, wordings_of
from harness.world.raster import visible_masks
from harness.world.scene import Scene, Thing
from harness.world.shapes import QUIZ_FAMILIES, World

from .qa_reader import scene_of, thing

SEEDS = st.integers(0, 2**40)
SHAPES = ("circle", "square", "triangle", "rectangle", "diamond", "star", "cross", "hexagon")
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
SIZES = {"small": "small", "medium-sized": "medium", "large": "large"}

KNOWLEDGE: dict[str, set[str]] = {
    "What would roll down a slope?": {"circle"},
    "could serve as a wheel": {"circle"},
    "could serve as wheels": {"circle"},
    "no corners at all": {"circle"},
    "no straight side": {"circle"},
    "three corners": {"triangle"},
    "three sides": {"triangle"},
    "roof of a house": {"triangle"},
    "four corners?": {"square", "rectangle", "diamond"},
    "four sides?": {"square", "rectangle", "diamond"},
    "four sides, all equally long": {"square", "diamond"},
    "four sides of one length": {"square", "diamond"},
    "six corners": {"hexagon"},
    "six sides": {"hexagon"},
    "of a honeycomb": {"hexagon"},
    "five points": {"star"},
    "Christmas tree": {"star"},
    "plus sign": {"cross"},
    "first-aid kit": {"cross"},
    "addition": {"cross"},
    "suit of playing cards": {"diamond"},
    "on one corner": {"diamond"},
    "fresh grass?": {"green"},
    "banana's peel": {"green"},
    "spinach": {"green"},
    "ripe tomato": {"red"},
    "blood": {"red"},
    "means stop": {"red"},
    "ripe lemon": {"yellow"},
    "sunflower": {"yellow"},
    "clear sky": {"blue"},
    "sea on a map": {"blue"},
    "fresh snow": {"white"},
    "milk": {"white"},
    "chalk": {"white"},
    "coal": {"black"},
    "moonless night": {"black"},
    "carrot": {"orange"},
    "pumpkin": {"orange"},
    "aubergine": {"purple"},
    "lavender": {"purple"},
    "plums": {"purple"},
    "blue and yellow paint": {"green"},
    "red and yellow paint": {"orange"},
    "red and blue paint": {"purple"},
}

WHERE = {
    "to the left": (-1, 0),
    "to the right": (1, 0),
    "upwards": (0, -1),
    "downwards": (0, 1),
    "to the top left": (-1, -1),
    "to the top right": (1, -1),
    "to the bottom left": (-1, 1),
    "to the bottom right": (1, 1),
}

Found = set[int]


def named(scene: Scene, words: str) -> Found:
    """What a noun phrase without a clause fits."""
    fitting = set(range(len(scene.things)))
    for word in re.findall(r"[a-z-]+", words):
        singular = next((s for s in SHAPES if word in (s, f"{s}s", f"{s}es")), None)
        if singular:
            fitting &= {i for i, t in enumerate(scene.things) if t.shape == singular}
        elif word in COLOURS:
            fitting &= {i for i, t in enumerate(scene.things) if t.colour == word}
        elif word in SIZES:
            fitting &= {i for i, t in enumerate(scene.things) if t.size == SIZES[word]}
        else:
            allowed = ("object", "objects", "the", "one", "only", "all", "every", "that", "is")
            assert word in (*allowed, "are", "and"), f"unknown word {word!r} in {words!r}"
    return fitting


def direction(text: str) -> tuple[int, int]:
    """Axis and sign of a word for one of the four ways."""
    ways = {"left": (0, -1), "right": (0, 1)}
    ways |= dict.fromkeys(("above", "higher up than", "top", "topmost"), (1, -1))
    ways |= dict.fromkeys(("below", "lower down than", "bottom", "lowest"), (1, 1))
    ways |= {"leftmost": (0, -1), "rightmost": (0, 1)}
    ways |= {f"{to}{side} of": ways[side] for to in ("", "to the ") for side in ("left", "right")}
    return ways[text]


def place(scene: Scene, index: int, axis: int) -> int:
    return (scene.things[index].x, scene.things[index].y)[axis]


def furthest(scene: Scene, members: Found, where: str) -> Found:
    axis, sign = direction(where)
    return {max(members, key=lambda index: sign * place(scene, index, axis))}


def moving(scene: Scene, members: Found, verb: str) -> Found:
    things = scene.things
    last = scene.frames - 1
    if re.fullmatch(r"stands? still|do(es)? not move", verb):
        return {i for i in members if (things[i].dx, things[i].dy) == (0, 0)}
    if re.fullmatch(r"moves?|changes? (its|their) place", verb):
        return {i for i in members if (things[i].dx, things[i].dy) != (0, 0)}
    shown = np.stack([visible_masks(scene, frame).any((1, 2)) for frame in (0, last)])
    if re.fullmatch(r"(leaving|leaves?) the picture|go(es)? out of view", verb):
        return {i for i in members if shown[0, i] and not shown[1, i]}
    if re.fullmatch(r"(coming|comes?) into (the picture|view)", verb):
        return {i for i in members if not shown[0, i] and shown[1, i]}
    dx, dy = WHERE[re.fullmatch(r"(?:moving|moves?) (.+)", verb)[1]]  # type: ignore[index]
    return {i for i in members if (np.sign(things[i].dx), np.sign(things[i].dy)) == (dx, dy)}


VERBS = "|".join(
    (
        rf"(?:moving|moves?)(?: (?:{'|'.join(WHERE)}))?",
        r"changes? (?:its|their) place",
        r"stands? still",
        r"do(?:es)? not move",
        r"(?:leaving|leaves?) the picture",
        r"go(?:es)? out of view",
        r"(?:coming|comes?) into (?:the picture|view)",
    )
)


def fastest(scene: Scene, members: Found) -> Found:
    def speed(index: int) -> int:
        return scene.things[index].dx ** 2 + scene.things[index].dy ** 2

    return {max(members, key=speed)}


def alike(scene: Scene, attribute: str, name: str) -> Found:
    (anchor,) = named(scene, name)
    value = getattr(scene.things[anchor], attribute)
    same = {i for i, thing in enumerate(scene.things) if getattr(thing, attribute) == value}
    return same - {anchor}


def lonely(scene: Scene, attribute: str) -> Found:
    values = [getattr(thing, attribute) for thing in scene.things]
    return {index for index, value in enumerate(values) if Counter(values)[value] == 1}


def by_room(scene: Scene, word: str) -> Found:
    areas = visible_masks(scene).sum((1, 2))
    return {int(areas.argmax() if word in ("most", "biggest") else areas.argmin())}


def known(scene: Scene, text: str) -> Found:
    (values,) = {frozenset(known) for clue, known in KNOWLEDGE.items() if clue in text}
    return {i for i, t in enumerate(scene.things) if t.shape in values or t.colour in values}


def related(scene: Scene, words: str, where: str, name: str) -> Found:
    (anchor,) = named(scene, name)
    axis, sign = direction(where)
    origin = place(scene, anchor, axis)
    members = named(scene, words) - {anchor}
    there = {index for index in members if sign * (place(scene, index, axis) - origin) > 0}
    assert there != members, "the relation excludes nothing"
    return there


def superlative(scene: Scene, where: str, words: str) -> Found:
    return furthest(scene, named(scene, words), where)


def superlative_after(scene: Scene, words: str, where: str) -> Found:
    return superlative(scene, where, words)


def at_the_edge(scene: Scene, where: str) -> Found:
    return furthest(scene, set(range(len(scene.things))), where)


def fastest_of(scene: Scene, words: str) -> Found:
    return fastest(scene, named(scene, words))


def moving_of(scene: Scene, words: str, verb: str) -> Found:
    return moving(scene, named(scene, words), verb)


TO_THE = "to the left of|to the right of|left of|right of"
RELATION = f"{TO_THE}|above|below|higher up than|lower down than"
EXTREME = "leftmost|rightmost|topmost|lowest"
SIDES = "left|right|top|bottom"

Grammar = tuple[tuple[str, Callable[..., Found]], ...]
STILL: Grammar = (
    (rf"(?:the|all) (.+?) ({RELATION}) the (.+)", related),
    (rf"the ({EXTREME}) (.+)", superlative),
    (rf"the (.+) (?:furthest to|nearest to) the ({SIDES})", superlative_after),
    (rf"Which object is nearest to the ({SIDES}) edge of the picture\?", at_the_edge),
    (rf"Which object would you meet first if you came in from the ({SIDES})\?", at_the_edge),
    (r"Which object takes up the (most|least) room\?", by_room),
    (r"Which object is the (biggest|smallest) one\?", by_room),
    (r"Which object has a (colour|shape) that no other object has\?", lonely),
    (r"Which object is the only one of its (colour|shape)\?", lonely),
    (r"Which other objects? (?:has|have) the same (colour|shape) as the (.+)\?", alike),
    (r"(?:What shares its|Which objects share their) (colour|shape) with the (.+)\?", alike),
    (r"(W.+\?)", known),
    (r"(.+)", named),
)
VIDEO: Grammar = (
    (r"the fastest (.+)", fastest_of),
    (r"the (.+) that moves fastest", fastest_of),
    (rf"(?:the|all|Which) (.+?) (?:that )?({VERBS})\??", moving_of),
    (r"(.+)", named),
)
COUNT: Grammar = (
    (r"How many (.+) (?:are there|can be seen) in this image\?", named),
    (r"What is the number of (.+) in this image\?", named),
)
GRAMMARS = {
    **{"still": STILL, "video": VIDEO, "count": COUNT, "countbench": COUNT},
    "referring": STILL,
}


def read(scene: Scene, text: str) -> Found:
    for pattern, rule in GRAMMARS[scene.family]:
        match = re.fullmatch(pattern, text)
        if match:
            return rule(scene, *match.groups())
    raise AssertionError(f"no rule reads {text!r}")


def check(scene: Scene) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for question in every_question(scene):
        kinds[question.kind] += 1
        assert question.referents == tuple(sorted(set(question.referents))) != ()
        assert question.is_sentence == question.text.endswith("?")
        assert len(set(question.texts)) == len(question.texts) <= 3
        for text in question.texts:
            assert read(scene, text) == set(question.referents), (scene, text)
            if text.startswith("the ") and not re.search(" are ", text):
                assert question.count == 1
            if text.startswith(("all ", "every ")):
                assert question.count > 1
    return kinds


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(["still", "referring"]))
def test_questions_about_stills_mean_what_another_reader_takes_them_to_mean(
    seed: int, family: str
) -> None:
    check(draw_scene(seed, family=family, split="val", index=0))


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_questions_about_videos_mean_what_another_reader_takes_them_to_mean(seed: int) -> None:
    check(draw_scene(seed, family="video", split="train", index=0))


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from(["count", "countbench"]), st.integers(0, 30))
def test_counts_mean_what_another_reader_counts(seed: int, family: str, index: int) -> None:
    scene = draw_scene(seed, family=family, split="test", index=index)
    check(scene)
    (question,) = ask_questions(scene)
    assert 2 <= question.count <= 10
    assert question.label and question.text == f"How many {question.label} are there in this image?"


def test_every_kind_of_question_occurs_in_the_world(world: World) -> None:
    requested = Counter(
        question.kind
        for family, split in world.examples
        if family not in QUIZ_FAMILIES
        for example in world.examples_of(family, split)
        for question in example.questions
    )
    expected = {"attributes", "relation", "superlative", "riddle", "likeness", "odd_one"}
    assert set(requested) == expected | {"extreme", "motion", "speed", "count"}
    assert len({kind for kinds in KINDS.values() for kind in kinds}) == len(requested)


def test_stills_are_asked_about_in_phrases_and_in_sentences(world: World) -> None:
    examples = world.examples_of("still", "train")
    sentences = sum(example.questions[0].is_sentence for example in examples)
    assert 0.3 * len(examples) < sentences < 0.7 * len(examples)
    several = sum(example.questions[0].count > 1 for example in examples)
    assert several > 0.05 * len(examples)


def test_counts_are_spread_evenly_from_two_to_ten(world: World) -> None:
    counts = Counter(example.questions[0].count for example in world.examples_of("count", "train"))
    assert set(counts) == set(range(2, 11))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_one_scene_is_asked_no_text_twice(world: World) -> None:
    for example in world.examples_of("video", "train"):
        texts = [question.text for question in example.questions]
        assert len(set(texts)) == len(texts)


def test_wordings_begin_with_the_text_and_are_one_to_three(world: World) -> None:
    numbers = Counter()
    for example in world.examples_of("still", "train"):
        question = example.questions[0]
        texts = wordings_of(question, example.scene)
        assert texts[0] == question.text and set(texts) <= set(question.texts)
        assert len(set(texts)) == len(texts)
        numbers[len(texts)] += 1
    assert set(numbers) == {1, 2, 3}


def still_of(*things: Thing, frames: int = 1) -> Scene:
    return scene_of(*things, frames=frames, family="video" if frames > 1 else "still")


def texts_of(scene: Scene) -> set[str]:
    return {text for question in every_question(scene) for text in question.texts}


def test_a_rectangle_is_not_asked_for_where_a_square_is_one_too() -> None:
    square, bar = thing("square", "red", 40, 40), thing("rectangle", "red", 120, 40)
    alone = texts_of(still_of(bar, thing("circle", "blue", 120, 120)))
    assert {"the rectangle", "the red rectangle"} <= alone
    both = texts_of(still_of(square, bar, thing("circle", "blue", 120, 120)))
    assert not {"the rectangle", "the red rectangle", "the square"} & both
    assert "all red objects" in both


@pytest.mark.parametrize(("distance", "said"), [(60, True), (21, True), (10, False), (-30, False)])
def test_a_relation_is_only_said_where_it_is_clear(distance: int, said: bool) -> None:
    anchor = thing("star", "green", 80, 80)
    one = thing("square", "blue", 80 - distance, 30)
    other = thing("square", "blue", 150, 140)
    found = texts_of(still_of(anchor, one, other))
    assert ("the blue square left of the star" in found) == said


def test_a_size_is_only_said_where_it_compares() -> None:
    small, large = thing("circle", "red", 40, 40), thing("circle", "red", 120, 40, size="large")
    medium = thing("circle", "red", 80, 120, size="medium")
    lonely_one = thing("star", "blue", 140, 140, size="large")
    assert "the small circle" in texts_of(still_of(small, large, lonely_one))
    assert "the large star" not in texts_of(still_of(small, large, lonely_one))
    assert "the medium-sized circle" not in texts_of(still_of(small, medium, lonely_one))
    assert "the medium-sized circle" in texts_of(still_of(small, medium, large))


def test_the_biggest_is_only_asked_for_where_one_is_clearly_so() -> None:
    text = "Which object is the biggest one?"
    large, small = thing("square", "red", 40, 40, size="large"), thing("circle", "blue", 120, 40)
    medium = thing("square", "white", 120, 120, size="medium")
    thin = thing("star", "red", 40, 40, size="large")  # of about a medium square's area
    assert text in texts_of(still_of(large, small, medium))
    assert text not in texts_of(still_of(large, small, replace(medium, size="large")))
    assert text not in texts_of(still_of(thin, small, medium))


def test_moving_to_the_right_is_not_said_beside_something_that_moves_aslant() -> None:
    right, resting = thing("circle", "red", 40, 40, dx=5), thing("circle", "blue", 120, 120)
    aslant = thing("circle", "green", 40, 80, dx=5, dy=4)
    assert "the circle moving to the right" in texts_of(still_of(right, resting, frames=8))
    found = texts_of(still_of(right, resting, aslant, frames=8))
    assert "the circle moving to the right" not in found
    assert "the circle moving to the bottom right" in found


def test_motion_is_only_asked_about_where_it_matters() -> None:
    right, resting = thing("circle", "red", 40, 40, dx=5), thing("star", "blue", 120, 120)
    found = texts_of(still_of(right, resting, frames=8))
    assert "the object that stands still" in found
    assert "the star that stands still" not in found


def test_nouns_have_their_plurals() -> None:
    assert Noun("cross", "red", "medium").words(plural=True) == "medium-sized red crosses"
    assert Noun(None, "blue").words() == "blue object"
    assert Noun("hexagon").words(plural=True) == "hexagons"
