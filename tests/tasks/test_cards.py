"""Cards say what the tasks do: every field, every protocol, every split, a record to read."""

import inspect
import json
import shutil
import typing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.card import Card
from harness.errors import DataError, UsageError
from harness.masks import Rle
from harness.tasks.counting import task as counting
from harness.tasks.mevis import task as mevis
from harness.tasks.reason_seg import task as reason_seg
from harness.tasks.shapes_qa import task as shapes_qa
from harness.tasks.shapes_referring import task as shapes_referring

MODULES = {
    "reason_seg": reason_seg,
    "mevis": mevis,
    "counting": counting,
    "shapes_qa": shapes_qa,
    "shapes_referring": shapes_referring,
}
PUBLISHED = {
    "reason_seg": {"train": 239, "val": 200, "test": 779},
    "mevis": {"train": 23051, "valid_u": 793, "valid": 2236},
    "counting": {
        "pixmo_train": 36916,
        "pixmo_val": 540,
        "pixmo_test": 540,
        "countbench": 540,
        "countbenchqa": 491,
    },
}
NAMES = sorted(MODULES)


def card(name: str) -> Card:
    return Card.read(Path(MODULES[name].__file__).parent / "card.toml")


def function(name: str):
    return getattr(MODULES[name], name)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_card_is_filled(name):
    for field in fields(Card):
        value = getattr(card(name), field.name)
        if not value and field.name in ("hub", "videos", "counts"):
            continue  # for those that have a download, videos, or several ways to count
        assert value, field.name
        if isinstance(value, str):
            assert value.strip() and "TODO" not in value
    assert card(name).name == name == plugins.installed_plugins("tasks")[name].name
    assert "arXiv" in card(name).paper and "ROOT/" in card(name).data


def test_lists_show_the_published_numbers_of_samples(command):
    shown = {one["name"]: one for one in command.json("list", "tasks")}
    for name, published in PUBLISHED.items():
        assert {split: shown[name]["splits"][split] for split in published} == published
        assert shown[name]["count"] == published[shown[name]["default_split"]]
        assert shown[name]["example"] == card(name).example
    assert shown["counting"]["splits"]["countbench_visionreasoner"] == 0, "not known"
    assert command("list", "tasks", "mevis").stdout.count("4 lizards moving around") == 1


@pytest.mark.parametrize("name", NAMES)
def test_splits_and_protocols_are_those_of_the_task(name):
    hints = typing.get_type_hints(function(name))
    assert set(card(name).splits) == set(typing.get_args(hints["split"]))
    defaults = inspect.signature(function(name)).parameters
    assert defaults["split"].default == card(name).default_split
    assert defaults["protocol"].default == card(name).protocol
    assert list(card(name).protocols) == list(MODULES[name].PROTOCOLS)
    for key, protocol in MODULES[name].PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert protocol.headline == card(name).headline
        assert all(metric.about for metric in protocol.metrics)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_three_samples_of_the_default_task(build, example, name):
    task = build(name, example(name))
    assert (task.name, task.split) == (name, card(name).default_split)
    assert task.protocol.name == card(name).protocol
    assert task.protocol.headline == card(name).headline
    assert tuple(str(form) for form in task.forms) == card(name).forms
    assert not list(task.check())
    assert len(list(task.samples())) == 3
    assert all(sample.target is not None for sample in task.samples())
    assert all(path.is_file() for path in task.annotations)
    others = [split for split in card(name).splits if split != task.split]
    for split in others:
        with pytest.raises(DataError, match="harness list tasks"):
            build(f"{name}(split={split})", example(name))


@pytest.mark.parametrize("name", NAMES)
def test_unknown_splits_and_protocols_are_refused_by_name(build, example, name):
    with pytest.raises(UsageError, match=card(name).default_split):
        build(f"{name}(split=validation)", example(name))
    with pytest.raises(UsageError, match=card(name).protocol):
        build(f"{name}(protocol=miou)", example(name))


# The ids that cards document, and the records that they show, read as files.


def test_the_record_and_the_ids_of_reason_seg(build, example, tmp_path):
    place = tmp_path / "reason_seg" / "ReasonSeg" / "val"
    place.mkdir(parents=True)
    Image.new("RGB", (200, 150)).save(place / "x.jpg")
    (place / "x.json").write_text(card("reason_seg").example, encoding="utf-8")
    (sample,) = build("reason_seg", tmp_path).samples()
    assert "the sample of `x.jpg` and `x.json` is `x`" in card("reason_seg").ids
    assert sample.id == sample.unit == "x"
    assert sample.group == sample.query.media[0].id
    assert sample.query.text == "the item used to keep rain off the person"
    assert sample.categories == {"length": "long"}
    (ground_truth,), (ignored,) = sample.target.answer.masks, sample.target.ignore
    assert ground_truth.area > 3000 and ignored.area == 21 * 31
    assert not (ground_truth.to_array() & ignored.to_array()).any()
    for suffix in ("jpg", "json"):
        shutil.copyfile(place / f"x.{suffix}", place / f"x-1.{suffix}")
    ids = [one.id for one in build("reason_seg", tmp_path).samples()]
    assert ids == ["x-1", "x"], "by file name, as the hub orders them"
    stems = sorted(path.stem for path in example("reason_seg").rglob("*.json"))
    assert [one.id for one in build("reason_seg", example("reason_seg")).samples()] == stems


