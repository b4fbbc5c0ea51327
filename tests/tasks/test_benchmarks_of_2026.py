"""Benchmarks of 2025 and 2026: cards say what tasks do, layouts are read, ceilings are reached."""

import inspect
import json
import shutil
import typing
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.card import Card
from harness.errors import DataError, UsageError
from harness.hub.fetch import card_of, repositories
from harness.masks import Rle
from harness.run.verify import verify
from harness.scores import Totals, quotient
from harness.spec import parse
from harness.tasks.saco.scoring import predicted_instances
from harness.types import Answer, Box, Failure, FailureKind, Interval, Point, Prediction

SPECS = {
    "refspatial": 8,
    "refspatial(split=placement,protocol=refspatial/white)": 8,
    "refspatial(split=unseen)": 8,
    "where2place": 8,
    "where2place(protocol=where2place/white)": 8,
    "pointbench": 8,
    "robospatial": 24,
    "robospatial(split=context)": 8,
    "mevis(version=2)": 8,
    "mevis(version=2,protocol=rvos/mevis_no_target)": 8,
    "reason_vos": 8,
    "reason_vos(protocol=reasonvos/strict)": 8,
    "ref_sav": 8,
    "ref_sav(protocol=refsav/strict)": 8,
    "refcoco_m": 8,
    "mvbench": 20,
    "mvbench(clips=whole,frames=4)": 20,
    "perception_test": 8,
    "mmvu": 8,
    "mmvu(protocol=mmvu/judged)": 8,
    "mmvu(protocol=mmvu/strict,frames=4)": 8,
    "video_mmmu": 24,
    "video_mmmu(split=knowledge,protocol=videommmu/strict)": 16,
    "mmsi_bench": 8,
    "mindcube": 8,
    "view_spatial(protocol=viewspatial/strict)": 8,
    "blink": 8,
    "embspatial": 8,
    "three_dsr_bench": 8,
    "charades_sta": 8,
    "revsi": 13,
    "revsi(split=all,protocol=revsi/strict)": 13,
    "saco": 16,
    "saco(split=silver,domain=geode,protocol=saco/strict)": 16,
    "saco_veval": 6,
    "saco_veval(split=val,protocol=veval/strict)": 6,
    "site_bench": 8,
    "site_bench(protocol=site/strict)": 8,
    "video_mme_v2": 2,
    "video_mme_v2(protocol=videommev2/strict,subtitles=all)": 2,
    "video_mme_v2(prompt=official,frames=4)": 2,
}
"""Each task, and its units in a world of eight."""
NAMES = sorted({parse(spec).name for spec in SPECS})


def folder(name):
    return Path(import_module(f"harness.tasks.{name}").__file__).parent


def card(name):
    return Card.read(folder(name) / "card.toml")


@pytest.fixture
def world(shapes):
    """The generated world, which has these benchmarks too."""
    return shapes


@pytest.fixture(scope="module")
def reader():
    return plugins.build("models", parse("qwen_vl(backend=stored)"))


@pytest.fixture(scope="module")
def predicted():
    """A prediction for a sample, of the fields of an answer."""
    return lambda sample, **fields: Prediction(query_id=sample.query.id, answer=Answer(**fields))


@pytest.mark.parametrize("name", NAMES)
def test_cards_are_filled_and_name_the_splits_and_protocols_of_the_task(name):
    shown, module = card(name), import_module(f"harness.tasks.{name}.task")
    for field in fields(Card):
        optional = ("notes", "hub", "videos", "counts", "folder")
        assert getattr(shown, field.name) or field.name in optional, field.name
    assert "arXiv" in shown.paper and "ROOT/" in shown.data
    function = getattr(module, name)
    hints, defaults = typing.get_type_hints(function), inspect.signature(function).parameters
    assert set(shown.splits) == set(typing.get_args(hints["split"]))
    assert defaults["split"].default == shown.default_split
    assert defaults["protocol"].default == shown.protocol
    assert list(shown.protocols) == list(module.PROTOCOLS)
    assert module.PROTOCOLS[shown.protocol].headline == shown.headline
    for key, protocol in module.PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert all(metric.about for metric in protocol.metrics)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_arguments_and_missing_files_are_refused_by_name(build, world, tmp_path, name):
    with pytest.raises(UsageError, match=card(name).default_split):
        build(f"{name}(split=dev)", world)
    with pytest.raises(UsageError, match=card(name).protocol):
        build(f"{name}(protocol=miou)", world)
    with pytest.raises(DataError, match="harness list tasks"):
        build(name, tmp_path)


