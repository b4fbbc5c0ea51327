"""Every question with options or a number is read and answered again here, from pixels."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError, UsageError
from harness.world.families import FAMILIES, draw_scene
from harness.world.qa import KINDS_OF_QA, QA, ask_qa, every_qa, interval, visible_frames
from harness.world.quiz import called
from harness.world.raster import render, visible_masks
from harness.world.scene import LEVELS, Background, Scene, Thing
from harness.world.shapes import World, make_world

SEEDS = st.integers(0, 2**40)
STILL = (
    "relation",
    "relation4",
    "size",
    "largest",
    "depth",
    "colour",
    "shape",
    "nearest",
    "extreme",
    "count_choice",
    "exists",
    "count",
    "width",
    "height",
    "distance",
)
VIDEO = ("direction", "speed", "order", "order3", "leaves", "end_relation", "path", "enter_count")
NUMBERS = {"count", "width", "height", "distance", "path", "enter_count"}
SHAPES = "circle|square|triangle|rectangle|diamond|star|cross|hexagon"
LIKE = [{"square", "rectangle"}, {"square", "diamond"}]
"""Shapes that share a name with some people."""

Answer = str | float


# An answerer of its own: names are looked up by attributes, places are read off the masks.


def singular(words: str) -> str:
    return re.sub(r"(cross)es\b|\b(\w+?)s\b(?<!cross)", lambda m: m[1] or m[2], words)


def fitting(scene: Scene, words: str) -> set[int]:
    """The things that words such as `red circle`, `star` or `red object` mean."""
    *colours, shape = words.split()
    assert len(colours) <= 1 and (shape == "object" or re.fullmatch(SHAPES, shape)), words
    found = {
        i
        for i, thing in enumerate(scene.things)
        if shape in ("object", thing.shape)
        and thing.colour in (*colours, thing.colour)
        and (not colours or thing.colour == colours[0])
    }
    doubtful = {
        i
        for i, thing in enumerate(scene.things)
        if {shape, thing.shape} in LIKE and colours in ([], [thing.colour])
    }
    assert not doubtful, f"{words!r} could mean something else"
    return found


def the(scene: Scene, words: str) -> int:
    (index,) = fitting(scene, words)
    return index


def middle(scene: Scene, index: int, frame: int = 0) -> np.ndarray:
    """(x, y) of the whole thing's outline, measured where it is drawn alone."""
    alone = replace(scene, things=(scene.things[index],))
    rows, columns = np.nonzero(visible_masks(alone, frame)[0])
    return np.array([(columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2])


def extent(scene: Scene, index: int) -> tuple[int, int]:
    rows, columns = np.nonzero(visible_masks(scene)[index])
    return int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1


def seen(scene: Scene, index: int) -> list[int]:
    return [k for k in range(scene.frames) if visible_masks(scene, k)[index].any()]


def side(scene: Scene, qa: QA, one: str, other: str, frame: int = 0) -> str:
    axis = 0 if "left" in qa.options else 1
    apart = middle(scene, the(scene, one), frame) - middle(scene, the(scene, other), frame)
    assert abs(apart[axis]) > 0.1 * scene.unit
    return (("left", "right"), ("above", "below"))[axis][int(apart[axis] > 0)]


def corner(scene: Scene, qa: QA, one: str, other: str) -> str:
    x, y = middle(scene, the(scene, one)) - middle(scene, the(scene, other))
    return f"{'lower' if y > 0 else 'upper'} {'right' if x > 0 else 'left'}"


def best(scene: Scene, names: tuple[str, ...], value: Callable[[int], float], clear: float) -> str:
    """The name with the highest value, which is `clear` times the next one or more."""
    order = sorted(names, key=lambda words: value(the(scene, words)), reverse=True)
    first, second = (value(the(scene, words)) for words in order[:2])
    assert first >= clear * second > 0, (names, first, second)
    return order[0]


def by_size(scene: Scene, qa: QA, comparison: str, *_: str) -> str:
    areas = visible_masks(scene).sum((1, 2))
    if comparison.startswith("large"):
        return best(scene, qa.options, lambda index: float(areas[index]), 1.0001)
    return best(scene, qa.options, lambda index: 1 / float(areas[index]), 1.0001)


def in_front(scene: Scene, qa: QA, one: str, other: str) -> str:
    """The one in whose colour the pixels are that both would cover."""
    masks = [
        visible_masks(replace(scene, things=(scene.things[the(scene, words)],)))[0]
        for words in (one, other)
    ]
    shared = masks[0] & masks[1]
    owned = [visible_masks(scene)[the(scene, words)][shared].mean() for words in (one, other)]
    assert shared.sum() >= 24 and max(owned) >= 0.9 and min(owned) == 0
    return (one, other)[int(np.argmax(owned))]


def nearest(scene: Scene, qa: QA, anchor: str) -> str:
    here = middle(scene, the(scene, anchor))

    def nearness(index: int) -> float:
        return 1 / float(np.linalg.norm(middle(scene, index) - here))

    return best(scene, qa.options, nearness, 1.3)


def furthest(scene: Scene, qa: QA, where: str) -> str:
    ends = {
        "furthest to the left": (0, -1),
        "furthest to the right": (0, 1),
        "nearest to the top": (1, -1),
        "nearest to the bottom": (1, 1),
    }
    axis, sign = ends[where]
    return max(qa.options, key=lambda words: sign * middle(scene, the(scene, words))[axis])


def colour(scene: Scene, qa: QA, words: str) -> str:
    """By the most frequent colour among the pixels."""
    values, often = np.unique(
        render(scene)[visible_masks(scene)[the(scene, words)]], axis=0, return_counts=True
    )
    red, green, blue = values[often.argmax()].astype(int)
    known = {
        "red": (214, 32, 36),
        "green": (36, 160, 52),
        "blue": (40, 72, 216),
        "yellow": (244, 220, 40),
        "purple": (140, 44, 172),
        "orange": (248, 132, 20),
        "white": (248, 248, 248),
        "black": (24, 24, 28),
    }
    return next(name for name, value in known.items() if value == (red, green, blue))


def shape(scene: Scene, qa: QA, words: str) -> str:
    name = scene.things[the(scene, words)].shape
    assert not any({name, other} in LIKE for other in qa.options)
    return name


def count(scene: Scene, qa: QA, words: str) -> Answer:
    number = len(fitting(scene, singular(words)))
    return str(number) if qa.options else float(number)


def exists(scene: Scene, qa: QA, words: str) -> str:
    """A thing that the words mean is there, whatever else they could mean."""
    same = [one for one in scene.things if f"{one.colour} {one.shape}" == words]
    return "yes" if same or fitting(scene, words) else "no"


def width(scene: Scene, qa: QA, words: str) -> float:
    return round(100 * extent(scene, the(scene, words))[0] / scene.width + 1e-9)


def height(scene: Scene, qa: QA, words: str) -> float:
    return round(100 * extent(scene, the(scene, words))[1] / scene.height + 1e-9)


def apart(scene: Scene, qa: QA, one: str, other: str, way: str) -> float:
    across, down = abs(middle(scene, the(scene, one)) - middle(scene, the(scene, other)))
    part = across / scene.width if way == "left to right" else down / scene.height
    return round(100 * part + 1e-9)


def direction(scene: Scene, qa: QA, words: str) -> str:
    index = the(scene, words)
    x, y = middle_of_path(scene, index)
    assert not (x and y)
    if not x and not y:
        return "it does not move"
    return (("left", "right") if x else ("up", "down"))[int(x + y > 0)]


def middle_of_path(scene: Scene, index: int) -> tuple[int, int]:
    """What the centre moves by in a frame."""
    thing = scene.things[index]
    (x0, y0), (x1, y1) = thing.centre(0), thing.centre(1)
    return x1 - x0, y1 - y0


def faster(scene: Scene, qa: QA, one: str, other: str) -> str:
    def speed(index: int) -> float:
        return float(np.hypot(*middle_of_path(scene, index)))

    return best(scene, (one, other), speed, 1.4)


def first_in(scene: Scene, qa: QA, one: str, other: str) -> str:
    times = {words: seen(scene, the(scene, words))[0] for words in (one, other)}
    assert min(times.values()) > 0 and abs(times[one] - times[other]) >= 2
    return min(times, key=times.__getitem__)


def order_in(scene: Scene, qa: QA, *names: str) -> str:
    times = {words: seen(scene, the(scene, words))[0] for words in names}
    ordered = sorted(names, key=times.__getitem__)
    assert min(times.values()) > 0 and min(np.diff([times[words] for words in ordered])) >= 2
    return ", ".join(ordered)


def does_leave(scene: Scene, qa: QA, words: str) -> str:
    return "no" if scene.frames - 1 in seen(scene, the(scene, words)) else "yes"


def first_out(scene: Scene, qa: QA, one: str, other: str) -> str:
    times = {words: seen(scene, the(scene, words))[-1] for words in (one, other)}
    assert max(times.values()) < scene.frames - 1 and abs(times[one] - times[other]) >= 2
    return min(times, key=times.__getitem__)


def at_the_end(scene: Scene, qa: QA, one: str, _: str, other: str) -> str:
    return side(scene, qa, one, other, scene.frames - 1)


def path(scene: Scene, qa: QA, words: str, way: str) -> float:
    index = the(scene, words)
    x, y = abs(middle(scene, index, scene.frames - 1) - middle(scene, index))
    part = x / scene.width if way == "to the side" else y / scene.height
    return round(100 * part + 1e-9)


def coming(scene: Scene, qa: QA) -> float:
    return float(sum(0 not in seen(scene, index) for index in range(len(scene.things))))


A = r"the ((?:\w+ )?\w+)"
RULES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("relation", rf"Is {A} to the left or to the right of {A}\?", side),
    ("relation", rf"Is {A} above or below {A}\?", side),
    ("relation4", rf"Where is {A}, seen from {A}\?", corner),
    ("size", rf"Which is (larger|smaller), {A} or {A}\?", by_size),
    ("largest", r"Which of these is the (largest|smallest)\?", by_size),
    ("depth", rf"Which is in front, {A} or {A}\?", in_front),
    ("nearest", rf"Which of these is nearest to {A}\?", nearest),
    ("extreme", r"Which of these is (furthest .+|nearest .+)\?", furthest),
    ("colour", rf"What colour is {A}\?", colour),
    ("shape", rf"What shape is {A}\?", shape),
    ("count", r"How many (.+) are there in the picture\?", count),
    ("count_choice", r"How many (.+) are there in the picture\?", count),
    ("exists", r"Is there an? (.+) in the picture\?", exists),
    ("width", rf"How wide is {A}, in percent of the picture's width\?", width),
    ("height", rf"How high is {A}, in percent of the picture's height\?", height),
    (
        "distance",
        rf"How far apart are the centres of {A} and {A} from (left to right), in percent "
        r"of the picture's width\?",
        apart,
    ),
    (
        "distance",
        rf"How far apart are the centres of {A} and {A} from (top to bottom), in percent "
        r"of the picture's height\?",
        apart,
    ),
    ("direction", rf"In which direction does {A} move\?", direction),
    ("speed", rf"Which moves faster, {A} or {A}\?", faster),
    ("order", rf"Which comes into the picture first, {A} or {A}\?", first_in),
    ("order3", rf"In which order do {A}, {A} and {A} come into the picture\?", order_in),
    ("leaves", rf"Does {A} leave the picture\?", does_leave),
    ("leaves", rf"Which leaves the picture first, {A} or {A}\?", first_out),
    (
        "end_relation",
        rf"At the end of the video, is {A} (above or below|to the left or to the "
        rf"right of) {A}\?",
        at_the_end,
    ),
    (
        "path",
        rf"How far does {A} move (to the side) from the first frame to the last, in percent "
        r"of the picture's width\?",
        path,
    ),
    (
        "path",
        rf"How far does {A} move (up or down) from the first frame to the last, in percent "
        r"of the picture's height\?",
        path,
    ),
    ("enter_count", r"How many objects come into the picture\?", coming),
)


