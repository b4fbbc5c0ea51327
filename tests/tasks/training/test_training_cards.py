"""Cards say what the training sets do; examples have three samples and pass their own check."""

import inspect
import json
import typing
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from harness.card import Card
from harness.errors import DataError, HarnessError, UsageError
from harness.scores import Totals
from harness.types import Prediction

WITH_FILES = (
    "visionreasoner_7k",
    "refcocog_9k",
    "stv_205k",
    "video_r1_260k",
    "sr_91k",
    "groundmore",
    "activitynet_qa",
    "summe",
    "reason_seg_train",
)
NAMES = (*WITH_FILES, "videoseg_r1_15k")


def module(name):
    return import_module(f"harness.tasks.training.{name}.task")


def card(name):
    return Card.read(Path(module(name).__file__).parent / "card.toml")


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_card_is_filled(name):
    for field in fields(Card):
        value = getattr(card(name), field.name)
        assert value or field.name in ("hub", "videos", "counts"), field.name
        assert not isinstance(value, str) or "TODO" not in value
    assert card(name).name == name
    assert "arXiv" in card(name).paper and "ROOT/" in card(name).data


@pytest.mark.parametrize("name", NAMES)
def test_splits_protocols_and_headlines_are_those_of_the_task(name):
    function = getattr(module(name), name)
    hints, defaults = typing.get_type_hints(function), inspect.signature(function).parameters
    assert set(card(name).splits) == set(typing.get_args(hints["split"]))
    assert defaults["split"].default == card(name).default_split
    assert defaults["protocol"].default == card(name).protocol
    assert list(card(name).protocols) == list(module(name).PROTOCOLS)
    for key, protocol in module(name).PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert protocol.headline == card(name).headline
        assert all(metric.about for metric in protocol.metrics)


@pytest.mark.parametrize("name", WITH_FILES)
def test_an_example_has_three_samples_which_perfect_answers_solve(build, example, name):
    task = build(name, example(name))
    samples = list(task.samples())
    assert (task.name, task.split, len(samples)) == (name, card(name).default_split, 3)
    assert tuple(map(str, task.forms)) == card(name).forms
    assert not list(task.check())
    assert all(path.is_file() for path in task.annotations) and task.annotations
    assert len({sample.id for sample in samples}) == 3
    totals = Totals(task.protocol.metrics)
    for sample in samples:
        assert set(sample.query.forms) <= set(task.forms)
        assert sample.query.media[0].frame(0).shape[1::-1] == sample.query.size
        output = Prediction(query_id=sample.query.id, answer=sample.target.answer)
        totals.add(task.protocol.score([sample], [output]))
    ceiling = task.protocol.ceiling
    reached = totals.values()[task.protocol.headline]
    assert reached == pytest.approx(
        ceiling.value_over(lambda: samples), abs=ceiling.tolerance + 1e-12
    )


@pytest.mark.parametrize("name", WITH_FILES)
def test_samples_are_the_same_each_time(build, example, name):
    task = build(name, example(name))
    first, second = (
        [(one.id, one.query.text, one.target.answer) for one in task.samples()] for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_a_root_without_files_is_refused_with_the_way_to_have_them(build, tmp_path, name):
    with pytest.raises(DataError):
        build(name, tmp_path)
    with pytest.raises(HarnessError, match="protocol"):
        build(name, tmp_path, protocol="miou")


@pytest.mark.parametrize("name", ["video_r1_260k", "sr_91k", "activitynet_qa"])
def test_a_seeded_sample_is_a_part_of_the_set_and_the_same_each_time(build, example, name):
    whole = [one.id for one in build(name, example(name)).samples()]
    drawn = {
        seed: [one.id for one in build(name, example(name), sample=2, seed=seed).samples()]
        for seed in range(6)
    }
    for found in drawn.values():
        assert len(found) == 2 and found == [one for one in whole if one in found]
    assert len({tuple(found) for found in drawn.values()}) > 1
    with pytest.raises(UsageError, match="sample"):
        build(name, example(name), sample=0)


def test_the_records_on_the_cards_are_read(build, tmp_path):
    """Those that are whole lines of JSON."""
    place = tmp_path / "sr_91k"
    place.mkdir()
    record = json.loads(card("sr_91k").example)
    (place / "SR-91k.jsonl").write_text(json.dumps(record), encoding="utf-8")
    (sample,) = build("sr_91k", tmp_path).samples()
    assert sample.target.answer.number == 0.3507
    assert [problem.path for problem in build("sr_91k", tmp_path).check()] == [record["path"]]


def test_summe_without_references_has_no_sample_and_says_so(build, tmp_path):
    (tmp_path / "summe" / "videos").mkdir(parents=True)
    task = build("summe", tmp_path)
    assert not list(task.samples()) and not task.annotations
    (problem,) = task.check()
    assert "references.jsonl" in problem.path and "summaries" in problem.message


def test_summe_keeps_how_its_references_were_made(build, example):
    task = build("summe", example("summe"))
    assert task.arguments["made_by"]["captioner"]
    for sample in task.samples():
        assert sample.target.extra["made_by"] == task.arguments["made_by"]
