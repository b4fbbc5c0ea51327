"""`harness ladder`: planted faults of one kind each are charged to that rung, to the last digit."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import plugins
from harness.cli.main import main
from harness.leaderboards.differences import ladder as ladders
from harness.leaderboards.differences.diff import TODAY
from harness.leaderboards.differences.ladder import ladder
from harness.masks import Rle
from harness.record import Run
from harness.run.batching import samples_of
from harness.run.scoring import score_unit
from harness.run.verify import perfect
from harness.spec import parse
from harness.types import (
    Answer,
    Failure,
    FailureKind,
    Parsed,
    ParsedObject,
    Prediction,
    Target,
)

READER = "visionreasoner(segmenter=box,propagator=still,keyframe=named,backend={})"
MEVIS = Path(__file__).resolve().parents[2] / "tasks" / "mevis" / "example"
FAR = {"bbox_2d": [1, 1, 24, 24], "point_2d": [4, 4]}


@pytest.fixture(scope="module")
def perfect_texts(shapes):
    """Perfect responses to the questions of two tasks, by sample."""
    reader = plugins.build("models", parse(READER.format("stored")))
    return {
        task: {
            sample.id: reader.write(sample.query, sample.target.answer)[0]
            for sample in samples_of(plugins.build("tasks", parse(task), shapes))
        }
        for task in ("reason_seg", "mevis")
    }


@pytest.fixture(scope="module")
def run_of(shapes, tmp_path_factory):
    def made(texts, *, task="reason_seg", reader=READER):
        folder = tmp_path_factory.mktemp("run")
        path, out = folder / "said.jsonl", folder / "runs"
        rows = (json.dumps({"id": name, "response": text}) for name, text in texts.items())
        path.write_text("".join(f"{row}\n" for row in rows))
        model = reader.format(f"stored(file={path})")
        given = ["--data", str(shapes), "--out", str(out), "--quiet"]
        assert main(["eval", "--model", model, "--tasks", task, *given]) == 0
        (manifest,) = out.rglob("manifest.json")
        return Run.open(manifest.parent)

    return made


@pytest.fixture(scope="module")
def good(perfect_texts, run_of):
    """A run with perfect responses, and its ladder."""
    run = run_of(perfect_texts["reason_seg"])
    return run, {step.name: step.points for step in ladder(run).way.steps}


def climbed(capsys, run):
    capsys.readouterr()
    assert main(["ladder", str(run.folder), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    points = {step["name"]: step["points"] for step in made["steps"]}
    assert made["first"] + sum(points.values()) == pytest.approx(made["second"], abs=1e-12)
    assert sum(made["by_part"].values()) == pytest.approx(sum(points.values()), abs=1e-12)
    return made, points


def value(run):
    return run.results["metrics"][run.results["headline"]]


def _answer(text):
    before, _, rest = text.partition("<answer>")
    return before, json.loads(rest.partition("</answer>")[0])


def _with(text, change):
    before, objects = _answer(text)
    return f"{before}<answer>{json.dumps(change(objects))}</answer>"


def _shrunk(objects):
    made = []
    for one in objects:
        left, top, right, bottom = one["bbox_2d"]
        made.append({**one, "bbox_2d": [left, top, (left + right) // 2, bottom]})
    return made


FAULTS = {
    "wrong thing": lambda text: _with(text, lambda objects: [FAR] * len(objects)),
    "extra": lambda text: _with(text, lambda objects: [*objects, FAR]),
    "missed": lambda text: _with(text, lambda objects: []),
    "wrong extent": lambda text: _with(text, _shrunk),
    "unreadable": lambda text: "I would rather not say.",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_charged_to_its_rung(capsys, perfect_texts, run_of, good, fault):
    texts = perfect_texts["reason_seg"]
    whole = {  # one object each, far from the corner where another is planted
        name: text
        for name, text in texts.items()
        if len(_answer(text)[1]) == 1 and min(_answer(text)[1][0]["bbox_2d"][:2]) > 30
    }
    assert len(whole) > 2
    run, before = good
    bad = run_of({**texts, **{name: FAULTS[fault](text) for name, text in whole.items()}})
    made, points = climbed(capsys, bad)
    assert set(before) == {"wrong mask"}  # a filled box is not the shape
    if fault == "unreadable":
        assert list(points) == ["unreadable", "wrong mask"]
        assert points["unreadable"] > value(run) - value(bad)  # all that a reading would have given
    else:
        assert list(points) == [fault, "wrong mask"]
        assert points[fault] == pytest.approx(value(run) - value(bad), abs=1e-12)
        assert points["wrong mask"] == pytest.approx(before["wrong mask"], abs=1e-12)
    assert made["second"] > 0.999
    single = {"wrong thing": "box", "extra": "count", "missed": "count", "wrong extent": "box"}
    if fault in single:
        assert made["alone"][single[fault]] == pytest.approx(value(run), abs=1e-12)


def test_a_limit_is_told_from_a_grammar(capsys, perfect_texts, run_of, monkeypatch):
    texts = perfect_texts["reason_seg"]
    names = list(texts)[:2]
    run = run_of({**texts, **dict.fromkeys(names, "<think>so")})
    _, points = climbed(capsys, run)
    recorded = Run.prediction

    def cut(self, name):
        found = recorded(self, name)
        if name != names[0]:
            return found
        return replace(found, parsed=(Parsed(form="mask", error="x", cut=True),))

    monkeypatch.setattr(Run, "prediction", cut)
    _, marked = climbed(capsys, run)
    assert marked["truncated"] > 0 and marked["unreadable"] > 0
    assert marked["truncated"] + marked["unreadable"] == pytest.approx(points["unreadable"])


def test_a_frame_without_the_target_is_wrong_time_and_a_still_propagator_drifts(
    capsys, perfect_texts, run_of, shapes
):
    texts = dict(perfect_texts["mevis"])
    planted = {}
    for sample in samples_of(plugins.build("tasks", parse("mevis"), shapes)):
        areas = [mask.area for mask in sample.target.answer.masks]
        if any(areas) and not all(areas):
            planted[sample.id] = f"<frame>{areas.index(0)}</frame>" + (
                "<think>.</think>" + _with("<answer>[]</answer>", lambda _: [FAR])
            )
    if not planted:
        pytest.skip("every target of this world is visible in all frames")
    runs = [run_of({**texts, **other}, task="mevis") for other in ({}, planted)]
    _, before = climbed(capsys, runs[0])
    made, points = climbed(capsys, runs[1])
    assert set(before) <= {"wrong mask", "drift"} and before["drift"] > 0
    assert points["wrong time"] > 0 and set(points) <= {*before, "wrong time"}
    assert made["by_part"]["propagator"] == points["drift"]


def test_the_segmenter_is_what_another_segmenter_changes(capsys, perfect_texts, run_of):
    texts = perfect_texts["reason_seg"]
    runs = [
        run_of(texts, reader=READER.replace("segmenter=box", f"segmenter={name}"))
        for name in ("box", "grabcut")
    ]
    made = [climbed(capsys, run) for run in runs]
    for run, (found, points) in zip(runs, made, strict=True):
        assert list(points) == ["wrong mask"]
        assert found["by_part"]["segmenter"] == points["wrong mask"]
        assert points["wrong mask"] == pytest.approx(found["second"] - value(run), abs=1e-12)
    assert made[0][1] != made[1][1]


def test_a_scorer_that_has_changed_since_the_run_is_no_fault(good, monkeypatch):
    run, before = good

    def strict(task, unit, predictions):
        failure = Failure(FailureKind.PARSE, "not perfect")
        said = [
            one
            if one.answer.masks == perfect(each).answer.masks
            else Prediction(query_id=one.query_id, failure=failure)
            for one, each in zip(predictions, unit, strict=True)
        ]
        return score_unit(task, unit, said)

    monkeypatch.setattr(ladders, "score_unit", strict)
    made = ladder(run)
    points = {step.name: step.points for step in made.way.steps}
    assert list(points) == [TODAY, *before] and points[TODAY] < 0
    assert sum(made.by_part.values()) == pytest.approx(sum(points.values()) - points[TODAY])


def words_alone(instances, *, frame=0):
    """The prompts of a response of words alone about a video, by the faults made good."""
    whole = tuple(
        Rle.from_array(np.logical_or.reduce([one[at].to_array() for one in instances]))
        for at in range(len(instances[0]))
    )
    sample = replace(
        next(iter(samples_of(plugins.build("tasks", parse("mevis"), MEVIS)))),
        target=Target(answer=Answer(masks=whole, instances=instances)),
    )
    climber = ladders._Corrector(None, None, ParsedObject())
    parsed = Parsed(form="mask_track", phrase="the dogs", frame=frame)
    return lambda *good: climber._prompts(sample, parsed, frozenset(good)), whole


def test_words_alone_name_all_that_is_meant():
    left, right = np.zeros((4, 6), bool), np.zeros((4, 6), bool)
    left[:2, :2], right[2:, 4:] = True, True
    nothing = Rle.empty(4, 6)
    prompts, whole = words_alone(
        ((nothing, Rle.from_array(left)), (nothing, Rle.from_array(right))), frame=1
    )
    start, (fed,) = prompts("wrong mask")
    assert start == 1 and fed.uses_true_mask and Rle.from_array(fed.truth.mask) == whole[1]
    assert prompts("wrong thing", "wrong extent") == prompts()
    prompts, whole = words_alone(
        ((nothing, Rle.from_array(left)), (nothing, Rle.from_array(right))), frame=0
    )
    assert prompts()[0] == 0 and prompts("wrong time")[0] == 1
    start, (fed,) = prompts("wrong time", "wrong mask")
    assert start == 1 and Rle.from_array(fed.truth.mask) == whole[1]


def test_what_has_no_such_stages_is_refused(shapes, tmp_path, run_of):
    given = ["--data", str(shapes), "--quiet", "--out", str(tmp_path / "x")]
    assert main(["eval", "--model", "whole_frame", "--tasks", "reason_seg", *given]) == 0
    assert main(["eval", "--model", "random", "--tasks", "counting", *given]) == 0
    for manifest in (tmp_path / "x").rglob("manifest.json"):
        assert main(["ladder", str(manifest.parent)]) == 2
