"""Mixtures and parts of benchmarks' own training files, and GroundMoRe."""

import json
from collections import Counter

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.tasks.llm_seg40k.task import llm_seg40k
from harness.tasks.llm_seg40k.writer import write as write_llm_seg40k
from harness.tasks.mevis.task import mevis
from harness.tasks.reason_seg.task import reason_seg
from harness.tasks.ref_davis17.task import ref_davis17
from harness.tasks.ref_youtube_vos.task import ref_youtube_vos
from harness.tasks.revos.task import revos
from harness.tasks.revos.writer import write as write_revos
from harness.tasks.training.groundmore.task import clip_start, object_ids, seconds
from harness.tasks.training.videoseg_r1_15k.task import draw_ids, expressions
from harness.types import Box
from harness.world.shapes import make_world


def test_the_benchmarks_own_tasks_read_their_training_parts(bases, tmp_path):
    """MeViS, Ref-YouTube-VOS and Ref-DAVIS17, ReVOS and LLM-Seg40K need no readers of their own."""
    world = make_world(seed=3, size=1)
    write_revos(world, tmp_path)
    write_llm_seg40k(world, tmp_path)
    tasks = [
        mevis(bases, split="train"),
        ref_youtube_vos(bases, split="train"),
        ref_davis17(bases, split="train"),
        revos(tmp_path, split="train"),
        llm_seg40k(tmp_path, split="train"),
    ]
    for task in tasks:
        samples = list(task.samples())
        assert samples and all(one.target is not None for one in samples), task.name
        assert not list(task.check())


def test_all_wordings_of_reason_seg_are_asked_about_the_same_mask(build, bases):
    first = {one.id: one for one in reason_seg(bases, split="train").samples()}
    found = list(build("reason_seg_train", bases).samples())
    texts = {
        stem: json.loads((bases / f"reason_seg/ReasonSeg/train/{stem}.json").read_text())
        for stem in first
    }
    assert Counter(one.id.partition("#")[0] for one in found) == {
        stem: len(plain["text"]) for stem, plain in texts.items()
    }
    for one in found:
        stem, _, number = one.id.partition("#")
        assert one.query.text == texts[stem]["text"][int(number or 0)].strip()
        assert one.target == first[stem].target and one.group == first[stem].group
    assert len({one.query.id for one in found}) == len(found) > len(first)


def test_one_wording_of_each_image_follows_the_seed(build, bases):
    first = [one.id for one in build("reason_seg_train", bases, texts="first").samples()]
    assert first == [one.id for one in reason_seg(bases, split="train").samples()]
    drawn_ids = [
        [one.id for one in build("reason_seg_train", bases, texts="one", seed=seed).samples()]
        for seed in (0, 0, 1, 2)
    ]
    assert drawn_ids[0] == drawn_ids[1] and any(one != drawn_ids[0] for one in drawn_ids[2:])
    assert [one.partition("#")[0] for one in drawn_ids[0]] == first


def test_the_mixture_has_sixty_thirty_and_ten_percent(build, bases):
    task = build("videoseg_r1_15k", bases, total=40)
    samples = list(task.samples())
    assert Counter(one.categories["set"] for one in samples) == {
        "mevis": 24,
        "ref_youtube_vos": 12,
        "ref_davis17": 4,
    }
    assert len({one.id for one in samples}) == len({one.query.id for one in samples}) == 40
    assert not list(task.check())
    again = [one.id for one in build("videoseg_r1_15k", bases, total=40).samples()]
    assert again == [one.id for one in samples]
    other = [one.id for one in build("videoseg_r1_15k", bases, total=40, seed=1).samples()]
    assert other != again


def test_a_set_that_is_too_small_gives_every_expression_before_any_again(build, bases):
    whole = expressions(bases / "mevis/train/meta_expressions.json")
    task = build("videoseg_r1_15k", bases, total=10 * len(whole))
    times = Counter(one.id.split("#")[0] for one in task.samples() if one.id.startswith("mevis/"))
    assert set(times) == {f"mevis/{one}" for one in whole}
    assert set(times.values()) == {6}
    once = build("videoseg_r1_15k", bases, total=10 * len(whole), repeat=False)
    assert once.arguments["samples"]["mevis"] == len(whole)
    assert once.arguments["samples"] == once.arguments["expressions"]