def answered(scene: Scene, qa: QA) -> Answer:
    for kind, pattern, rule in RULES:
        match = re.fullmatch(pattern, qa.text) if kind == qa.kind else None
        if match:
            return rule(scene, qa, *match.groups())
    raise AssertionError(f"no rule reads {qa.text!r}")


def check(scene: Scene) -> None:
    texts = set()
    for qa in every_qa(scene):
        assert answered(scene, qa) == qa.answer, (qa, scene)
        assert qa.is_number == (qa.kind in NUMBERS) == (not qa.options)
        if qa.is_number:
            assert isinstance(qa.answer, float) and qa.answer == round(qa.answer) >= 1
            assert qa.answer >= 5 or qa.kind in ("count", "enter_count")
            assert ("percent" in qa.text) == (qa.kind not in ("count", "enter_count"))
        else:
            assert 2 <= len(qa.options) <= 4 and len(set(qa.options)) == len(qa.options)
            assert qa.options["ABCD".index(qa.letter)] == qa.answer
        output = f"{qa.text} {' '.join(qa.options)}"
        places = [output.find(words) for _, words in qa.named]
        assert len({index for index, _ in qa.named}) == len(qa.named)
        if qa.kind not in ("count", "count_choice", "exists", "enter_count"):
            assert all(fitting(scene, words) == {index} for index, words in qa.named)
            assert min(places, default=0) >= 0
        texts.add((qa.kind, qa.text, frozenset(qa.options)))
    assert len(texts) == len(every_qa(scene))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(["qa", "still", "referring"]), st.integers(0, 8))
