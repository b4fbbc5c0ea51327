"""Readers agree with the official ones, sample by sample: ids, questions, masks, boxes, pixels."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.types import Answer, Prediction

from .conftest import MADE

AGAIN = "the generated world has changed: run make_stills.py again"


def digest(array):
    plain = np.ascontiguousarray(array, dtype=np.uint8).tobytes()
    return hashlib.blake2b(plain, digest_size=16).hexdigest()


def mask_digest(sample):
    (mask,) = sample.target.answer.masks
    return digest(mask.to_array())


def read(build, spec, root):
    return list(build(spec, root).samples())


SPECS = (
    *(f"refcoco(split={split},split_by=unc)" for split in ("val", "testA", "testB")),
    *(f"refcoco(split={split},split_by=google)" for split in ("val", "test")),
    *(f"refcoco_plus(split={split},split_by=unc)" for split in ("val", "testA", "testB")),
    *(f"refcocog(split={split},split_by=umd)" for split in ("val", "test")),
    "refcocog(split=val,split_by=google)",
)


def test_the_official_readers_saw_this_world(golden):
    assert {
        golden(name)["made"] == MADE for name in ("refer", "grefcoco", "llm_seg40k", "copies")
    } == {True}
    assert set(golden("refer")["world"]) == set(SPECS)


@pytest.mark.parametrize("spec", SPECS)
def test_expressions_agree_with_lisas_reader(build, stills, golden, spec):
    rows = golden("refer")["world"][spec]
    samples = read(build, spec, stills)
    strict = read(build, spec.replace(")", ",protocol=res/expression-strict)"), stills)
    boxed = read(build, spec.replace(")", ",answer=box)"), stills)
    assert sorted((one.id for one in samples), key=int) == [row["id"] for row in rows], AGAIN
    by_id = {row["id"]: row for row in rows}
    for sample, joined, box in zip(samples, strict, boxed, strict=True):
        row = by_id[sample.id]
        assert sample.query.text == row["text"]
        assert sample.query.size == tuple(reversed(row["size"]))
        assert (mask_digest(sample), mask_digest(joined)) == (row["once"], row["any"])
        assert [list(one) for one in box.target.answer.boxes] == [row["box"]]
        assert sample.group.startswith("COCO_train2014_")


def hand_made(golden, tmp_path, *, pickled=False):
    plain = golden("refer")["odd"]
    root = tmp_path / "refer_seg"
    (root / "refcoco").mkdir(parents=True)
    (root / "images/mscoco/images/train2014").mkdir(parents=True)
    if pickled:
        from harness.tasks.refer.pickle_writer import dumps

        (root / "refcoco/refs(unc).p").write_bytes(dumps(plain["refs"]))
    else:
        (root / "refcoco/refs(unc).json").write_text(json.dumps(plain["refs"]))
    (root / "refcoco/instances.json").write_text(json.dumps(plain["instances"]))
    for entry in plain["instances"]["images"]:
        image = Image.new("RGB", (entry["width"], entry["height"]))
        image.save(root / "images/mscoco/images/train2014" / entry["file_name"])
    return plain["read"]


@pytest.mark.parametrize("split", ["testA", "testB", "test"])
@pytest.mark.parametrize("pickled", [False, True])
def test_odd_annotations_agree_with_lisas_reader(build, golden, tmp_path, split, pickled):
    """Polygons that overlap, run-lengths, no polygon, one outside; splits such as `testAB`."""
    rows = hand_made(golden, tmp_path, pickled=pickled)[split]
    samples = read(build, f"refcoco(split={split})", tmp_path)
    strict = read(build, f"refcoco(split={split},protocol=res/expression-strict)", tmp_path)
    assert [one.id for one in samples] == [row["id"] for row in rows]
    for sample, joined, row in zip(samples, strict, rows, strict=True):
        assert sample.query.text == row["text"]
        assert (mask_digest(sample), mask_digest(joined)) == (row["once"], row["any"])
    assert any(row["once"] != row["any"] for row in rows) == (split != "testB")


def test_a_letter_of_a_split_may_stand_among_others(golden):
    read_by = golden("refer")["odd"]["read"]
    ids = {split: {row["id"] for row in rows} for split, rows in read_by.items()}
    assert len(ids["testA"] & ids["testB"]) == 2 and ids["test"] == ids["testA"] | ids["testB"]


@pytest.mark.parametrize("split", ["train", "val", "testA", "testB"])
def test_grefcoco_agrees_with_its_reader(build, stills, golden, split):
    rows = golden("grefcoco")["world"][split]
    samples = read(build, f"grefcoco(split={split})", stills)
    boxed = read(build, f"grefcoco(split={split},answer=box)", stills)
    assert [one.id for one in samples] == [row["id"] for row in rows], AGAIN
    for sample, box, row in zip(samples, boxed, rows, strict=True):
        assert sample.query.text == row["text"].strip().lower()
        assert sample.target.answer.no_target == box.target.answer.no_target == row["empty"]
        assert mask_digest(sample) == row["mask"]
        assert [list(one) for one in box.target.answer.boxes] == row["boxes"]
        number = min(len(row["boxes"]), 2)
        assert sample.categories == {"objects": ("none", "one", "several")[number]}
    assert {"one", "none"} < {
        one.categories["objects"] for one in read(build, "grefcoco(split=train)", stills)
    }


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_llm_seg40k_agrees_with_both_its_readers(build, stills, golden, tmp_path, split):
    rows = golden("llm_seg40k")["world"][split]
    samples = read(build, f"llm_seg40k(split={split})", stills)
    assert [one.id for one in samples] == [f"{row['id']}/0" for row in rows], AGAIN
    for sample, row in zip(samples, rows, strict=True):
        assert sample.query.text == row["text"] and sample.query.size == tuple(row["size"][::-1])
        assert mask_digest(sample) == row["runs"] == row["drawn"]
        assert sample.categories == {"source": row["source"]}
        assert sample.target.references == (row["answer"],)
    shutil.copytree(stills / "llm_seg40k", tmp_path / "llm_seg40k")
    path = tmp_path / "llm_seg40k" / "LLMSeg-40K" / f"{split}.json"
    path.write_text(path.read_text().replace('"rle_seg"', '"other"'))
    drawn = read(build, f"llm_seg40k(split={split})", tmp_path)
    assert [mask_digest(one) for one in drawn] == [row["drawn"] for row in rows]


COPIES = {
    "reason_seg/ReasonSeg_val": "reason_seg(layout=hub,protocol=seg/visionreasoner)",
    "reason_seg/ReasonSeg_test": "reason_seg(split=test,layout=hub,protocol=seg/visionreasoner)",
    "refer_seg/refcoco_val": "refcoco(layout=visionreasoner,protocol=res/instance)",
    "refer_seg/refcoco_val_all": "refcoco(layout=visionreasoner,protocol=res/expression-strict)",
    "refer_seg/refcocoplus_testA_all": "refcoco_plus(split=testA,layout=visionreasoner,"
    "protocol=res/expression-strict)",
    "refer_seg/refcocog_test": "refcocog(split=test,layout=visionreasoner,protocol=res/instance)",
}


@pytest.mark.parametrize(("name", "spec"), COPIES.items())
def test_copies_of_the_hub_agree_with_datasets_row_by_row(build, stills, golden, name, spec):
    rows = golden("copies")["world"][name]
    samples = read(build, spec, stills)
    assert len(samples) == len(rows), AGAIN
    for sample, row in zip(samples, rows, strict=True):
        assert sample.id.split("/")[0] == row["id"] and sample.query.text == row["text"]
        assert mask_digest(sample) == row["mask"]
        assert digest(sample.query.media[0].frame(0)) == row["pixels"]
        if sample.target.answer.boxes is not None:
            assert [list(one) for one in sample.target.answer.boxes] == [row["box"]]


def test_reason_seg_has_the_same_masks_in_both_layouts(build, stills):
    lisa = read(build, "reason_seg(protocol=seg/visionreasoner)", stills)
    hub = read(build, COPIES["reason_seg/ReasonSeg_val"], stills)
    assert [(one.id, one.query.text, one.target.answer) for one in lisa] == [
        (one.id, one.query.text, one.target.answer) for one in hub
    ]
    plain = read(build, "reason_seg", stills)
    assert any(one.target.ignore for one in plain), "otherwise the defect could not show"


def test_the_layouts_of_a_referring_benchmark_ask_the_same(build, stills):
    refer = read(build, "refcoco(answer=box)", stills)
    for layout in ("visionreasoner", "lmms"):
        other = read(build, f"refcoco(answer=box,layout={layout})", stills)
        assert [(one.query.text, one.target.answer.boxes) for one in other] == [
            (one.query.text, one.target.answer.boxes) for one in refer
        ]
    assert len({one.id for one in other}) == len(other)
    instance = read(build, "refcoco(protocol=res/instance)", stills)
    copied = read(build, "refcoco(protocol=res/instance,layout=visionreasoner)", stills)
    assert [one.query.text for one in instance] == [one.query.text for one in copied]
    assert len(instance) < len(refer), "some object has two expressions"


def test_coco_questions_are_those_of_the_copy(build, stills, golden):
    rows = golden("copies")["world"]["coco_detection/coco_val"]
    requested, copied = (
        read(build, f"coco_detection(layout={name})", stills) for name in ("coco", "hub")
    )
    assert [one.id for one in requested] == [f"{row['image']}/{row['category']}" for row in rows], (
        AGAIN
    )
    assert [one.id for one in requested] == [one.id for one in copied]
    for one, other, row in zip(requested, copied, rows, strict=True):
        assert one.query.text == other.query.text == row["text"]
        boxes = [list(box) for box in one.target.answer.boxes]
        assert boxes == [list(box) for box in other.target.answer.boxes] == row["box"]
        assert digest(other.query.media[0].frame(0)) == row["pixels"]


@pytest.mark.parametrize("library", ["pycocotools", "hotcoco"])
@pytest.mark.parametrize("layout", ["coco", "hub"])
def test_coco_ap_is_that_of_visionreasoners_scripts(build, stills, golden, layout, library):
    from harness.scores import Totals
    from harness.types import Box

    task = build(f"coco_detection(layout={layout},library={library})", stills)
    official = golden("copies")["coco_ap"]
    output = {
        one["id"]: tuple(Box(*map(float, box)) for box in one["boxes"]) for one in official["said"]
    }
    totals = Totals(task.protocol.metrics)
    for sample in task.samples():
        answer = Answer(boxes=output[sample.id])
        prediction = Prediction(query_id=sample.query.id, answer=answer)
        totals.add(task.protocol.score([sample], [prediction]))
    found = totals.values()
    assert 0.1 < found["coco_ap_area_score"] < 0.9
    assert list(found.values()) == official["stats"][:3], AGAIN


def test_the_golden_files_are_small_and_name_their_tools(golden):
    place = Path(__file__).parents[2] / "golden" / "readers"
    for name in ("refer", "grefcoco", "llm_seg40k", "copies"):
        assert (place / f"{name}.json").stat().st_size < 30_000
        assert all(len(commit) >= 14 for commit in golden(name)["tools"].values())
