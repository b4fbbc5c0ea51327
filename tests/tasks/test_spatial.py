"""STI-Bench, VSI-Bench, SPAR-Bench and V-STaR: what is read, asked and refused."""

import hashlib
import inspect
import json
import shutil
import typing
from collections import Counter
from dataclasses import fields

import numpy as np
import pytest

from harness.card import Card
from harness.metrics.spar import TASKS
from harness.metrics.vsi import CHOICE_TYPES, NUMBER_TYPES
from harness.tasks.spar_bench import records as spar_records
from harness.tasks.sti_bench import records as sti_records
from harness.tasks.sti_bench.records import KIND_OF_TASK, quantity
from harness.tasks.v_star import records as vstar_records
from harness.tasks.vsi_bench import records as vsi_records
from harness.world.mp4 import write_mp4

from .spatial_tasks import MODULES, NAMES, card


@pytest.fixture
def copied(example, tmp_path):
    """A copy of an example that may be changed."""

    def made(name):
        shutil.copytree(example(name), tmp_path, dirs_exist_ok=True)
        return tmp_path

    return made


def rows(root):
    """The rows of a folder's only table."""
    from pyarrow import parquet

    (path,) = root.rglob("*.parquet")
    return parquet.read_table(path).to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_cards_say_what_the_tasks_do(name):
    info, module = card(name), MODULES[name]
    function = getattr(module, name)
    for field in fields(Card):
        assert getattr(info, field.name) or field.name in ("hub", "videos", "counts")
    hints = typing.get_type_hints(function)
    defaults = inspect.signature(function).parameters
    assert set(info.splits) == set(typing.get_args(hints["split"]))
    assert defaults["split"].default == info.default_split
    assert defaults["protocol"].default == info.protocol
    assert list(info.protocols) == list(module.PROTOCOLS)
    assert module.PROTOCOLS[info.protocol].headline == info.headline
    for key, protocol in module.PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert all(metric.about for metric in protocol.metrics)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_of_a_card_is_in_the_layout_that_is_read(name):
    record = json.loads(card(name).example)
    columns = {
        "sti_bench": sti_records.COLUMNS,
        "vsi_bench": vsi_records.COLUMNS,
        "spar_bench": spar_records.COLUMNS,
    }
    if name == "v_star":
        (read,) = [vstar_records._record(record, "card", Counter())]
        assert read.interval == (3.2, 7.9) and list(read.seconds) == [4, 5, 6, 7]
    else:
        assert set(columns[name]) <= set(record)


@pytest.mark.parametrize("name", NAMES)
def test_the_official_prompt_and_files_are_those_of_the_official_code(build, example, golden, name):
    found = golden(name)["questions"]
    task = build(
        f"{name}(prompt=official{',where=text' if name == 'v_star' else ''})", example(name)
    )
    samples = list(task.samples())
    if name == "v_star":
        by_item = {sample.id: sample.query.text for sample in samples}
        order = ("what", "when", "where", "where2", "when2")
        units = dict.fromkeys(sample.unit for sample in samples)
        ours = [[vid.split("#")[0], [by_item[f"{vid}/{step}"] for step in order]] for vid in units]
        assert ours == found
        return
    assert [[sample.id, sample.query.text] for sample in samples] == [row[:2] for row in found]
    for sample, row in zip(samples, found, strict=True):
        assert not sample.query.options, "they are in the text"
        if name == "spar_bench":
            digests = [
                hashlib.blake2b(one["bytes"], digest_size=16).hexdigest()
                for one in rows(example(name))[int(sample.id)]["image"]
            ]
            assert digests == row[2] and len(sample.query.media) == len(row[2])
        elif name == "vsi_bench":
            assert row[2] == f"{sample.group}.mp4"
        else:
            assert (sample.group, sample.categories["scene"]) == tuple(row[2:])


