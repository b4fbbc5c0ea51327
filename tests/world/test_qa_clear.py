"""Questions are asked only where their answers are clear."""

import re
from dataclasses import replace

import pytest

from harness.errors import HarnessError, UsageError
from harness.world.families import draw_scene
from harness.world.qa import QA, ask_qa, every_qa, interval, visible_frames
from harness.world.scene import Scene
from harness.world.shapes import World, make_world

from .qa_reader import Answer, scene_of, seen, thing


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