def test_answers_about_stills_are_those_that_another_reader_finds(
    seed: int, family: str, index: int
) -> None:
    check(draw_scene(seed, family=family, split="val", index=index))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(["qa_video", "arrivals", "video"]), st.integers(0, 8))
def test_answers_about_videos_are_those_that_another_reader_finds(
    seed: int, family: str, index: int
) -> None:
    check(draw_scene(seed, family=family, split="train", index=index))


def test_every_family_has_its_kinds() -> None:
    for family in ("still", "count", "countbench", "qa", "referring"):
        assert tuple(KINDS_OF_QA[family]) == STILL
    for family in ("video", "qa_video", "arrivals"):
        assert tuple(KINDS_OF_QA[family]) == VIDEO


# The page about the world

PAGE = Path(__file__).parents[2] / "docs" / "shapes.md"


def test_the_page_names_every_family_kind_and_level() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds = {one for kinds in KINDS_OF_QA.values() for one in kinds}
    assert set(re.findall(r"`(\w+)`", text)) >= {*FAMILIES, *kinds}
    assert all(f" {level} " in text for level in LEVELS)


def test_the_generator_on_the_page_works() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {"Scene": Scene, "Iterator": Iterator, "QA": QA, "called": called}
    exec(code, names)
    scene = scene_of(thing("triangle", "red", 40, 40), thing("circle", "blue", 120, 120))
    (qa,) = names["corners"](scene)  # type: ignore[operator]
    assert (qa.text, qa.answer) == ("How many corners has the triangle?", 3.0)


