"""Video tasks: ceilings, cards, splits, and numbers that every video score shares."""

import inspect
import json
import types
import typing
from dataclasses import fields, replace
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.card import Card
from harness.errors import DataError, UsageError
from harness.frame_cache import CACHE
from harness.masks import Rle
from harness.metrics.boundary import boundary_radius
from harness.run.scoring import score_unit
from harness.run.verify import verify
from harness.spec import parse
from harness.types import Answer, query_id
from harness.world.shapes import make

from .video_task_files import answer, lost

NAMES = (
    "revos",
    "ref_youtube_vos",
    "ref_davis17",
    "jitbench",
    "rvtbench_seg",
    "rvtbench_grounding",
    "rvtbench_vqa",
    "rvtbench_summary",
)
JAVA = ("rvtbench_vqa", "rvtbench_summary")
SPECS = {
    "revos": 8,
    "revos(split=train)": 32,
    "revos(protocol=revos/binary)": 8,
    "ref_youtube_vos": 8,
    "ref_youtube_vos(split=train)": 40,
    "ref_youtube_vos(split=train_fit)": 32,
    "ref_davis17(protocol=rvos/visa_davis)": 36,
    "ref_davis17": 12,
    "jitbench": 8,
    "rvtbench_seg": 8,
    "rvtbench_grounding": 8,
    "rvtbench_vqa(protocol=rvtbench/text_simple)": 8,
    "rvtbench_vqa(protocol=rvtbench/choice)": 8,
    "rvtbench_summary(protocol=rvtbench/text_simple)": 8,
}
READERS = ("qwen_vl(backend=stored)", "qwen_vl(backend=stored,keyframe=named)")
HERE = Path(__file__)


def module(name: str):
    return import_module(f"harness.tasks.{name}.task")


def card(name: str) -> Card:
    return Card.read(Path(module(name).__file__).parent / "card.toml")