@pytest.mark.parametrize(("spec", "count"), SPECS.items())
def test_perfect_answers_reach_the_ceiling_both_ways(build, world, reader, spec, count):
    task = build(spec, world)
    assert not list(task.check())
    assert tuple(map(str, task.forms)) == card(task.name).forms or "official" in spec
    verdicts = list(verify(task, reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    for one in verdicts:
        assert one.is_passed and one.n == count and one.ceiling == pytest.approx(1.0, abs=0.01)


def test_3dsrbench_reads_each_question_once(build, world, tmp_path):
    """The hub has a second table beside the first, which asks every question several times."""
    place = tmp_path / "three_dsr_bench"
    shutil.copytree(world / "three_dsr_bench", place)
    shutil.copytree(place / "3dsr", place / "3dsr_circular")
    assert len(list(build("three_dsr_bench", tmp_path).samples())) == 8


# Pointing: where a point is off by a little


def value(task, sample, points, predicted):
    return task.protocol.score([sample], [predicted(sample, points=points)])["accuracy"].value


def test_a_counting_question_needs_every_point_inside_and_the_true_number(build, world, predicted):
    task = build("pointbench", world)
    counting = next(one for one in task.samples() if one.target.extra["count"])
    points, away = counting.target.answer.points, Point(-5, 3)
    assert len(points) == counting.target.extra["count"] > 1
    assert value(task, counting, points, predicted) == 1
    assert value(task, counting, points[:-1], predicted) == 0
    assert value(task, counting, (*points, points[0]), predicted) == 0
    assert value(task, counting, (*points[:-1], away), predicted) == 0
    single = next(one for one in task.samples() if one.target.extra["count"] is None)
    assert value(task, single, (*single.target.answer.points, away), predicted) == 1
    assert value(task, single, (away, *single.target.answer.points), predicted) == 0


def test_grey_borders_count_in_part_by_the_official_protocol_alone(build, world, predicted):
    official, rounded = (
        build("where2place", world),
        build("where2place(protocol=where2place/white)", world),
    )
    seen = set()
    for sample in official.samples():
        levels = sample.target.answer.soft_masks[0].to_array()
        for y, x in zip(*((levels > 0.2) & (levels < 0.8)).nonzero(), strict=True):
            grey = value(official, sample, (Point(x, y),), predicted)
            assert grey == pytest.approx(levels[y, x])
            assert value(rounded, sample, (Point(x, y),), predicted) == float(grey > 0.5)
            seen.add(round(grey))
    assert seen == {0, 1}, "JPEG borders are there, on both sides"


def test_a_sample_scores_the_share_of_its_points_and_no_point_is_nothing(build, world, predicted):
    task = build("refspatial", world)
    sample = next(iter(task.samples()))
    (point,) = sample.target.answer.points
    assert value(task, sample, (point, Point(-2, 0), point, Point(1e9, 1)), predicted) == 0.5
    assert value(task, sample, (), predicted) == 0
    assert value(task, sample, (Point(float("nan"), 0),), predicted) == 0


def test_a_region_of_another_size_than_its_image_is_refused(build, world, tmp_path):
    shutil.copytree(world / "pointbench", tmp_path / "pointbench")
    path = next((tmp_path / "pointbench" / "masks").iterdir())
    Image.open(path).resize((9, 9)).save(path)
    with pytest.raises(DataError, match="9 × 9"):
        list(build("pointbench", tmp_path).samples())
    assert any("9 × 9" in problem.message for problem in build("pointbench", tmp_path).check())


# Videos: what is missing, what means nothing, what overlaps


def numbers_of(task, pairs):
    totals = Totals(task.protocol.metrics)
    for sample, prediction in pairs:
        totals.add(task.protocol.score([sample], [prediction]))
    return totals.values()


def test_what_is_not_answered_counts_by_the_strict_protocol_alone(build, world, predicted):
    failure = Failure(FailureKind.MODEL, "none")
    for protocol, share in (("official", 1), ("strict", 7 / 8)):
        task = build(f"reason_vos(protocol=reasonvos/{protocol})", world)
        first, *others = task.samples()
        pairs = [(one, predicted(one, masks=one.target.answer.masks)) for one in others]
        pairs.append((first, Prediction(query_id=first.query.id, failure=failure)))
        assert numbers_of(task, pairs)["J&F"] == pytest.approx(share)


def test_frames_without_an_annotation_do_not_count(build, world, predicted):
    task = build("reason_vos", world)
    for sample in task.samples():
        counted, masks = sample.target.extra["counted"], sample.target.answer.masks
        assert 0 < len(counted) < len(masks) == len(sample.query.media[0])
        full = Rle.full(masks[0].height, masks[0].width)
        answer = tuple(mask if k in counted else full for k, mask in enumerate(masks))
        assert numbers_of(task, [(sample, predicted(sample, masks=answer))])["J&F"] == 1


def test_an_expression_of_nothing_is_right_without_a_pixel(build, world, predicted):
    task = build("mevis(version=2,protocol=rvos/mevis_no_target)", world)
    samples = list(task.samples())
    nothing = [one for one in samples if one.categories["objects"] == "none"]
    assert 0 < len(nothing) < len(samples)
    full = {one.id: Rle.full(*one.query.size[::-1]) for one in samples}
    empty = [(one, predicted(one, no_target=True)) for one in samples]
    assert numbers_of(task, empty)["N_acc"] == 1 and numbers_of(task, empty)["T_acc"] == 0
    pairs = [
        (one, predicted(one, masks=(full[one.id],) * len(one.query.media[0]))) for one in samples
    ]
    found = numbers_of(task, pairs)
    assert found["N_acc"] == 0 and found["T_acc"] == 1
    failure = Failure(FailureKind.MODEL, "none")
    failed = [(one, Prediction(query_id=one.query.id, failure=failure)) for one in samples]
    assert not any(numbers_of(task, failed).values())


def test_objects_that_overlap_spoil_the_accuracy_of_a_perfect_answer(build, world, predicted):
    for protocol, right in (("official", 0.75), ("strict", 1.0)):
        task = build(f"ref_sav(protocol=refsav/{protocol})", world)
        sample = next(iter(task.samples()))
        both = Rle.from_array(np.array([[1, 0], [0, 0]], bool))
        other = Rle.from_array(np.array([[1, 1], [0, 0]], bool))
        extra = {"objects": ((both,), (other,)), "foreground": (other,)}
        target = replace(sample.target, answer=Answer(masks=(other,)), extra=extra)
        changed = replace(sample, target=target)
        kind = sample.categories["type"]
        found = task.protocol.score([changed], [predicted(changed, masks=(other,))])
        assert found[f"A {kind}"].value == right and found[f"J {kind}"].value == 1


def test_a_mask_that_is_no_frame_of_the_video_is_named(build, world, tmp_path):
    shutil.copytree(world / "reason_vos", tmp_path / "reason_vos")
    path = next((tmp_path / "reason_vos" / "Annotations").rglob("*.png"))
    shutil.copy(path, path.with_name("99999.png"))
    with pytest.raises(DataError, match="99999"):
        list(build("reason_vos", tmp_path).samples())
    assert any("99999" in problem.message for problem in build("reason_vos", tmp_path).check())


# Groups of four


def group_score(task, unit, *said):
    answers = [
        Prediction(query_id=one.query.id, answer=Answer(text=text), responses=(text,))
        for one, text in zip(unit, said, strict=True)
    ]
    return task.protocol.score(unit, answers)["score"].value


def test_a_group_is_scored_together_and_an_unreadable_answer_is_no_zero(build, world):
    official, strict = (
        build(f"video_mme_v2(protocol=videommev2/{name})", world) for name in ("official", "strict")
    )
    samples = list(official.samples())
    units = {name: [one for one in samples if one.unit == name] for name in ("001", "002")}
    assert all(len(unit) == 4 for unit in units.values())
    relevance, logic = units["001"], units["002"]
    assert logic[0].target.extra["structure"] == "[1, [2, 3], 4]"
    right = [one.target.answer.choice for one in relevance]
    wrong = "H" if right[0] != "H" else "G"
    assert group_score(official, relevance, *right[:2], wrong, wrong) == 0.25
    assert group_score(official, relevance, *right[:2], "?", "?") == 0
    assert group_score(strict, relevance, *right[:2], "?", "?") == 0.25
    right = [one.target.answer.choice for one in logic]
    assert group_score(official, logic, right[0], wrong, right[2], right[3]) == pytest.approx(1 / 3)
    assert group_score(official, logic, "?", "?", "?", "?") == 1
    assert group_score(strict, logic, "?", "?", "?", "?") == 0


def test_groups_are_four_questions_on_one_video(build, world, tmp_path):
    from pyarrow import parquet

    shutil.copytree(world / "video_mme_v2", tmp_path / "video_mme_v2")
    path = tmp_path / "video_mme_v2" / "test.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.slice(1), path)
    with pytest.raises(DataError, match="001-2"):
        list(build("video_mme_v2", tmp_path).samples())


def test_words_of_a_video_stand_before_its_questions(build, world):
    with_words = {one.id: one for one in build("video_mme_v2(subtitles=all)", world).samples()}
    assert "second-0 second-1" in with_words["001-1"].query.text
    assert "second-" not in with_words["002-1"].query.text


# Instances of a phrase, or none


def instances_of(sample, *, score=None, kept=None):
    """The true objects of a sample, or some of them, as predicted with one score."""
    tracks = sample.target.answer.instances[:kept]
    frames = len(sample.query.media[0])
    nothing = (Rle.empty(*sample.query.size[::-1]),) * frames
    masks = tuple(Rle.union(*frame) for frame in zip(*tracks, strict=True)) or nothing
    scores = None if score is None else (score,) * len(tracks)
    answer = Answer(masks=masks, instances=tracks, box_scores=scores, no_target=not tracks)
    return sample, Prediction(query_id=sample.query.id, answer=answer)


@pytest.mark.parametrize(
    ("name", "path", "key"),
    [
        ("saco", "gold/gold_metaclip_merged_a_release_test.json", "annotations"),
        ("saco", "gold/gold_metaclip_merged_c_release_test.json", "images"),
        ("saco_veval", "annotation/saco_veval_sav_test.json", "video_np_pairs"),
    ],
)
def test_an_entry_that_is_no_object_is_named(build, world, tmp_path, name, path, key):
    shutil.copytree(world / name, tmp_path / name)
    plain = json.loads((tmp_path / name / path).read_text())
    (tmp_path / name / path).write_text(json.dumps({**plain, key: ["none", *plain[key]]}))
    with pytest.raises(DataError, match=r" 0: expected one JSON object, found str"):
        list(build(name, tmp_path).samples())


def test_an_object_of_refcoco_m_that_is_none_is_named(build, world, tmp_path):
    from pyarrow import Table, parquet

    shutil.copytree(world / "refcoco_m", tmp_path / "refcoco_m")
    (path,) = (tmp_path / "refcoco_m").rglob("*.parquet")
    rows = [{**row, "samples": ["none"]} for row in parquet.read_table(path).to_pylist()]
    parquet.write_table(Table.from_pylist(rows), path)
    with pytest.raises(DataError, match="row 0: 'id': expected a text or a number"):
        list(build("refcoco_m", tmp_path).samples())


@pytest.mark.parametrize("name", ["saco", "saco_veval"])
def test_a_score_below_a_half_is_nothing_predicted(build, world, name):
    task = build(name, world)
    samples = list(task.samples())
    sure, at, unsure = (
        numbers_of(task, [instances_of(one, score=score) for one in samples])
        for score in (0.9, 0.5, 0.49)
    )
    assert sure["cgF1"] == at["cgF1"] > 0.99 and unsure["pmF1"] == unsure["IL_MCC"] == 0
    if name == "saco_veval":
        assert sure["pHOTA"] == pytest.approx(1) and at["pHOTA"] == 0, "officially > 0.5"


@pytest.mark.parametrize("name", ["saco", "saco_veval"])
def test_a_failure_is_right_where_nothing_is_there_officially_alone(build, world, name):
    prefix = {"saco": "saco", "saco_veval": "veval"}[name]
    failure = Failure(FailureKind.PARSE, "unreadable")
    for protocol, is_right in (("official", True), ("strict", False)):
        task = build(f"{name}(protocol={prefix}/{protocol})", world)
        pairs = [
            instances_of(one)
            if one.target.answer.instances
            else (one, Prediction(query_id=one.query.id, failure=failure))
            for one in task.samples()
        ]
        assert (numbers_of(task, pairs)["IL_MCC"] > 0.99) is is_right


def test_the_union_of_several_objects_is_one_object_and_none_of_them(build, world):
    task = build("saco", world)
    several = [one for one in task.samples() if len(one.target.answer.instances) > 1]
    for sample in several:
        _, whole = instances_of(sample)
        joint = replace(whole, answer=replace(whole.answer, instances=None))
        assert numbers_of(task, [(sample, whole)])["pmF1"] > 0.99
        assert numbers_of(task, [(sample, joint)])["pmF1"] < 0.99
    assert several, "the world has phrases of several objects"


def test_an_object_that_changes_its_track_costs_association_and_no_detection(build, world):
    task = build("saco_veval", world)
    sample = next(one for one in task.samples() if one.target.answer.instances)
    track = sample.target.answer.instances[0]
    half = len(track) // 2
    empty = (Rle.empty(*sample.query.size[::-1]),)
    parts = (track[:half] + empty * (len(track) - half), empty * half + track[half:])
    target = replace(sample.target, extra={"annotators": [(track,)]})
    answer = Answer(masks=track, instances=parts)
    prediction = Prediction(query_id=sample.query.id, answer=answer)
    found = numbers_of(task, [(replace(sample, target=target), prediction)])
    assert found["pDetA"] == 1 and found["pAssA"] < 0.7


def test_pairs_that_one_annotator_left_incomplete_are_no_samples(build, world, tmp_path):
    shutil.copytree(world / "saco", tmp_path / "saco")
    path = tmp_path / "saco" / "gold" / "gold_metaclip_merged_b_release_test.json"
    plain = json.loads(path.read_text())
    plain["images"][0]["is_instance_exhaustive"] = 0
    path.write_text(json.dumps(plain))
    before, after = (list(build("saco", root).samples()) for root in (world, tmp_path))
    assert [one.id for one in after] == [one.id for one in before[1:]]


def test_a_mask_of_another_size_than_its_image_is_refused_by_its_pair(build, world, tmp_path):
    shutil.copytree(world / "saco", tmp_path / "saco")
    path = tmp_path / "saco" / "gold" / "gold_metaclip_merged_a_release_test.json"
    plain = json.loads(path.read_text())
    plain["annotations"][0]["segmentation"] = Rle.empty(5, 7).to_json()
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match="7 × 5"):
        list(build("saco", tmp_path).samples())


# Options


def said(task, sample, text):
    output = Prediction(query_id=sample.query.id, answer=Answer(text=text), responses=(text,))
    return task.protocol.score([sample], [output])


def test_a_clip_ends_where_the_record_says_and_a_whole_video_does_not(build, world):
    clipped, whole = (
        {one.id: one.query.media[0] for one in build(f"mvbench(clips={name})", world).samples()}
        for name in ("clipped", "whole")
    )
    asked = "action_sequence/0"
    assert 0 < len(clipped[asked]) < len(whole[asked])
    assert len(clipped["action_count/0"]) == len(whole["action_count/0"])


def test_an_empty_response_to_mvbench_counts_as_each_protocol_has_it(build, world):
    """Right by the authors' code, left out by lmms-eval's, wrong by the strict one."""
    for protocol, expected in (("official", (1, 1)), ("lmms", (0, 0)), ("strict", (0, 1))):
        task = build(f"mvbench(protocol=mvbench/{protocol})", world)
        sample = next(iter(task.samples()))
        assert quotient(said(task, sample, "")["accuracy"]) == expected


def test_an_empty_free_answer_counts_as_each_protocol_has_it(build, world):
    """Right by MMVU's rules, left out by Video-MMMU's, wrong by the strict ones."""
    counts = {"mmvu/rules": (1, 1), "mmvu/strict": (0, 1)}
    counts |= {"videommmu/official": (0, 0), "videommmu/lmms": (0, 0), "videommmu/strict": (0, 1)}
    for protocol, expected in counts.items():
        name = "mmvu" if "mmvu/" in protocol and "video" not in protocol else "video_mmmu"
        task = build(f"{name}(protocol={protocol})", world)
        sample = next(one for one in task.samples() if not one.query.options)
        assert quotient(said(task, sample, "")["accuracy"]) == expected


def test_a_judge_is_asked_where_the_rules_refuse_a_free_answer_alone(build, world):
    task = build("mmvu(protocol=mmvu/judged)", world)
    samples = list(task.samples())
    choice = next(one for one in samples if one.query.options)
    free = next(one for one in samples if not one.query.options)
    assert said(task, choice, "zzz")["accuracy"].value == 0
    assert said(task, free, f"it is {free.target.answer.text}")["accuracy"].value == 1
    with pytest.raises(UsageError, match="same_meaning"):
        said(task, free, "zzz")


def test_the_gain_of_knowledge_is_of_what_was_wrong_without_the_lecture(build, world, predicted):
    task = build("video_mmmu(split=knowledge)", world)
    totals = Totals(task.protocol.metrics)
    for number, sample in enumerate(task.samples()):
        answer = sample.target.answer
        is_right = sample.categories["track"] == "adaptation" or number % 4 == 0
        given = {"choice": answer.choice, "text": answer.text} if is_right else {"text": "zzz"}
        totals.add(task.protocol.score([sample], [predicted(sample, **given)]))
    numbers = totals.values()
    assert numbers["accuracy"] == numbers["adaptation"] == 1 and numbers["question_only"] == 0.25
    assert numbers["knowledge_gain"] == 1 and numbers["perception"] is None


def test_chance_scores_nothing_and_a_wrong_answer_less(build, world):
    task = build("site_bench", world)
    sample = next(iter(task.samples()))
    letters, right = sample.target.extra["letters"], sample.target.extra["letter"]
    wrong = next(letter for letter in letters if letter != right)
    rows = [(sample, f"({letter})") for letter in letters]
    totals = Totals(task.protocol.metrics)
    for one, text in rows:
        totals.add(said(task, one, text))
    assert totals.values()["CAA"] == pytest.approx(0)
    alone = said(task, sample, f"({wrong})")["CAA"]
    assert alone.numerator < 0 < alone.denominator
    assert said(task, sample, "no idea") == said(task, sample, "no idea"), "drawn by the id"


def test_a_letter_in_a_sentence_is_read_by_the_strict_protocol_alone(build, world):
    for protocol, right in (("lmms", 0), ("official", 0), ("strict", 1)):
        task = build(f"blink(protocol=blink/{protocol})", world)
        sample = next(iter(task.samples()))
        text = f"The answer is {sample.target.answer.choice}."
        assert said(task, sample, text)["accuracy"].value == right


def test_an_answer_that_is_no_option_is_refused_by_its_row(build, world, tmp_path):
    shutil.copytree(world / "site_bench", tmp_path / "site_bench")
    path = tmp_path / "site_bench" / "image_test.jsonl"
    path.write_text(path.read_text().replace('"answer": "A"', '"answer": "Z"'))
    with pytest.raises(DataError, match="'Z'"):
        list(build("site_bench", tmp_path).samples())


def test_a_folder_and_an_archive_beside_a_table_are_no_parts_of_it(build, world, tmp_path):
    shutil.copytree(world / "site_bench", tmp_path / "site_bench")
    (tmp_path / "site_bench" / "image_test").mkdir()
    (tmp_path / "site_bench" / "image_test.zip").write_bytes(b"PK")
    ours, theirs = (build("site_bench", root).samples() for root in (tmp_path, world))
    assert [one.id for one in ours] == [one.id for one in theirs]


def test_a_level_that_a_table_has_as_a_float_is_a_level(build, world, tmp_path):
    """As pandas writes whole numbers beside a missing one; the official script makes ints of it."""
    from pyarrow import float64, parquet

    (tmp_path / "video_mme_v2").mkdir()
    table = parquet.read_table(world / "video_mme_v2" / "test.parquet")
    place = table.column_names.index("level")
    table = table.set_column(place, "level", table["level"].cast(float64()))
    parquet.write_table(table, tmp_path / "video_mme_v2" / "test.parquet")
    whole = [one.categories["level"] for one in build("video_mme_v2", world).samples()]
    assert [one.categories["level"] for one in build("video_mme_v2", tmp_path).samples()] == whole


def test_the_right_answer_of_revsi_depends_on_the_frames_that_are_shown(build, world):
    few, every = (
        {one.id: one.target.answer.number for one in build(f"revsi(split={n})", world).samples()}
        for n in ("frames16", "all")
    )
    assert few.keys() == every.keys()
    assert 0 < sum(few[name] != every[name] for name in few) < len(few)


def test_a_stretch_of_time_counts_by_its_overlap_and_in_either_order(build, world, predicted):
    task = build("charades_sta", world)
    sample = next(iter(task.samples()))
    start, end = sample.target.answer.interval
    middle = (start + end) / 2

    def scores(*bounds):
        output = predicted(sample, interval=Interval(*bounds))
        return {name: one.value for name, one in task.protocol.score([sample], [output]).items()}

    assert set(scores(start, end).values()) == {1.0}
    assert scores(end, start) == scores(start, end)
    half = scores(start, middle)
    assert half["mIoU"] == pytest.approx(0.5) and half["R1@0.3"] == 1 and half["R1@0.7"] == 0
    assert set(scores(end + 1, end + 2).values()) == {0.0}
    failed = Prediction(query_id=sample.query.id, failure=Failure(FailureKind.PARSE, "none"))
    assert {one.value for one in task.protocol.score([sample], [failed]).values()} == {0.0}


@pytest.mark.parametrize("boxes", [1, 2])
def test_a_joint_mask_of_saco_is_one_object_whatever_its_boxes_score(boxes):
    scored = {"boxes": (Box(0, 0, 2, 2),) * boxes, "box_scores": (0.3,) * boxes}
    joint = Answer(masks=(Rle.from_array(np.ones((2, 2), np.bool_)),), **scored)
    assert predicted_instances(Prediction(query_id="q", answer=joint)) == (joint.masks,)


def test_every_split_of_saco_has_a_repository():
    assert set(repositories(card_of("saco"))) == set(card_of("saco").splits)
