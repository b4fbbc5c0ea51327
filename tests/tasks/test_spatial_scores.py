"""STI-Bench, VSI-Bench, SPAR-Bench and V-STaR: what is scored, as the official code scores it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.judging import rubric as find_rubric
from harness.metrics.vsi import NUMBER_TYPES
from harness.model import ResponseReader
from harness.models.pipeline import PromptedModel
from harness.plugins import build as build_plugin
from harness.run.judging import with_judge
from harness.run.scoring import score_unit
from harness.run.verify import verify
from harness.scores import Totals
from harness.spec import parse
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.spar_bench import records as spar_records
from harness.tasks.v_star.boxes import boxes_in
from harness.types import Answer, Failure, FailureKind, Interval, Prediction

from .spatial_tasks import NAMES, card

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SPECS = (
    "sti_bench",
    "sti_bench(protocol=sti/strict)",
    "sti_bench(form=numeric)",
    "sti_bench(prompt=official)",
    "sti_bench(frames=2)",
    "sti_bench(frames=seconds(every=2))",
    "vsi_bench",
    "vsi_bench(protocol=vsi/strict)",
    "vsi_bench(protocol=vsi/lmms2026)",
    "vsi_bench(form=numeric)",
    "vsi_bench(split=debiased)",
    "vsi_bench(split=pruned)",
    "vsi_bench(split=tiny,prompt=official)",
    "spar_bench",
    "spar_bench(protocol=spar/strict)",
    "spar_bench(split=tiny,prompt=official)",
    "v_star",
    "v_star(protocol=vstar/strict)",
    "v_star(where=text,prompt=official)",
)
"""Every way in which the four can be asked for."""


def readers(text="qwen_vl(backend=stored)"):
    model = build_plugin("models", parse(text))
    assert isinstance(model, PromptedModel) and isinstance(model, ResponseReader)
    return model


class Rated:
    """Says one rating of everything."""

    name = "rated"

    def __init__(self, rating):
        self.rating = rating

    def judge(self, rubric, question, answer, ground_truth):
        return find_rubric(rubric).verdict(str(self.rating))


def said_only(sample, response):
    """A response that the model's own parser could not read."""
    unread = Failure(FailureKind.PARSE, "unreadable")
    return Prediction(query_id=sample.query.id, failure=unread, responses=(response,))


@pytest.mark.parametrize("name", ["sti_bench", "vsi_bench", "spar_bench"])
def test_responses_score_as_the_official_code_scores_them(build, example, golden, name):
    file = golden(name)
    task = build(name, example(name))
    samples = {one.id: one for one in task.samples()}
    totals, parts = Totals(task.protocol.metrics), {}
    for sample_id, response, official in file["cases"]:
        sample = samples[sample_id]
        scores = task.protocol.score([sample], [said_only(sample, response)])
        (mean,) = scores.values()
        assert mean.value == official, (response, sample.target.answer)
        totals.add(scores)
        for category in sample.categories.items():
            parts.setdefault(category, []).append(mean.value)
    values = totals.values()
    for key, official in file["totals"].items():
        if isinstance(official, dict):
            for value, mean in official.items():
                assert np.mean(parts[key, value]) == pytest.approx(mean, abs=1e-12)
        else:
            ours = {"Middle": "Middle, as printed"}.get(key, key)
            assert values[ours] == pytest.approx(official, abs=1e-12), key


@pytest.mark.parametrize("text", ["", "AB", "E", "ABCD"])
def test_an_answer_of_spar_bench_that_is_not_one_letter_is_refused(text):
    with pytest.raises(DataError, match="answer"):
        spar_records._answer("obj_spatial_relation_oo", text, "here")


@pytest.mark.parametrize("name", ["official", "lmms2026"])
def test_both_published_scorers_of_vsi_bench_are_repeated(build, example, name):
    file = json.loads((GOLDEN / "vsi_bench" / f"{name}.json").read_text())
    task = build(f"vsi_bench(protocol=vsi/{name})", example("vsi_bench"))
    samples = {one.categories["type"]: one for one in task.samples()}
    totals = Totals(task.protocol.metrics)
    for kind, response, ground_truth, official in file["cases"]:
        sample = samples[kind]
        answer = (
            Answer(number=float(ground_truth))
            if kind in NUMBER_TYPES
            else Answer(choice=ground_truth)
        )
        sample = replace(sample, target=replace(sample.target, answer=answer))
        scores = task.protocol.score([sample], [said_only(sample, response)])
        assert scores[kind].value == official, (response, ground_truth)
        totals.add(scores)
    assert totals.values()["overall"] == pytest.approx(file["totals"]["overall"], abs=1e-12)


