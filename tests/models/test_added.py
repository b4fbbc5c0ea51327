"""Models that are written from docs/models/adding.md alone reach every ceiling."""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import plugins
from harness.errors import UsageError
from harness.masks import Rle
from harness.media import pixels
from harness.models.response_writer import objects_in
from harness.run.oracle import Oracle
from harness.run.verify import verify
from harness.segmentation import ObjectPrompt
from harness.spec import parse
from harness.trainers.grpo.examples import example_of
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.types import Answer, AnswerForm, FailureKind, Point, Query, Sample, Target

PLACE = Path(__file__).parent / "added"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "models" / "adding.md"
MAX_LINES = {"molmo": 60, "points_reward": 35, "segment_token": 40}


def plugin(name):
    return runpy.run_path(str(PLACE / f"{name}.py"))


@pytest.fixture(scope="module")
def added():
    return plugin("molmo")


@pytest.fixture(scope="module")
def molmo(added):
    return added["molmo"](backend=parse("stored"))


def task(text, root):
    return plugins.build("tasks", parse(text), root)


@pytest.mark.parametrize("name", MAX_LINES)
def test_an_added_model_is_short_and_on_the_page(name):
    text = (PLACE / f"{name}.py").read_text(encoding="utf-8")
    page = DOCS.read_text("utf-8")
    blocks = dict(re.findall(r"```python (\S+)\n(.*?)```", page, re.DOTALL))
    assert blocks.get(f"{name}.py", text) == text
    assert f"{name}.py" in blocks or f"added/{name}.py" in page
    assert len(text.splitlines()) <= MAX_LINES[name]


@pytest.mark.parametrize("name", ["reason_seg", "reason_seg(split=train)", "counting", "mevis"])
def test_points_in_percent_reach_the_ceiling(molmo, shapes, name):
    verdicts = list(verify(task(name, shapes), molmo))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    assert all(one.is_passed for one in verdicts)


@pytest.mark.parametrize("name", ["reason_seg", "mevis"])
def test_points_in_percent_reach_the_ceiling_on_photographs(molmo, real, name):
    assert all(one.is_passed for one in verify(task(name, real), molmo))


def test_points_of_other_numbers_miss_the_ceiling(molmo, shapes):
    class Mixed:
        def write(self, query, answer):
            return molmo.write(query, answer)

        def read(self, query, responses):
            return replace(self.seeing, coordinates=self.coordinates).read(query, responses)

        def with_perception(self, *parts):
            self.seeing = molmo.with_perception(*parts)
            return self

    for coordinates in ("normalized_1000", "normalized_100_yx", "pixels"):
        mixed = Mixed()
        mixed.coordinates = coordinates
        verdicts = list(verify(task("reason_seg", shapes), mixed))
        assert [one.is_passed for one in verdicts] == [True, False], coordinates


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        ('<points x1="15" y1="25" x2="70" y2="40">it</points>', 1.0),
        ('<points x1="15" y1="25" x2="16" y2="25">it</points>', 0.5),
        ('<point x="15" y="25">it</point>', 0.5),
        ('<points x1="15" y1="25" x2="70" y2="40" x3="1" y3="1">it</points>', 2 / 3),
        ("There are none.", 0.0),
        ("no points", 0.0),
    ],
)
def test_a_reward_reads_points_alone(molmo, response, reward):
    target = oracle(box(20, 20, 60, 60), RIGHT).target
    group = Group(
        sample=Sample(id="s", query=asked(AnswerForm.MASK), target=target),
        rollouts=(Rollout(text=response, tokens=1),),
        canvas=(100, 100),
        count_tokens=len,
    )
    (terms,) = plugin("points_reward")["OnObjects"](molmo.prompt.parse)(group)
    assert terms["total"] == pytest.approx(reward)


def test_rewards_have_the_numbers_of_responses_and_x_first(molmo):
    sample = Sample(id="s", query=asked(AnswerForm.MASK), target=oracle(RING).target)
    method = GrpoTrainer(name="m", settings=Settings(), reward=lambda group: [])
    assert example_of(method, molmo, "t", sample).canvas == (100, 100)
    with pytest.raises(UsageError):
        example_of(method, replace(molmo, coordinates="normalized_1000_yx"), "t", sample)


WIDTH, HEIGHT = 200, 100
FRAME = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
MEDIA = pixels([FRAME], times=(0.0,), is_video=False, id="x")


def asked(form):
    return Query(id="q", text="the cups", media=(MEDIA,), forms=(form,))