def test_a_question_without_the_official_form_keeps_its_options_apart(build, example):
    for name in ("sti_bench", "vsi_bench"):
        plain = list(build(name, example(name)).samples())
        whole = list(build(f"{name}(prompt=official)", example(name)).samples())
        for one, other in zip(plain, whole, strict=True):
            assert one.id == other.id and one.target.answer == other.target.answer
            assert other.query.text.startswith(one.query.text)
            assert bool(one.query.options) == (one.query.form == "choice")
            for text in one.query.options:
                assert text in other.query.text and f". {text}" not in one.query.text


@pytest.mark.parametrize("name", NAMES)
def test_every_official_type_of_question_is_in_the_generated_world(build, shapes, name):
    samples = list(build(name, shapes).samples())
    kinds = {
        "sti_bench": {*KIND_OF_TASK},
        "vsi_bench": {*CHOICE_TYPES, *NUMBER_TYPES},
        "spar_bench": {*TASKS},
        "v_star": {"what", "when", "where", "where2", "when2"},
    }[name]
    category = {"sti_bench": "task", "vsi_bench": "type", "spar_bench": "task"}.get(name)
    found = {one.categories[category] if category else one.id.rpartition("/")[2] for one in samples}
    assert found == kinds


def test_static_and_dynamic_tasks_and_scenes_are_breakdowns(build, shapes):
    samples = list(build("sti_bench", shapes).samples())
    assert {one.categories["kind"] for one in samples} == {"static", "dynamic"}
    assert {one.categories["scene"] for one in samples} == {"indoor", "outdoor", "desktop"}


def test_the_numeric_form_keeps_questions_whose_options_share_a_unit(build, shapes):
    whole = {one.id: one for one in build("sti_bench", shapes).samples()}
    numeric = list(build("sti_bench(form=numeric)", shapes).samples())
    assert 0 < len(numeric) < len(whole)
    for one in numeric:
        same = whole[one.id]
        right = same.query.options["ABCDE".index(same.target.answer.choice)]
        number, unit = quantity(right)
        assert one.target.answer.number == number and one.query.text.endswith(f"in {unit}.")
        assert not one.query.options and right not in one.query.text
    for option in ("1 m to 2 m", "0.5 m and 2 m", "5 m, turning", "(1, 2)", "5", "left"):
        assert quantity(option) is None


def test_frames_are_chosen_as_they_are_asked_for(build, shapes):
    wanted = {
        "sti_bench": (8, "all"),
        "sti_bench(frames=3)": (3, "uniform(n=3)"),
        "vsi_bench(frames=seconds(every=2))": (4, "seconds(every=2)"),
        "vsi_bench(frames=lmms_eval)": (8, "linspace(n=32)"),
    }
    for spec, (length, info) in wanted.items():
        task = build(spec, shapes)
        assert {len(one.query.media[0]) for one in task.samples()} == {length}
        assert task.arguments["frames"] == info
    part, whole = (
        next(iter(build(spec, shapes).samples())).query.media[0]
        for spec in ("sti_bench(frames=3)", "sti_bench")
    )
    assert part.times() == pytest.approx((0, 4, 7)) and part.id != whole.id
    for place, second in enumerate((0, 4, 7)):
        assert np.array_equal(part.frame(place), whole.frame(second))


def test_a_track_of_v_star_has_a_frame_a_second_whatever_the_rate(build, copied, tmp_path):
    root = copied("v_star")
    item = json.loads((root / "v_star" / "V_STaR_test.json").read_text())[0]
    black = np.zeros((item["height"], item["width"], 3), np.uint8)
    frames = [black + 20 * (k // 5) for k in range(40)]
    write_mp4(
        root / "v_star" / "videos" / f"{item['vid']}.mp4", frames, times=[k / 5 for k in range(40)]
    )
    media = next(iter(build("v_star", root).samples())).query.media[0]
    assert media.times() == pytest.approx(range(8), abs=1e-3)
    assert [round(float(media.frame(k).mean()) / 20) for k in range(8)] == list(range(8))
