"""Readers of benchmarks whose files tell objects apart: their instances are those of the files."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.interchange.journal_form import answer_to_json, as_requested
from harness.masks import Rle
from harness.media import pixels
from harness.models.response_writer import objects_in, parts
from harness.run.oracle import Oracle
from harness.segmentation import ObjectPrompt
from harness.spec import parse
from harness.types import Answer, Target

NUMBERS = {
    # How many instances each sample of the examples has.
    "mevis": [1, 4, 1],
    "revos": [1, 1, 0],
    "ref_youtube_vos": [1, 1, 1],
    "ref_davis17": [1] * 12,
    "groundmore": [1, 2, 1],
    "shapes_referring": [1, 2, 1],
    "refcoco": [1, 1, 1],
    "refcoco(protocol=res/expression)": [1, 1, 1],
    "refcoco(protocol=res/instance)": [1, 1],
    "refcocog": [1, 1, 1],
    "refcoco_plus": [1, 1, 1],
    "grefcoco": [2, 2, 0],
    "grefcoco(protocol=res/visionreasoner-nonobj)": [2, 2, 0],
}
OTHER = ("reason_seg", "llm_seg40k", "jitbench", "rvtbench_seg")
"""What tells no objects apart."""


@pytest.fixture
def samples(build, example):
    """Samples of a task's example."""

    def read(spec):
        root = example(parse(spec).name)
        if not root.is_dir():
            root = root.parents[1] / "training" / parse(spec).name / "example"
        return list(build(spec, root).samples())

    return read


def union(answer, frame):
    mask = answer.masks[frame]
    nothing = Rle.empty(mask.height, mask.width)
    return nothing.union(*(track[frame] for track in answer.instances)).to_array()


def same(answer):
    """Whether the instances of an answer unite to its masks in every frame."""
    return all(
        np.array_equal(union(answer, frame), mask.to_array())
        for frame, mask in enumerate(answer.masks)
    )


@pytest.mark.parametrize(("spec", "numbers"), NUMBERS.items())
def test_instances_unite_to_the_masks(samples, spec, numbers):
    several = samples(spec)
    answers = [sample.target.answer for sample in several]
    assert [len(answer.instances) for answer in answers] == numbers
    for answer in answers:
        assert all(len(track) == len(answer.masks) for track in answer.instances)
        assert same(answer)
    asked = [as_requested(sample.query, sample.target.answer) for sample in several]
    assert all("instances" not in answer_to_json(answer) for answer in asked)


@pytest.mark.parametrize("spec", OTHER)
def test_where_no_file_tells_objects_apart_nothing_does(samples, spec):
    assert all(sample.target.answer.instances is None for sample in samples(spec))


def test_a_hidden_middle_of_the_example_is_one_object_in_two_parts(samples):
    first = samples("mevis")[0].target.answer
    assert len(first.instances) == 1
    assert max(len(parts(mask)) for mask in first.masks) == 2


def test_as_many_instances_as_boxes_are_in_their_order(samples):
    for spec in ("shapes_referring", "grefcoco(protocol=res/visionreasoner-nonobj)"):
        for sample in samples(spec):
            answer = sample.target.answer
            for box, (mask,) in zip(answer.boxes, answer.instances, strict=True):
                (around, *_) = parts(mask)
                assert np.abs(np.subtract(around.box, box)).max() <= 1, sample.id


# By hand: two objects that touch, one of them in two parts, and one frame without the other


def mask(*columns, shape=(8, 12)):
    array = np.zeros(shape, bool)
    array[2:6, list(columns)] = True
    return Rle.from_array(array)


LEFT, RIGHT, PARTED = mask(0, 1, 2), mask(3, 4, 5), mask(0, 7)


@pytest.fixture
def film(tmp_path):
    """Two black frames in a folder."""

    def write(folder: Path, frames=("a", "b")):
        folder.mkdir(parents=True)
        for frame in frames:
            Image.new("RGB", (12, 8)).save(folder / f"{frame}.jpg")
        return list(frames)

    return write


def saved(path: Path, plain) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain), encoding="utf-8")


TRACKS = {"7": [LEFT.to_json(), None], "8": [RIGHT.to_json(), PARTED.to_json()]}
EMPTY = Rle.empty(8, 12)


