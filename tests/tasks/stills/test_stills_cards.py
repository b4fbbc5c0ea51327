"""Cards say what the tasks do, and examples are what the writers make."""

import inspect
import json
import typing
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from harness import plugins
from harness.card import Card
from harness.errors import DataError, UsageError
from harness.tasks.coco_detection.writer import write as write_coco_detection
from harness.tasks.grefcoco.writer import write as write_grefcoco
from harness.tasks.llm_seg40k.writer import write as write_llm_seg40k
from harness.tasks.refcoco.task import REFCOCO
from harness.tasks.refcoco.writer import KINDS
from harness.tasks.refcoco_plus.task import REFCOCO_PLUS
from harness.tasks.refcocog.task import REFCOCOG
from harness.tasks.refer.writer import TWO_TEST_SETS, write_refer
from harness.world.referring import attributes, relations, superlatives
from harness.world.shapes import make_world

from .conftest import NAMES

NEW = [name for name in NAMES if name != "reason_seg"]
VAL = {"val": TWO_TEST_SETS["val"]}


def place(name):
    return Path(import_module(f"harness.tasks.{name}").__file__).parent


def card(name):
    return Card.read(place(name) / "card.toml")


@pytest.mark.parametrize("name", NEW)
def test_every_field_of_a_card_is_filled(name):
    for field in fields(Card):
        value = getattr(card(name), field.name)
        assert value or field.name in ("notes", "hub", "videos", "counts"), field.name
    assert card(name).name == name == plugins.installed_plugins("tasks")[name].name
    assert "arXiv" in card(name).paper and "ROOT/" in card(name).data


@pytest.mark.parametrize("name", NAMES)
def test_splits_and_protocols_are_those_of_the_task(name):
    module = import_module(f"harness.tasks.{name}.task")
    function = getattr(module, name)
    hints, defaults = typing.get_type_hints(function), inspect.signature(function).parameters
    assert set(card(name).splits) == set(typing.get_args(hints["split"]))
    assert defaults["split"].default == card(name).default_split
    assert defaults["protocol"].default == card(name).protocol
    assert list(card(name).protocols) == list(module.PROTOCOLS)
    assert module.PROTOCOLS[card(name).protocol].headline == card(name).headline
    for key, protocol in module.PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert all(metric.about for metric in protocol.metrics)


@pytest.mark.parametrize("name", NEW)
def test_the_example_is_three_samples_of_the_default_task(build, example, name):
    task = build(name, example(name))
    assert (task.name, task.split) == (name, card(name).default_split)
    assert tuple(map(str, task.forms)) == card(name).forms
    assert not list(task.check()) and len(list(task.samples())) == 3
    assert all(path.is_file() for path in task.annotations)
    assert sum(path.stat().st_size for path in example(name).rglob("*")) < 100_000
    assert sum(one.stat().st_size for one in example(name).rglob("*") if one.is_file()) < 60_000
    assert not list(example(name).rglob("*.p"))
    for split in set(card(name).splits) - {task.split}:
        with pytest.raises(DataError, match="harness list tasks"):
            list(build(f"{name}(split={split})", example(name)).samples())


@pytest.mark.parametrize("name", NEW)
def test_unknown_splits_and_protocols_are_refused_by_name(build, example, name):
    with pytest.raises(UsageError, match=card(name).default_split):
        build(f"{name}(split=dev)", example(name))
    with pytest.raises(UsageError, match=card(name).protocol):
        build(f"{name}(protocol=miou)", example(name))


def write_example(name, world, root):
    kinds = {"refcoco": KINDS, "refcoco_plus": (attributes,), "refcocog": (relations, superlatives)}
    benchmarks = {"refcoco": REFCOCO, "refcoco_plus": REFCOCO_PLUS, "refcocog": REFCOCOG}
    if name in benchmarks:
        divided = {"umd" if name == "refcocog" else "unc": VAL}
        write_refer(
            world,
            root,
            benchmarks[name],
            generators=kinds[name],
            divided=divided,
            copied=(),
            plain=True,
        )
    elif name == "grefcoco":
        write_grefcoco(world, root, part_of_split=VAL)
    elif name == "llm_seg40k":
        write_llm_seg40k(world, root, files={"validation": "val"})
    else:
        write_coco_detection(make_world(seed=11, size=1), root)


@pytest.mark.parametrize("name", NEW)
def test_the_example_is_what_the_writer_makes_of_a_small_world(example, name, tmp_path):
    write_example(name, make_world(seed=11, size=3), tmp_path)
    for path in example(name).rglob("*.json"):
        made = tmp_path / path.relative_to(example(name))
        assert made.read_bytes() == path.read_bytes(), path
    names = {path.relative_to(example(name)) for path in example(name).rglob("*.jpg")}
    assert names == {path.relative_to(tmp_path) for path in tmp_path.rglob("*.jpg")}


@pytest.mark.parametrize("name", ["refcoco", "refcoco_plus", "refcocog", "grefcoco"])
def test_the_record_of_a_referring_card_reads(build, refer_files, name):
    record = json.loads(card(name).example)
    several = name == "grefcoco"
    folder = {"refcoco_plus": "refcoco+"}.get(name, name)
    stem = "grefs(unc)" if several else "refs(umd)" if name == "refcocog" else "refs(unc)"
    things = [{"id": 1719310, "image_id": record["image_id"]}]
    root = refer_files(
        folder, f"{stem}.json", refs=[record], things=things, image={"id": record["image_id"]}
    )
    samples = list(build(f"{name}(split={record['split']})", root).samples())
    assert [one.id for one in samples] == [str(number) for number in record["sent_ids"]]
    assert samples[0].query.text == record["sentences"][0]["sent"]
    assert samples[0].target.answer.no_target == several
    assert "sent_id" in card(name).ids


def test_a_further_benchmark_of_the_family_costs_few_lines():
    lines = [
        line
        for path in place("refcoco_plus").glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert len(lines) <= 70
    assert {path.name for path in place("refcoco_plus").glob("*.py")} == {
        "__init__.py",
        "task.py",
        "writer.py",
    }