def test_a_total_that_cannot_be_shared_is_refused(build, bases):
    for total in (5, 11, 0):
        with pytest.raises(UsageError, match=rf"\(total=…\): .*10.*found {total}"):
            build("videoseg_r1_15k", bases, total=total)


def test_expressions_are_drawn_without_replacement_round_by_round():
    ids = [str(number) for number in range(7)]
    found = draw_ids(ids, 17, seed=0, name="x")
    assert set(found[:7]) == set(found[7:14]) == set(ids) and found[:7] != found[7:14]
    assert draw_ids([], 3, seed=0, name="x") == []


def test_masks_of_groundmore_are_those_of_its_objects_during_the_action(build, example):
    root = example("groundmore")
    for sample in build("groundmore", root).samples():
        masks = sample.target.answer.masks
        first, last = sample.target.extra["action"]
        assert len(masks) == len(sample.query.media[0]) == 8 and (first, last) == (0, 5)
        assert all(mask.area == 0 for mask in masks[last + 1 :]) and masks[0].area > 0
        for mask, box in zip(masks, sample.target.answer.box_track, strict=True):
            if not mask.area:
                assert box is None
                continue
            rows, columns = np.nonzero(mask.to_array())
            assert box == Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


def test_times_and_objects_of_groundmore_are_read_as_officially():
    assert clip_start("kitchen_0130_0145", "clip") == 90
    assert seconds("1:02:03", "time") == 3723
    assert object_ids({"obj_id": "3, 7"}, "q") == (3, 7) and object_ids({"obj_id": 2}, "q") == (2,)
    for wrong in ("kitchen", "kitchen_130_145"):
        with pytest.raises(DataError, match="MMSS_MMSS"):
            clip_start(wrong, "clip")
    for wrong in ("", "1;2", "0", "256", "a"):
        with pytest.raises(DataError, match="obj_id"):
            object_ids({"obj_id": wrong}, "q")
    with pytest.raises(DataError, match="MM:SS"):
        seconds("soon", "time")


def test_a_question_of_groundmore_without_a_mask_is_named(build, tmp_path, example):
    import shutil

    shutil.copytree(example("groundmore"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "groundmore" / "trainval_v2.json"
    plain = json.loads(path.read_text("utf-8"))
    ((clip, video),) = plain["videos"].items()
    video["questions"]["0"]["obj_id"] = "200"
    video["questions"]["1"]["action_end"] = "late"
    path.write_text(json.dumps(plain), encoding="utf-8")
    problems = list(build("groundmore", tmp_path).check())
    assert [one.path for one in problems] == [f"sample '{clip}/0'", f"clip {clip!r}"]
    assert "action_end" in problems[1].message


def test_an_answer_of_activitynet_that_is_missing_is_named(build, tmp_path, example):
    import shutil

    shutil.copytree(example("activitynet_qa"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "activitynet_qa" / "dataset" / "train_a.json"
    plain = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(plain[1:]), encoding="utf-8")
    task = build("activitynet_qa", tmp_path)
    with pytest.raises(DataError, match=plain[0]["question_id"]):
        list(task.samples())
    assert len(list(task.check())) == 1
    for kind in (12, "../x"):
        path.write_text(json.dumps([{**one, "type": kind} for one in plain]), encoding="utf-8")
        with pytest.raises(DataError, match="'type'"):
            list(build("activitynet_qa", tmp_path).samples())


@pytest.mark.parametrize("name", ["", "../x"])
def test_a_video_of_activitynet_that_has_no_name_is_refused(build, tmp_path, example, name):
    import shutil

    shutil.copytree(example("activitynet_qa"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "activitynet_qa" / "dataset" / "train_q.json"
    plain = [{**one, "video_name": name} for one in json.loads(path.read_text("utf-8"))]
    path.write_text(json.dumps(plain), encoding="utf-8")
    task = build("activitynet_qa", tmp_path)
    with pytest.raises(DataError, match=f"^name '{name}' in"):
        list(task.samples())
    assert f"name '{name}' in" in next(iter(task.check())).message