def test_examples_on_the_page_are_read_by_the_rules_above() -> None:
    """Each row of the tables of choices and numbers begins with its kinds and has a question."""
    text = PAGE.read_text(encoding="utf-8").partition("## Choices and numbers")[2]
    rows = re.findall(r"^\| (`.+?) \| (.+?) \| .+ \|$", text, re.MULTILINE)
    named = [kind for kinds, _ in rows for kind in re.findall(r"`(\w+)`", kinds)]
    assert sorted(named) == sorted((*STILL, *VIDEO))
    for kinds, example in rows:
        for question in re.findall(r"[^?]+\?", example):
            assert any(
                re.fullmatch(pattern, question.strip())
                for kind, pattern, _ in RULES
                if f"`{kind}`" in kinds
            ), question


# What is asked


ASKED = {"qa": 600, "qa_video": 100, "arrivals": 100}


@cache
def scenes_of(family: str) -> tuple[Scene, ...]:
    number = ASKED[family]
    return tuple(draw_scene(4, family=family, split="val", index=index) for index in range(number))


def of_kinds() -> Iterator[QA]:
    """Two questions of each of many scenes."""
    for family in ASKED:
        yield from asked(family)


@cache
def asked(family: str) -> tuple[QA, ...]:
    return tuple(qa for scene in scenes_of(family) for qa in ask_qa(scene, number=2))


def test_every_kind_is_asked_and_none_much_more_than_others() -> None:
    often = Counter(qa.kind for qa in of_kinds() if qa.kind in STILL)
    assert set(often) == set(STILL) and max(often.values()) < 0.15 * often.total()
    assert min(often.values()) > 0.01 * often.total()
    moving = Counter(qa.kind for qa in of_kinds() if qa.kind in VIDEO)
    assert set(moving) == set(VIDEO) and max(moving.values()) < 0.3 * moving.total()


def is_even(often: Mapping[object, int], places: int) -> bool:
    """Whether numbers differ no more than by chance: chi-square below a quantile of 1 in 10,000."""
    total = sum(often.values())
    square = sum((often.get(place, 0) - total / places) ** 2 for place in range(places))
    return square * places / total < {2: 15.2, 3: 18.5, 4: 21.2, 5: 23.6}[places]