def test_items_of_v_star_score_as_the_official_code_scores_them(build, example, golden):
    file = golden("v_star")
    task = build("v_star(where=text)", example("v_star"))
    units = {}
    for sample in task.samples():
        units.setdefault(sample.unit, []).append(sample)
    totals = Totals(task.protocol.metrics)
    for vid, responses, rating, official in file["cases"]:
        judged = with_judge(task, Rated(rating))
        predictions = [said_only(*pair) for pair in zip(units[vid], responses, strict=True)]
        scores = score_unit(judged, units[vid], predictions).scores
        totals.add(scores)
        assert ("rating" in scores) == bool(official)
        for key, name in (
            ("temporal_IoU", "m_tIoU1"),
            ("temporal_IoU_2", "m_tIoU2"),
            ("spatial_mIoU", "m_vIoU1"),
            ("spatial_mIoU_2", "m_vIoU2"),
        ):
            if official:
                assert scores[name].value == pytest.approx(official[key], abs=1e-12)
        for key, chain in (("AP1@0.1:0.9", "1"), ("AP2@0.1:0.9", "2")):
            for place, share in enumerate(official.get(key, ())):
                threshold = (0.1, 0.3, 0.5, 0.7, 0.9)[place]
                assert scores[f"AP@{threshold}_{chain}"].value == pytest.approx(share)
    values = totals.values()
    ours = {
        "acc_vqa": "Acc",
        "avg_all_score": "rating",
        "mean_temporal_iou": "m_tIoU1",
        "mean_temporal_iou_2": "m_tIoU2",
        "mean_miou": "m_vIoU1",
        "mean_miou_2": "m_vIoU2",
        "AM": "AM1",
        "AM2": "AM2",
        "mAM": "mAM",
        "LGM": "LGM1",
        "LGM2": "LGM2",
        "mLGM": "mLGM",
        "r1_iou50": "R1@0.5_1",
        "vqa_temp": "what&when1",
        "vqa_spat_2": "what&where2",
        "temp_spat": "when&where1",
        "vqa_temp_spat_2": "what&when&where2",
    }
    for key, name in ours.items():
        assert values[name] == pytest.approx(file["totals"][key], abs=1e-12), key


@pytest.mark.parametrize(
    ("protocol", "response", "score"),
    [
        ("spar/official", "", 1.0),
        ("spar/strict", "", 0.0),
        ("spar/official", " B", 0.0),
        ("spar/strict", " B", 1.0),
    ],
)
def test_an_empty_response_is_right_for_the_official_scorer_of_spar_bench(
    build, example, protocol, response, score
):
    task = build(f"spar_bench(protocol={protocol})", example("spar_bench"))
    sample = next(one for one in task.samples() if one.categories["task"] == "position_matching")
    sample = replace(
        sample, target=replace(sample.target, extra={**sample.target.extra, "answer": "B"})
    )
    (mean,) = task.protocol.score([sample], [said_only(sample, response)]).values()
    assert mean.value == score
    lost = Prediction(query_id=sample.query.id, failure=Failure(FailureKind.INFRASTRUCTURE, "gone"))
    (mean,) = task.protocol.score([sample], [lost]).values()
    assert mean.value == 0.0, "no prediction is no empty response"


@pytest.mark.parametrize(
    ("protocol", "response", "score"),
    [
        ("vsi/official", "2", 0.4),
        ("vsi/official", "3 chairs", 1.0),
        ("vsi/official", "There are 3", 0.0),
        ("vsi/lmms2026", "There are three", 1.0),
        ("vsi/strict", "There are 3", 1.0),
        ("vsi/strict", "2 or 3", 0.0),
        ("vsi/official", "3m", 0.0),
        ("vsi/official", "<answer>3</answer>", 1.0),
    ],
)
def test_numbers_of_vsi_bench_are_read_as_each_protocol_reads_them(
    build, example, protocol, response, score
):
    task = build(f"vsi_bench(protocol={protocol})", example("vsi_bench"))
    sample = next(one for one in task.samples() if one.query.form == "number")
    sample = replace(sample, target=replace(sample.target, answer=Answer(number=3.0)))
    (mean,) = task.protocol.score([sample], [said_only(sample, response)]).values()
    assert mean.value == score


def test_seconds_are_text_for_the_official_scorer_of_v_star(build, example):
    def placed(protocol, write):
        task = build(f"v_star(where=text,protocol={protocol})", example("v_star"))
        unit = list(task.samples())[:5]
        predictions = [
            said_only(
                one,
                write(one)
                if one.query.form == "text" and "where" in one.id
                else one.target.answer.text or "From 0 to 1",
            )
            for one in unit
        ]
        return task.protocol.score(unit, predictions)["m_vIoU1"].value

    def whole(sample):
        return sample.target.answer.text

    def tenths(sample):
        boxes = json.loads(sample.target.answer.text)
        return json.dumps({f"{second}.0": box for second, box in boxes.items()})

    assert placed("vstar/official", whole) == placed("vstar/strict", whole) == 1.0
    assert placed("vstar/official", tenths) == 0.0 and placed("vstar/strict", tenths) == 1.0


def test_an_item_without_an_answer_to_what_counts_where_the_official_code_counts_it(build, example):
    for protocol, counted in (("vstar/official", False), ("vstar/strict", True)):
        task = build(f"v_star(protocol={protocol})", example("v_star"))
        unit = list(task.samples())[:5]
        predictions = [Prediction(query_id=one.query.id, answer=one.target.answer) for one in unit]
        predictions[0] = said_only(unit[0], "")
        scores = task.protocol.score(unit, predictions)
        assert scores["Acc"].value == 0.0
        assert ("m_tIoU1" in scores) == counted


