"""Responses of several turns on pages: blocks, the plan's graph, the twin's table, final masks."""

import json

import numpy as np
import pytest

from harness.leaderboards.render.pages import templates
from harness.leaderboards.rollouts import groups_of
from harness.leaderboards.transcripts import (
    Block,
    blocks_of,
    layers_of,
    plan_of,
    spans_of,
    table_of,
)
from harness.masks import Rle
from harness.trainer import Curve
from harness.types import Answer, Call, Prediction, Request

PARTS = templates().get_template("parts.jinja").module
PLAN = '{"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"]}'
TWIN = json.dumps(
    {
        "video": {"type": "image"},
        "instances": [
            {"id": 1, "name": "<b>cup</b>", "mask": "masks/1", "frames": [{"box": [1, 2, 3, 4]}]},
            {"id": 2, "name": "pot", "mask": None, "frames": []},
        ],
    }
)
TURNS = (
    f"<think>a < b</think><dt_plan>{PLAN}</dt_plan>",
    "<think>c</think><execute>print('<answer>')</execute>",
    "<think>d</think> beside <task>vqa</task><answer>x</answer>",
)
INJECTED = (f"<dt_rep>{TWIN}</dt_rep>", "<results>2</results>")
WHOLE = "".join(a + b for a, b in zip(TURNS, (*INJECTED, ""), strict=True))
SPANS = [(len(TURNS[0]), False), (len(INJECTED[0]), True), (len(TURNS[1]), False)]
SPANS += [(len(INJECTED[1]), True), (len(TURNS[2]), False)]


def test_a_response_is_taken_apart_into_its_tags():
    found = blocks_of(WHOLE, SPANS)
    assert [(one.tag, one.injected) for one in found] == [
        ("think", False),
        ("dt_plan", False),
        ("dt_rep", True),
        ("think", False),
        ("execute", False),
        ("results", True),
        ("think", False),
        ("", False),
        ("task", False),
        ("answer", False),
    ]
    assert found[0].text == "a < b" and found[7].text == "beside"
    assert blocks_of("no tags <think>open", []) == [Block("", "no tags <think>open")]


def recorded(turns, injected):
    """A record with a call a turn, whose response is all of the text up to its end."""
    calls, whole = [], ""
    for before, turn in zip(("", *injected), turns, strict=True):
        request = Request(text="?", prefix=whole + before)
        whole += before + turn
        calls.append(Call(request=request, response=whole))
    return Prediction(query_id="q", answer=Answer(text="x"), responses=turns, calls=tuple(calls))


def test_the_stretches_of_a_record_are_found_again():
    record = recorded(TURNS, INJECTED)
    assert spans_of(record) == (WHOLE, SPANS)
    alone = recorded(TURNS[:1], ())
    assert spans_of(alone) == ("", []) and blocks_of(*spans_of(alone)) == []


def test_a_turn_that_is_also_part_of_what_was_injected_is_the_networks():
    record = recorded((TURNS[0], "x"), ("<dt_rep>x</dt_rep>",))
    _, spans = spans_of(record)
    assert spans == [(len(TURNS[0]), False), (len("<dt_rep>x</dt_rep>"), True), (1, False)]


def test_a_plan_is_drawn_by_its_steps():
    plan = plan_of(Block("dt_plan", PLAN))
    assert layers_of(plan) == [["SAM2", "DepthAnything2"], ["DepthStats"]]
    drawn = PARTS.graph(plan)
    assert drawn.count("<rect") == 3 and drawn.count("<line") == 2
    assert "DepthStats after SAM2, DepthAnything2" in drawn
    assert layers_of({"a": ["b"], "b": ["a"]}) == [["a", "b"]]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": [1]}', "[" * 10**5, "{}"])
def test_what_is_no_plan_or_twin_is_shown_as_text(text):
    assert plan_of(Block("dt_plan", text)) is None
    assert table_of(Block("dt_rep", text)) is None
    assert "<svg" not in PARTS.transcript([Block("dt_plan", text), Block("dt_rep", text)])


def test_the_twin_is_a_table_and_nothing_in_it_is_markup():
    header, rows = table_of(Block("dt_rep", TWIN))
    assert header == ["id", "name", "mask", "box"]
    assert rows == [["1", "<b>cup</b>", "masks/1", "[1, 2, 3, 4]"], ["2", "pot", "null", ""]]
    page = PARTS.transcript(blocks_of(WHOLE, SPANS))
    assert "<b>cup" not in page and "&lt;b&gt;cup" in page and page.count("<table") == 1


def test_the_masks_of_a_rollout_are_read_in_the_frame_that_shows_most(tmp_path):
    masks = [np.zeros((4, 6), dtype=bool) for _ in range(3)]
    masks[1][1:3, 1:4] = True
    facts = {
        "spans": [list(one) for one in SPANS],
        "fault": "a fault",
        "answer": {"masks": [Rle.from_array(one).to_json() for one in masks], "empty": False},
    }
    boxes = [{"name": "a", "bbox": [1, 2, 3, 4], "frame": 2}] * 2
    log = Curve(tmp_path / "rollouts.jsonl")
    row = {"sample": "s", "text": WHOLE, "tokens": 9, "cut": False, "components": {"total": 1.0}}
    log.append(1, {**row, "rollout": 0, "facts": facts})
    log.append(1, {**row, "rollout": 1, "facts": {**facts, "answer": {"boxes": boxes}}})
    log.append(1, {**row, "rollout": 2, "facts": {"exit_code": 2}})
    first, second, third = groups_of(log.path)[0].rollouts
    assert first.frame == 1 and first.answer.masks[0].area == 6 and first.unread == "a fault"
    assert second.frame == 2 and len(second.answer.boxes) == 2
    assert len(first.blocks) == 10 and third.blocks == ()