def test_no_letter_is_right_more_often() -> None:
    letters: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for qa in of_kinds():
        if not qa.is_number:
            letters[qa.kind, len(qa.options)]["ABCD".index(qa.letter)] += 1
    assert len(letters) > 15
    for (kind, places), often in letters.items():
        assert is_even(often, places), (kind, often)


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("relation", ("left", "right", "above", "below")),
        ("relation4", ("upper left", "upper right", "lower left", "lower right")),
        ("exists", ("yes", "no")),
        ("direction", ("left", "right", "up", "down", "it does not move")),
        ("end_relation", ("left", "right", "above", "below")),
    ],
)
def test_no_word_is_right_more_often(kind: str, answers: tuple[str, ...]) -> None:
    often = Counter(answers.index(str(qa.answer)) for qa in of_kinds() if qa.kind == kind)
    assert often.total() > 40 and is_even(often, len(answers)), often


@pytest.mark.parametrize("kind", ["size", "depth", "speed", "order"])
def test_neither_of_two_is_right_more_often_by_its_place_in_the_text(kind: str) -> None:
    first = Counter(int(qa.named[0][1] != qa.answer) for qa in of_kinds() if qa.kind == kind)
    assert first.total() > 20 and is_even(first, 2), first


def test_guessing_a_number_by_its_place_among_the_options_does_not_help() -> None:
    ranks: Counter[int] = Counter()
    for scene in scenes_of("qa")[:300]:
        (qa,) = ask_qa(scene, kinds=["count_choice"])
        numbers = sorted(map(int, qa.options))
        assert numbers == list(range(numbers[0], numbers[0] + 4)) and numbers[0] >= 0
        ranks[numbers.index(int(qa.answer))] += 1
    assert max(ranks.values()) < 0.4 * 300 and min(ranks[rank] for rank in range(4)) > 0.1 * 300


def test_staying_and_leaving_are_about_as_frequent() -> None:
    often: Counter[str] = Counter()
    for scene in (draw_scene(6, family="qa_video", split="val", index=k) for k in range(200)):
        for qa in ask_qa(scene, kinds=["leaves"]):
            often[qa.answer if qa.answer in ("yes", "no") else "first"] += 1
    assert often.total() > 40 and 0.5 < often["yes"] / often["no"] < 2


# How it is asked


def test_questions_do_not_depend_on_how_many_are_asked() -> None:
    scene = draw_scene(1, family="qa", split="test", index=4)
    ten = ask_qa(scene, number=10)
    assert ask_qa(scene, number=4) == ten[:4] == ask_qa(replace(scene), number=4)
    assert len({qa.text for qa in ten}) == 10
    everything = ask_qa(scene, number=10_000)
    assert {qa.text for qa in everything} == {qa.text for qa in every_qa(scene)}


def test_only_the_kinds_asked_for_are_asked() -> None:
    scene = draw_scene(1, family="qa", split="test", index=4)
    assert {qa.kind for qa in ask_qa(scene, number=9, kinds={"count", "width", "order"})} == {
        "count",
        "width",
    }
    assert ask_qa(scene, kinds=["order"]) == ()
    with pytest.raises(UsageError, match=r"'colours': .*relation, relation4"):
        ask_qa(scene, kinds=["colours"])


def scene_of(*things: Thing, frames: int = 1) -> Scene:
    return Scene(
        seed=0,
        family="qa_video" if frames > 1 else "qa",
        split="val",
        index=0,
        width=168,
        height=168,
        background=Background("plain", 1),
        things=things,
        frames=frames,
    )


def thing(shape: str, colour: str, x: int, y: int, **more: object) -> Thing:
    made = Thing(shape=shape, colour=colour, size="small", x=x, y=y, depth=0)  # type: ignore[arg-type]
    return replace(made, **more)  # type: ignore[arg-type]


def of(scene: Scene, kind: str) -> dict[str, Answer]:
    return {qa.text: qa.answer for qa in every_qa(scene) if qa.kind == kind}


@pytest.mark.parametrize(("distance", "said"), [(21, True), (20, False), (0, False)])
def test_a_side_is_only_asked_for_where_it_is_clear(distance: int, said: bool) -> None:
    scene = scene_of(thing("star", "green", 80, 80), thing("cross", "blue", 80 + distance, 30))
    found = of(scene, "relation")
    assert ("Is the star to the left or to the right of the cross?" in found) == said
    assert found["Is the star above or below the cross?"] == "below"
    assert found["Is the cross above or below the star?"] == "above"
    assert ("Where is the star, seen from the cross?" in of(scene, "relation4")) == said