@pytest.mark.parametrize("split", ["valid_u", "valid"])
def test_the_record_and_the_ids_of_mevis(build, tmp_path, split):
    record = json.loads(card("mevis").example)
    ((video, entry),) = record["videos"].items()
    place = tmp_path / "mevis" / split
    (place / "JPEGImages" / video).mkdir(parents=True)
    for frame in entry["frames"]:
        Image.new("RGB", (12, 8)).save(place / "JPEGImages" / video / f"{frame}.jpg")
    (place / "meta_expressions.json").write_text(card("mevis").example, encoding="utf-8")
    lizards = [np.zeros((8, 12), bool) for _ in range(4)]
    for column, lizard in enumerate(lizards):
        lizard[2:5, column : column + 2] = True  # each overlaps the one before
    tracks = {
        str(number): [
            Rle.from_array(lizard).to_json(),
            None if number > 2 else Rle.from_array(lizard).to_json(),
        ]
        for number, lizard in enumerate(lizards, start=2)
    }
    if split == "valid_u":
        (place / "mask_dict.json").write_text(json.dumps(tracks), encoding="utf-8")
    (sample,) = build(f"mevis(split={split})", tmp_path).samples()
    assert f"`{sample.id}`" in card("mevis").ids and sample.id == "377b1c5f365c/0"
    assert sample.group == video and sample.query.text == "4 lizards moving around"
    if split == "valid":
        assert sample.target is None
    else:
        first, second = (mask.to_array() for mask in sample.target.answer.masks)
        assert np.array_equal(first, np.any(lizards, axis=0))
        assert np.array_equal(second, lizards[0])
        assert sample.categories == {"objects": "several"}


def test_the_record_and_the_ids_of_counting(build, table, image, tmp_path):
    row = {**json.loads(card("counting").example), "image": {"bytes": image(1), "path": "17.png"}}
    table(tmp_path, "counting_pixmo_validation/data/test-00000-of-00001.parquet", [row])
    (sample,) = build("counting", tmp_path).samples()
    assert (sample.id, sample.target.answer.count) == ("17", 4)
    assert sample.query.text == "How many people are there in this image?"
    for column in ("image_id", "image_sha256/label"):
        assert f"`{column}`" in card("counting").ids


def test_ids_of_counting_are_those_that_the_card_documents(build, shapes):
    """The files' own columns; rows without a column of ids are numbered, lost ones as well."""
    from pyarrow import parquet

    checked = 0
    for split, listing in counting.LISTS.items():
        data = shapes / "counting" / listing.folder / "data"
        for path in data.glob(f"{listing.hub_split}-*.parquet"):
            rows = parquet.read_table(path).to_pylist()
            if "image_sha256" in rows[0]:
                expected = [f"{row['image_sha256']}/{row['label']}" for row in rows]
            elif "image_id" in rows[0]:
                expected = [row["image_id"] for row in rows]
            else:
                expected = [str(number) for number, row in enumerate(rows) if row["image"]]
            samples = build(f"counting(split={split})", shapes).samples()
            assert [sample.id for sample in samples] == expected
            checked += 1
    assert checked == 6


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (b'title = "', b'colour = "red"\ntitle = "', "colour"),
        (b'protocol = "', b'# "', "lacks protocol"),
        (b'title = "', b'title = "\xff', "UTF-8"),
        (b'title = "', b'title = 3 # "', "title"),
        (b'forms = ["', b'forms = "mask" # ["', "forms"),
        (b'forms = ["', b'forms = [3] # ["', "forms"),
        (b"[splits]", b"[[counts]]\nsplits = {val = 1}\n[splits]", "counts"),
    ],
)
def test_a_faulty_card_is_refused_with_its_path_and_the_field(tmp_path, old, new, named):
    whole = (Path(reason_seg.__file__).parent / "card.toml").read_bytes()
    path = tmp_path / "card.toml"
    assert whole.count(b"\n" + old) == 1
    path.write_bytes(whole.replace(b"\n" + old, b"\n" + new))
    with pytest.raises(DataError, match=rf"card\.toml.*{named}"):
        Card.read(path)
