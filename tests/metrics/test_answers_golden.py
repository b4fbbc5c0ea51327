"""Equality with the official scorers of answers and places, on stored inputs and outputs."""

import importlib
import json
import math
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
ROUNDED = 1e-15
"""Averages are exactly rounded here, and added one by one in the official code; parts of the
matching are divided before they are added."""
ADDED_OTHERWISE = ("spar totals", "vstar totals", "seg_zero")
FILES = {
    "video_mme/choices.json": 900,
    "longvideobench/choices.json": 500,
    "sti_bench/choices.json": 500,
    "vsi_bench/official.json": 800,
    "vsi_bench/lmms2026.json": 800,
    "vsi_bench/numbers.json": 250,
    "spar/scores.json": 1000,
    "tempcompass/multi-choice.json": 400,
    "tempcompass/yes_no.json": 400,
    "tempcompass/caption_matching.json": 400,
    "tempcompass/captioning.json": 200,
    "vstar/samples.json": 90,
    "vstar/intervals.json": 300,
    "segzero/matching.json": 400,
    "visionreasoner/area_score.json": 100,
    "pycocotools/detection.json": 24,
}


@pytest.fixture(params=["compare_answers", "compare_places"])
def family(request, monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    return importlib.import_module(request.param)


def read(name):
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def test_every_number_equals_the_official_one_and_names_its_commit(family, compared):
    several = compared(family.__name__.removeprefix("compare_"))
    for name, found in zip(family.CHECKS, several, strict=True):
        assert found.deviation <= (ROUNDED if name in ADDED_OTHERWISE else 0), found
        assert found.cases and len(found.commit) in (6, 40)


@pytest.mark.parametrize(("name", "cases"), FILES.items())
def test_golden_files_hold_many_cases_name_their_source_and_are_small(name, cases):
    file = read(name)
    assert len(file["cases"]) >= cases
    assert {"tool", "commit", "what"} <= set(file)
    assert (GOLDEN / name).stat().st_size < 1_000_000


def test_golden_choices_cover_the_defects():
    letters = {
        response: letter for _, response, _, letter in read("video_mme/choices.json")["cases"]
    }
    assert letters["Because of the rain"] == "B"
    assert letters["A dog runs"] == "A"
    assert letters[""] == letters["none"] == ""
    assert letters["The best option is A"] == "A"
    draws = [case for case in read("longvideobench/choices.json")["cases"] if case[-1] is None]
    assert len(draws) > 50
    sti = dict(read("sti_bench/choices.json")["cases"])
    assert sti["option described above"] == "D"
    assert sti[""] is None


def test_golden_scores_cover_the_defects():
    spar = read("spar/scores.json")["cases"]
    assert sum(response == "" and score == 1 for _, response, _, score in spar) > 20
    view = [score for task, _, _, score in spar if task == "view_change_infer"]
    assert len({*view}) > 10
    vsi = read("vsi_bench/official.json")["cases"]
    lmms = read("vsi_bench/lmms2026.json")["cases"]
    assert sum(one[3] != other[3] for one, other in zip(vsi, lmms, strict=True)) > 50
    assert len({case[3] for case in vsi}) >= 8


def test_golden_matches_hold_the_known_answers_of_the_reward():
    scores = [score for _, _, score in read("segzero/matching.json")["cases"][:17]]
    assert scores[:9] == [3.0, 1.0, 2.0, 1.5, 2.0, 3.0, 0.0, 0.0, 0.0]
    assert scores[10] == 0.0
    assert 0 < scores[12] < 3
    assert all(math.isfinite(score) for score in scores)


def test_golden_detections_have_crowds_ties_and_more_boxes_than_count():
    cases = read("pycocotools/detection.json")["cases"]
    crowds = sum(row[5] for case in cases for item in case["items"] for row in item["ground_truth"])
    assert crowds > 50
    assert any(-1 in case["stats"] for case in cases)
    scores = [row[4] for row in cases[21]["items"][0]["predicted"]]
    assert all(round(score, 1) == score for score in scores)


def test_golden_v_star_covers_keys_that_do_not_match():
    items = read("vstar/samples.json")["cases"]
    assert any(isinstance(box["timestamp"], float) for item in items for box in item["bboxes"])
    assert any(not item["answer_vqa"] for item in items)
    assert any(item["answer_spatial"] is None for item in items)