@pytest.mark.parametrize(
    ("response", "points"),
    [
        ('<point x="12.3" y="45.6" alt="a cup">a cup</point>', [(25, 46)]),
        (
            '<points x1="0.0" y1="0.0" x2="99.9" y2="100" alt="cups">cups</points>',
            [(0, 0), (199, 99)],
        ),
        ("There are none.", []),
    ],
)
def test_responses_of_points_are_points_of_the_image(molmo, response, points):
    output = molmo.read(asked(AnswerForm.POINTS), [response])
    assert output.answer.points == tuple(Point(*point) for point in points)
    assert output.answer.no_target == (not points)
    counted = molmo.read(asked(AnswerForm.COUNT), [response])
    assert counted.answer.count == len(points)


@pytest.mark.parametrize("response", ["", "A cup.", '<point x="1e9" y="nan">', "<points></points>"])
def test_a_response_without_points_is_a_failure(molmo, response):
    output = molmo.read(asked(AnswerForm.COUNT), [response])
    assert output.failure.kind is FailureKind.PARSE and output.responses == (response,)


def test_points_say_no_boxes(molmo):
    output = molmo.read(asked(AnswerForm.BOXES), ['<point x="1" y="1" alt="">it</point>'])
    assert output.failure.kind is FailureKind.PARSE


def box(*corners):
    array = np.zeros((HEIGHT, WIDTH), np.bool_)
    left, top, right, bottom = corners
    array[top:bottom, left:right] = True
    return array


def oracle(*objects, text="the cups"):
    tracks = tuple((Rle.from_array(one),) for one in objects)
    joint = Rle.from_array(np.logical_or.reduce(objects))
    return Oracle(Target(answer=Answer(masks=(joint,), instances=tracks)), MEDIA, text)


def at(*points):
    return [ObjectPrompt(positive=(Point(*point),)) for point in points]


def which(found, *objects):
    """The number of the object that each mask is; None: nothing."""
    return [
        next((k for k, one in enumerate(objects) if np.array_equal(one, mask)), None)
        for mask in found
    ]


RING = box(20, 20, 60, 60) & ~box(30, 30, 50, 50)
INSIDE, RIGHT = box(36, 36, 44, 44), box(120, 20, 160, 60)


def test_the_oracle_takes_points_on_objects_and_nothing_else():
    objects = (RING, INSIDE, RIGHT)
    seeing = oracle(*objects)
    ways = [((25, 25), 0), ((40, 40), 1), ((130, 30), 2), ((90, 90), None), ((33, 33), None)]
    for point, number in ways:
        assert which(seeing.segment(FRAME, at(point)), *objects) == [number], point
    assert which(seeing.segment(FRAME, at((130, 30), (25, 25))), *objects) == [2, 0]
    assert which(seeing.segment(FRAME, [ObjectPrompt()]), *objects) == [None]


def test_a_point_on_two_objects_is_the_one_that_no_other_point_names():
    large, small = box(20, 20, 100, 80), box(40, 40, 60, 60)
    seeing = oracle(large, small)
    for points in ([(50, 50), (25, 25)], [(25, 25), (50, 50)]):
        found = which(seeing.segment(FRAME, at(*points)), large, small)
        assert sorted(found) == [0, 1] and found[points.index((25, 25))] == 0
    both = seeing.segment(FRAME, at((50, 50), (52, 52)))
    assert np.array_equal(np.logical_or(*both), large | small), "where both lie on both"
    again = which(seeing.segment(FRAME, at((25, 25), (26, 26))), large, small)
    assert again == [0, 0], "a second point on one object names it again"


def test_hidden_and_holed_objects_reach_the_ceiling_by_points(molmo):
    hidden = box(40, 40, 60, 60)
    for objects in ((RING, INSIDE), (box(20, 20, 100, 80), hidden), (hidden, hidden), (RING,)):
        seeing = oracle(*objects)
        answer = seeing.target.answer
        reader = molmo.with_perception(seeing, seeing)
        output = reader.read(asked(AnswerForm.MASK), reader.write(asked(AnswerForm.MASK), answer))
        assert output.failure is None and output.answer.masks == answer.masks
        assert len(objects_in(answer, 0)) == len(objects)


def test_a_phrase_alone_names_everything_if_it_is_the_questions():
    seeing = oracle(RING, RIGHT)
    (found,) = seeing.segment(FRAME, [ObjectPrompt(phrase=" The cups ")])
    assert np.array_equal(found, RING | RIGHT)
    (nothing,) = seeing.segment(FRAME, [ObjectPrompt(phrase="the cup")])
    assert not nothing.any()