def test_what_is_covered_is_not_measured_and_what_covers_is_in_front() -> None:
    back = thing("square", "red", 80, 80, size="large", depth=1)
    scene = scene_of(back, thing("circle", "blue", 105, 80))
    assert set(of(scene, "width")) == {"How wide is the circle, in percent of the picture's width?"}
    assert list(of(scene, "depth").values()) == ["circle"]
    apart = scene_of(back, thing("circle", "blue", 130, 80))
    assert len(of(apart, "width")) == 2 and not of(apart, "depth")


def test_the_middle_of_a_triangle_is_not_asked_for_from_top_to_bottom() -> None:
    texts = of(
        scene_of(thing("triangle", "red", 40, 40), thing("cross", "blue", 90, 120)), "distance"
    )
    assert [text for text in texts if "left to right" in text] == list(texts)


def test_a_name_that_two_things_could_have_is_never_used() -> None:
    scene = scene_of(
        thing("square", "red", 40, 40),
        thing("diamond", "red", 120, 40),
        thing("circle", "blue", 40, 120),
    )
    words = " ".join(f"{qa.text} {qa.options}" for qa in every_qa(scene) if qa.kind != "shape")
    assert "circle" in words and not re.search("the (red )?(square|diamond)", words)
    assert of(scene, "exists")["Is there a blue circle in the picture?"] == "yes"
    assert "Is there a blue square in the picture?" in of(scene, "exists")


def test_videos_are_asked_about_only_where_it_is_clear() -> None:
    right = thing("circle", "red", 40, 40, dx=6)
    aslant = thing("star", "blue", 120, 120, dx=2, dy=2)
    slow = thing("cross", "blue", 120, 40, dy=5)
    scene = scene_of(right, aslant, slow, frames=8)
    assert set(of(scene, "direction")) == {
        "In which direction does the circle move?",
        "In which direction does the cross move?",
    }
    speeds = of(scene, "speed")
    assert len(speeds) == 2 and not any("circle" in text and "cross" in text for text in speeds)
    assert set(speeds.values()) == {"circle", "cross"}
    assert not of(scene, "enter_count") and not of(scene, "leaves")


def test_when_a_thing_is_seen() -> None:
    leaves = thing("circle", "red", 100, 40, dx=20)
    comes = thing("star", "blue", -60, 120, dx=20)
    stays = thing("cross", "green", 80, 80)
    scene = scene_of(leaves, comes, stays, frames=8)
    for index in range(3):
        assert list(visible_frames(scene, index)) == seen(scene, index)
        assert interval(scene, index) == (seen(scene, index)[0], seen(scene, index)[-1])
    assert interval(scene, 0) == (0.0, 3.0) and interval(scene, 2) == (0.0, 7.0)
    assert interval(scene, 1).start == 3.0
    assert of(scene, "leaves")["Does the circle leave the picture?"] == "yes"
    assert of(scene, "leaves")["Does the cross leave the picture?"] == "no"
    assert of(scene, "enter_count") == {"How many objects come into the picture?": 1.0}


def test_a_question_without_its_answer_among_the_options_cannot_be_made() -> None:
    for options, answer in ((("a", "b"), "c"), (("a", "a"), "a"), ((), "a")):
        with pytest.raises(HarnessError, match="'x'"):
            QA(kind="k", text="x", options=options, answer=answer, named=())
    with pytest.raises(HarnessError, match=r"'x': .*number"):
        _ = QA(kind="k", text="x", answer=2.0, named=()).letter


def test_worlds_have_quizzes_where_they_have_no_questions(small: World) -> None:
    for family in ("qa", "qa_video", "arrivals"):
        for split in ("train", "val", "test"):
            examples = small.examples_of(family, split)
            assert sum(len(one.quizzes) for one in examples) == (36 if split == "train" else 9)
            assert not any(one.questions for one in examples)
            assert all(
                one.quizzes == ask_qa(one.scene, number=4)[: len(one.quizzes)] for one in examples
            )
    for family in ("still", "video", "count", "referring"):
        assert not any(one.quizzes for one in small.examples_of(family, "val"))
        assert all(one.questions for one in small.examples_of(family, "val"))


def test_a_world_draws_only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def noted(seed: int, *, family: str, split: str, index: int) -> Scene:
        drawn.append(family)
        return draw_scene(seed, family=family, split=split, index=index)  # type: ignore[arg-type]

    monkeypatch.setattr("harness.world.shapes.draw_scene", noted)
    world = make_world(seed=1, size=2)
    assert drawn == []
    first = world.examples_of("qa", "val")
    assert set(drawn) == {"qa"}
    assert world.examples_of("qa", "val") is first
    with pytest.raises(KeyError):
        world.examples_of("countbench", "val")
