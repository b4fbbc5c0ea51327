"""Every question with options or a number is read and answered again here, from pixels."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.world.families import FAMILIES, draw_scene
from harness.world.qa import KINDS_OF_QA, QA, every_qa
from harness.world.quiz import called
from harness.world.raster import visible_masks
from harness.world.scene import LEVELS, Scene

from .qa_reader import (
    STILL,
    VIDEO,
    Answer,
    apart,
    best,
    colour,
    count,
    direction,
    exists,
    fitting,
    height,
    middle,
    middle_of_path,
    nearest,
    path,
    scene_of,
    seen,
    shape,
    the,
    thing,
    width,
)

SEEDS = st.integers(0, 2**40)
NUMBERS = {"count", "width", "height", "distance", "path", "enter_count"}


def side(scene: Scene, qa: QA, one: str, other: str, frame: int = 0) -> str:
    axis = 0 if "left" in qa.options else 1
    apart = middle(scene, the(scene, one), frame) - middle(scene, the(scene, other), frame)
    assert abs(apart[axis]) > 0.1 * scene.unit
    return (("left", "right"), ("above", "below"))[axis][int(apart[axis] > 0)]


def corner(scene: Scene, qa: QA, one: str, other: str) -> str:
    x, y = middle(scene, the(scene, one)) - middle(scene, the(scene, other))
    return f"{'lower' if y > 0 else 'upper'} {'right' if x > 0 else 'left'}"


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


def furthest(scene: Scene, qa: QA, where: str) -> str:
    ends = {
        "furthest to the left": (0, -1),
        "furthest to the right": (0, 1),
        "nearest to the top": (1, -1),
        "nearest to the bottom": (1, 1),
    }
    axis, sign = ends[where]
    return max(qa.options, key=lambda words: sign * middle(scene, the(scene, words))[axis])


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