def test_annotations_of_mevis_are_its_instances(build, tmp_path, film):
    root = tmp_path / "mevis" / "valid_u"
    names = film(root / "JPEGImages" / "v")
    output = {
        "0": {"exp": "both", "obj_id": [0, 1], "anno_id": [7, 8]},
        "1": {"exp": "right", "obj_id": [1], "anno_id": [8]},
    }
    saved(
        root / "meta_expressions.json",
        {"videos": {"v": {"vid_id": 1, "frames": names, "expressions": output}}},
    )
    saved(root / "mask_dict.json", TRACKS)
    both, right = (one.target.answer for one in build("mevis", tmp_path).samples())
    assert both.instances == ((LEFT, EMPTY), (RIGHT, PARTED)) and same(both)
    assert right.instances == ((RIGHT, PARTED),) == (right.masks,)


def test_annotations_of_revos_are_its_instances(build, tmp_path, film):
    root = tmp_path / "revos"
    names = film(root / "JPEGImages" / "v")
    output = {
        "0": {"exp": "both", "obj_id": [0, 1], "anno_id": [8, 7], "type_id": 0},
        "1": {"exp": "neither", "obj_id": [], "anno_id": [], "type_id": 2},
    }
    video = {"height": 8, "width": 12, "frames": names, "expressions": output}
    saved(root / "meta_expressions_valid_.json", {"videos": {"v": video}})
    saved(root / "mask_dict.json", TRACKS)
    both, neither = (one.target for one in build("revos", tmp_path).samples())
    assert both.answer.instances == ((RIGHT, PARTED), (LEFT, EMPTY)) == both.extra["objects"]
    assert same(both.answer)
    assert neither.answer.instances == () and neither.extra["objects"] == (neither.answer.masks,)


@pytest.mark.parametrize("crowd", [0, 1])
@pytest.mark.parametrize("protocol", ["res/expression", "res/expression-strict", "res/instance"])
def test_all_polygons_of_a_referent_are_one_instance(build, tmp_path, crowd, protocol):
    root = tmp_path / "refer_seg"
    place = root / "images/mscoco/images/train2014"
    place.mkdir(parents=True)
    Image.new("RGB", (30, 20)).save(place / "five.jpg")
    thing = {
        "id": 70,
        "image_id": 5,
        "category_id": 3,
        "iscrowd": crowd,
        "area": 12.0,
        "bbox": [2, 3, 20, 5],
        "segmentation": [[2, 3, 6, 3, 6, 8, 2, 8], [16, 3, 22, 3, 22, 8, 16, 8]],
    }
    saved(
        root / "refcoco" / "instances.json",
        {
            "images": [{"id": 5, "file_name": "five.jpg", "width": 30, "height": 20}],
            "annotations": [thing],
            "categories": [{"id": 3, "name": "thing"}],
        },
    )
    saved(
        root / "refcoco" / "refs(unc).json",
        [
            {
                "ref_id": 1,
                "ann_id": 70,
                "category_id": 3,
                "image_id": 5,
                "split": "val",
                "sent_ids": [4],
                "file_name": "x.jpg",
                "sentences": [{"sent_id": 4, "sent": "it", "raw": "It", "tokens": []}],
            }
        ],
    )
    (sample,) = build(f"refcoco(protocol={protocol})", tmp_path).samples()
    answer = sample.target.answer
    assert len(parts(answer.masks[0])) == 2
    assert answer.instances == (None if crowd else (answer.masks,))


def test_an_object_that_lies_in_two_places_of_an_annotation_is_one(build, example):
    """Ref-YouTube-VOS and Ref-DAVIS17 give each pixel its object's number."""
    for name in ("ref_youtube_vos", "ref_davis17"):
        counts = Counter()
        for sample in build(name, example(name)).samples():
            answer = sample.target.answer
            assert answer.instances == (answer.masks,)
            counts[max(len(parts(one)) for one in answer.masks)] += 1
        assert counts[2] > 0, "the example has such an object"


def test_instances_in_the_same_place_are_each_segmented():
    """A rider and a horse of one box: both of their boxes name both."""
    frame = np.zeros((40, 60, 3), np.uint8)
    upper, lower = (np.zeros((40, 60), np.bool_) for _ in range(2))
    upper[5:20, 10:30] = lower[19:30, 10:30] = True
    upper[29, 10] = lower[5, 29] = True  # stray pixels, so that the boxes are one
    both = [Rle.from_array(mask) for mask in (upper, lower)]
    answer = Answer(masks=(both[0].union(both[1]),), instances=tuple((one,) for one in both))
    oracle = Oracle(Target(answer=answer), pixels([frame], times=(0.0,), is_video=False, id="x"))
    items = objects_in(answer, 0)
    assert items[0].box == items[1].box
    found = oracle.segment(frame, [ObjectPrompt(box=item.box) for item in items])
    assert np.array_equal(np.logical_or(*found), np.logical_or(upper, lower))
    assert not np.array_equal(*found)