def test_boxes_of_a_file_have_to_be_one_a_second(build, example):
    task = build("v_star", example("v_star"))
    unit = list(task.samples())[:5]
    answers = [one.target.answer for one in unit]
    track = [box or (0, 0, 1, 1) for box in answers[2].box_track]
    predictions = [
        Prediction(query_id=one.query.id, answer=answer)
        for one, answer in zip(unit, answers, strict=True)
    ]
    for boxes, right in ((tuple(track), True), (tuple(track[:-1]), False)):
        predictions[2] = Prediction(query_id=unit[2].query.id, answer=Answer(boxes=boxes))
        if right:
            assert task.protocol.score(unit, predictions)["m_vIoU1"].value == 1.0
        else:
            with pytest.raises(DataError, match=r"'arrivals_00000/where': .*8 .*found 7"):
                task.protocol.score(unit, predictions)


def test_an_interval_in_words_counts_for_the_official_protocol_only(build, example):
    for protocol, score in (("vstar/official", 1.0), ("vstar/strict", 0.0)):
        task = build(f"v_star(protocol={protocol})", example("v_star"))
        unit = list(task.samples())[:5]
        answers = [Prediction(query_id=one.query.id, answer=one.target.answer) for one in unit]
        start, end = unit[1].target.answer.interval
        answers[1] = said_only(unit[1], f"From {start} to {end}.")
        assert answers[1].failure is not None
        assert task.protocol.score(unit, answers)["m_tIoU1"].value == score
        answers[1] = Prediction(
            query_id=unit[1].query.id, answer=Answer(interval=Interval(start, end))
        )
        assert task.protocol.score(unit, answers)["m_tIoU1"].value == 1.0


@pytest.mark.parametrize(
    "response", ["{" * 9999, "[" * 30000, "```json\n[" * 2000, '{"3": [1e999, 2]}']
)
def test_odd_responses_with_boxes_are_read_quickly(response):
    assert not [box for box in boxes_in(response).values() if box == [1, 2, 3, 4]]


def test_what_was_said_is_the_answer_in_the_last_response():
    def of(*responses, **answer):
        given = (
            {"answer": Answer(**answer)}
            if answer
            else {"failure": Failure(FailureKind.PARSE, "unreadable")}
        )
        return answer_text(Prediction(query_id="q", responses=responses, **given))

    assert of("<think>A?</think> B") == "B" and of("<think>A</think><answer>C</answer>") == "C"
    assert of(" A ") == " A " and of("") == "" and of() is None
    assert of(number=2.5) == "2.5" and of(choice="D") == "D" and of(text="red") == "red"
    assert of(interval=Interval(0, 1)) is None and of(count=3) == "3"


@pytest.mark.parametrize("spec", SPECS)
def test_perfect_answers_reach_the_ceiling_both_ways(build, shapes, spec):
    verdicts = list(verify(build(spec, shapes), readers()))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    assert all(one.is_passed and one.value == 1.0 and one.n >= 3 for one in verdicts)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_example_is_whole_and_small(build, example, name):
    task = build(name, example(name))
    assert not list(task.check())
    assert all(
        one.is_passed for one in verify(task, readers("qwen_vl(backend=stored,prompt=locate)"))
    )
    assert sum(path.stat().st_size for path in example(name).rglob("*") if path.is_file()) < 60_000
    for split in set(card(name).splits) - {task.split}:
        with pytest.raises(DataError, match="harness list tasks"):
            build(f"{name}(split={split})", example(name))


def test_forms_and_protocols_have_to_fit(build, shapes):
    for spec in (
        "sti_bench(form=numeric,protocol=sti/strict)",
        "sti_bench(protocol=sti/numeric)",
        "sti_bench(form=numeric,prompt=official)",
        "vsi_bench(protocol=vsi/numeric)",
        "sti_bench(frames=0)",
        "vsi_bench(frames=none_such)",
        "v_star(rubric=none_such)",
        "spar_bench(protocol=miou)",
        "v_star(where=mask)",
    ):
        with pytest.raises(UsageError):
            build(spec, shapes)


@pytest.mark.parametrize(
    ("verdict", "official", "strict"),
    [
        ("3", 3, 3),
        (" 2\n", 2, 2),
        ("3.", None, 3),
        ("**3**", None, 3),
        ("4", 4, None),
        ("-1", None, None),
    ],
)
def test_verdicts_are_whole_numbers_for_the_official_scorer_of_v_star(
    build, example, verdict, official, strict
):
    for protocol, rating in (("vstar/official", official), ("vstar/strict", strict)):
        task = with_judge(build(f"v_star(protocol={protocol})", example("v_star")), Rated(verdict))
        unit = list(task.samples())[:5]
        answers = [Prediction(query_id=one.query.id, answer=one.target.answer) for one in unit]
        answers[0] = said_only(unit[0], "something else")
        scores = task.protocol.score(unit, answers)
        assert scores["rating"].value == (rating or 0), protocol
        assert scores["Acc"].value == float((rating or 0) >= 2), protocol