@pytest.mark.parametrize(("spec", "count"), SPECS.items())
def test_perfect_answers_reach_the_ceiling_both_ways(build, shapes, spec, count):
    reader = plugins.build("models", parse(READERS[0]))
    verdicts = list(verify(build(spec, shapes), reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    for one in verdicts:
        assert one.is_passed and one.value == one.ceiling == 1.0 and one.n == count


@pytest.mark.parametrize("name", ["revos", "ref_davis17", "rvtbench_grounding"])
def test_responses_that_name_their_frame_reach_it_as_well(build, shapes, name):
    reader = plugins.build("models", parse(READERS[1]))
    assert all(one.is_passed for one in verify(build(name, shapes), reader))


@pytest.mark.parametrize("spec", SPECS)
def test_two_passes_give_equal_samples_whose_ids_are_hidden_from_models(build, shapes, spec):
    task = build(spec, shapes)

    def seen():
        for one in task.samples():
            media = [(item.id, item.size, len(item)) for item in one.query.media]
            yield (
                one.id,
                one.query.id,
                one.query.text,
                one.query.options,
                media,
                one.target,
                one.unit,
                one.group,
                dict(one.categories),
            )

    first = list(seen())
    assert first == list(seen()) and len({one[0] for one in first}) == len(first)
    assert all(one[1] == query_id(one[0]) for one in first)
    assert all(path.is_file() for path in task.annotations)


def test_no_pass_decodes_an_image_and_samples_come_one_by_one(build, shapes, monkeypatch):
    def refuse(*_):
        raise AssertionError("an image was decoded")

    CACHE.clear()
    monkeypatch.setattr("harness.frame_cache.decode_image", refuse)
    for spec in (*SPECS, "ref_youtube_vos(split=valid)"):
        task = build(spec, shapes)
        assert not list(task.check())
        assert isinstance(task.samples(), types.GeneratorType)
        assert len(list(islice(task.samples(), 2))) == 2


@pytest.mark.parametrize("name", NAMES)
def test_cards_are_filled_and_say_what_the_task_does(name):
    shown = card(name)
    for field in fields(Card):
        value = getattr(shown, field.name)
        if not value and field.name in ("hub", "videos", "counts"):
            continue  # for those that have a download, videos, or several ways to count
        assert value and not (isinstance(value, str) and "TODO" in value), field.name
    assert shown.name == name == plugins.installed_plugins("tasks")[name].name
    assert "arXiv" in shown.paper and "ROOT/" in shown.data
    hints = typing.get_type_hints(getattr(module(name), name))
    assert set(shown.splits) == set(typing.get_args(hints["split"]))
    defaults = inspect.signature(getattr(module(name), name)).parameters
    assert defaults["split"].default == shown.default_split
    assert defaults["protocol"].default == shown.protocol
    assert list(shown.protocols) == list(module(name).PROTOCOLS)
    for key, protocol in module(name).PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert all(metric.about for metric in protocol.metrics)
    assert module(name).PROTOCOLS[shown.protocol].headline == shown.headline
    json.loads(shown.example)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_the_default_split_alone_and_small(build, example, name):
    task = build(name, example(name))
    assert task.split == card(name).default_split and not list(task.check())
    assert tuple(map(str, task.forms)) == card(name).forms
    assert task.protocol.headline == card(name).headline
    samples = list(task.samples())
    assert len(samples) == (12 if name == "ref_davis17" else 3)  # four annotators, three objects
    assert all(sample.target is not None for sample in samples)
    files = [path for path in example(name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 60_000
    for split in set(card(name).splits) - {task.split}:
        if (name, split) == ("ref_youtube_vos", "train"):
            continue  # it is the folder of train_dev as well
        with pytest.raises(DataError, match="harness list tasks"):
            build(f"{name}(split={split})", example(name))
    with pytest.raises(UsageError, match=task.split):
        build(f"{name}(split=validation)", example(name))
    with pytest.raises(UsageError, match=card(name).protocol):
        build(f"{name}(protocol=miou)", example(name))


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_what_the_writer_makes_of_seed_11_and_size_3(example, tmp_path, name):
    out = tmp_path / "made"
    make(out, seed=11, size=3, writers={name: import_module(f"harness.tasks.{name}.writer").write})
    for path in example(name).rglob("*"):
        other = out / path.relative_to(example(name))
        if path.suffix == ".png":
            assert path.read_bytes() == other.read_bytes()
        elif path.suffix == ".jpg":
            first, second = (np.asarray(Image.open(one), int) for one in (path, other))
            assert abs(first - second).mean() < 2  # decoders may differ
        elif path.is_file():
            assert other.is_file()


def test_the_record_and_the_ids_of_revos(build, tmp_path):
    root = tmp_path / "revos"
    plain = json.loads(card("revos").example)
    ((video, entry),) = plain["videos"].items()
    entry["expressions"]["12"] = {
        "exp": " The  other",
        "obj_id": [1, 2],
        "anno_id": [42, 43],
        "type_id": 0,
    }
    film(root / "JPEGImages" / video, entry["frames"], (entry["width"], entry["height"]))
    full = Rle.full(720, 1280).to_json()
    write(root / "meta_expressions_valid_.json", plain)
    write(root / "mask_dict.json", {"42": [full, None], "43": [None, full]})
    first, second = build("revos", tmp_path).samples()
    assert f"`{first.id}`" in card("revos").ids and first.id == "OVIS/abc123/0"
    assert first.group == second.group == "OVIS/abc123" and second.id == "OVIS/abc123/12"
    assert (first.query.text, second.query.text) == (
        "Which animal would win the race?",
        "The other",
    )
    assert first.categories == {"type": "reasoning", "objects": "one"}
    assert second.categories == {"type": "referring", "objects": "several"}
    assert [mask.area > 0 for mask in first.target.answer.masks] == [True, False]
    assert [mask.area > 0 for mask in second.target.answer.masks] == [True, True], "their union"


def film(folder: Path, frames, size=(12, 8)) -> None:
    folder.mkdir(parents=True)
    for frame in frames:
        Image.new("RGB", size).save(folder / f"{frame}.jpg")


def write(path: Path, plain) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain), encoding="utf-8")


def test_how_far_outlines_may_be_apart():
    assert [boundary_radius(*size) for size in ((480, 854), (720, 1280), (1080, 1920))] == [
        8,
        12,
        18,
    ]


@pytest.mark.parametrize("name", ["ref_youtube_vos", "jitbench", "rvtbench_seg"])
def test_j_and_f_of_nothing_and_nothing_are_1_and_a_failure_scores_0(build, shapes, name):
    task = build(name, shapes)
    sample = next(iter(task.samples()))
    width, height = sample.query.size
    frames = len(sample.query.media[0])
    empty = Answer(masks=(Rle.empty(height, width),) * frames)
    nothing = replace(sample, target=replace(sample.target, answer=empty))
    for output in (answer(nothing, empty.masks), answer(nothing, no_target=True)):
        assert {one.value for one in score_unit(task, [nothing], [output]).scores.values()} == {1.0}
    assert {one.value for one in score_unit(task, [nothing], [lost(nothing)]).scores.values()} == {
        0
    }
