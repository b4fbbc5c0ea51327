"""Ref-DAVIS17: units, objects that compete, and damaged files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.masks import Rle, SoftMask
from harness.media import pixels
from harness.run.scoring import score_unit
from harness.summary import values
from harness.tasks.ref_davis17.task import ground_truth_of_video
from harness.tasks.rvos.writing import palette_png
from harness.types import Answer, Prediction

from .video_task_files import answer, change, first_video, lost


def test_a_unit_is_a_video_and_an_annotator_and_follows_itself(build, shapes):
    samples = list(build("ref_davis17", shapes).samples())
    units = [sample.unit for sample in samples]
    assert len(set(units)) == 4 * len({sample.group for sample in samples})
    assert units == sorted(units, key=units.index), "no unit is interrupted"
    for sample in samples:
        annotator = int(sample.id.rsplit("/", 1)[1]) % 4
        assert sample.unit == f"{sample.group}, annotator {annotator + 1}"
        assert sample.categories["annotator"][0] == str(1 + annotator // 2)
    alone = list(build("ref_davis17(protocol=rvos/visa_davis)", shapes).samples())
    assert [one.id for one in alone] == [one.id for one in samples]
    assert all(one.unit == one.id for one in alone)


def unit_of(task) -> list:
    samples = list(task.samples())
    counts = {one.unit: sum(other.unit == one.unit for other in samples) for one in samples}
    wanted = max(counts, key=counts.get)
    return [one for one in samples if one.unit == wanted]


def test_the_first_frame_says_how_many_objects_there_are(tmp_path):
    """The third appears too late to be one, and the first is one though that frame lacks it."""
    paths = []
    for number, labels in enumerate(([[0, 2, 255]], [[1, 2, 3]])):
        paths.append(tmp_path / f"{number}.png")
        paths[-1].write_bytes(palette_png(np.array(labels, np.uint8)))
    media = pixels([np.zeros((1, 3, 3), np.uint8)] * 2, times=[0, 1], is_video=True, id="x")
    found = ground_truth_of_video(paths, media)
    assert [sum(mask.area for mask in track) for track in found.objects] == [1, 2]
    assert [mask.area for mask in found.void] == [1, 0]
    assert sorted(found.tracks) == [1, 2, 3], "an expression may mean the third"


def test_objects_compete_for_pixels_and_names_do_not_matter(build, shapes):
    task = build("ref_davis17", shapes)
    unit = unit_of(task)
    assert len(unit) == 3
    ground_truth = [one.target.answer.masks for one in unit]
    swapped = [answer(one, masks) for one, masks in zip(unit, ground_truth[::-1], strict=True)]
    scores = score_unit(task, unit, swapped).scores
    assert scores["J"].value == scores["F"].value == 1.0 and scores["J"].weight == 3
    alone = build("ref_davis17(protocol=rvos/visa_davis)", shapes)
    by_id = {one.id: one for one in alone.samples()}
    wrong = [
        score_unit(alone, [by_id[one.id]], [output])
        for one, output in zip(unit, swapped, strict=True)
    ]
    assert values(alone, wrong)["J"] < 0.5, "there each expression has its own object"


def test_confidences_decide_where_masks_overlap(build, shapes):
    task = build("ref_davis17", shapes)
    unit = unit_of(task)
    width, height = unit[0].query.size

    def soft(sample, sure):
        shown = [mask.to_array() for mask in sample.target.answer.masks]
        # Half as sure of everything else: below 0.5 it counts as nothing.
        levels = [np.where(mask, sure, 0.45) for mask in shown]
        return Prediction(
            query_id=sample.query.id,
            answer=Answer(soft_masks=tuple(SoftMask.from_array(level) for level in levels)),
        )

    output = [soft(sample, 0.6 + 0.1 * place) for place, sample in enumerate(unit)]
    assert score_unit(task, unit, output).scores["J"].value == 1.0
    everything = answer(unit[0], (Rle.full(height, width),) * len(unit[0].query.media[0]))
    first = score_unit(task, unit, [everything, *output[1:]]).scores["J"].value
    assert first < 0.5, "of equal or larger confidence, the first object has the pixel"


def test_void_pixels_do_not_count_by_davis_and_do_by_visa(build, shapes):
    task = build("ref_davis17", shapes)
    unit = next(
        [one for one in task.samples() if one.unit == sample.unit]
        for sample in task.samples()
        if any(mask.area for mask in sample.target.ignore)
    )
    first = unit[0]
    spilled = tuple(
        mask.union(void)
        for mask, void in zip(first.target.answer.masks, first.target.ignore, strict=True)
    )
    output = [answer(first, spilled), *(answer(one, one.target.answer.masks) for one in unit[1:])]
    assert score_unit(task, unit, output).scores["J"].value == 1.0
    alone = build("ref_davis17(protocol=rvos/visa_davis)", shapes)
    sample = next(one for one in alone.samples() if one.id == first.id)
    assert score_unit(alone, [sample], [output[0]]).scores["J"].value < 1.0


def test_an_expression_without_an_answer_leaves_its_object_without_a_proposal(build, shapes):
    task = build("ref_davis17", shapes)
    unit = unit_of(task)
    output = [lost(unit[0]), *(answer(one, one.target.answer.masks) for one in unit[1:])]
    done = score_unit(task, unit, output)
    assert done.failed == 1
    empty = [not mask.area for mask in unit[0].target.answer.masks]
    assert done.scores["J"].value == pytest.approx((2 + np.mean(empty)) / 3)
    none = score_unit(task, unit, [lost(one) for one in unit])
    assert none.scores["J"].value < 0.4 and none.failed == 3


def davis_expressions(edit):
    def changed(plain):
        edit(first_video(plain)["expressions"])

    return changed


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda said: said.popitem(), "'expressions': .*found 11"),
        (lambda said: said.clear(), "'expressions': .*found 0"),
        (lambda said: said["1"].update(obj_id="2"), "expressions 0, 1, 2, 3.*one 'obj_id'"),
        (lambda said: said["2"].pop("obj_id"), "expression '2': 'obj_id'"),
        (lambda said: said["0"].pop("exp"), "expression '0': 'exp'"),
        (
            lambda said: [one.update(obj_id="255") for one in list(said.values())[:4]],
            "from 1 to 254",
        ),
        (lambda said: [one.update(obj_id="x") for one in list(said.values())[:4]], "from 1 to 254"),
    ],
)
def test_wrong_expressions_of_ref_davis17_are_refused_by_name(build, copied, edit, message):
    data = copied("ref_davis17")
    meta = data / "ref_davis17/meta_expressions/valid/meta_expressions.json"
    change(meta, davis_expressions(edit))
    task = build("ref_davis17", data)
    with pytest.raises(DataError, match=message):
        list(task.samples())
    assert list(task.check())


def test_damaged_annotations_of_ref_davis17_are_refused_by_name(build, copied):
    data = copied("ref_davis17")
    paths = sorted((data / "ref_davis17/valid/Annotations").rglob("*.png"))
    whole = paths[0].read_bytes()
    paths[0].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"annotation .*00000\.png.*complete PNG"):
        list(build("ref_davis17", data).samples())
    paths[0].write_bytes(palette_png(np.zeros((9, 9), np.uint8)))
    with pytest.raises(DataError, match=r"00000\.png.*found 9 × 9"):
        list(build("ref_davis17", data).samples())
    paths[0].unlink()
    assert str(paths[0]) in [one.path for one in build("ref_davis17", data).check()]


def test_objects_that_appear_after_the_first_frame_are_none_for_davis(build, copied):
    data = copied("ref_davis17")
    sample = next(iter(build("ref_davis17", data).samples()))
    before = sample.target.extra["objects"]
    place = data / "ref_davis17/valid/Annotations" / sample.group
    first, second = sorted(place.glob("*.png"))[:2]
    relabel(second, lambda labels: labels == 0, 9)
    assert next(iter(build("ref_davis17", data).samples())).target.extra["objects"] == before
    relabel(first, lambda labels: np.indices(labels.shape).sum(axis=0) == 0, 9)
    after = next(iter(build("ref_davis17", data).samples())).target.extra["objects"]
    assert len(after) == 9 > len(before)
    assert not any(mask.area for mask in after[7]), "one that is skipped has no pixels"


def relabel(path: Path, where, value: int) -> None:
    labels = np.asarray(Image.open(path)).copy()
    labels[where(labels)] = value
    path.write_bytes(palette_png(labels))
