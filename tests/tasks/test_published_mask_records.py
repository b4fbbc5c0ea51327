"""Readers take records in the form in which benchmarks of masks, boxes and points are published.

The generated world is of our own writers, so that a mistake about a form would be in both. These
records are not: `published_mask_records.toml` says where each form was seen.
"""

import io
import json
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from pycocotools import mask as coco

from harness.errors import DataError
from harness.media import files_of
from harness.tasks.training.stv.kitti import read_kitti
from harness.tasks.training.stv.scannet import read_scannet
from harness.tasks.training.stv.tao import read_tao

LISTED = Path(__file__).with_name("published_mask_records.toml")
RECORDS = tomllib.loads(LISTED.read_text("utf-8"))["record"]
OBJECT = pa.struct(
    [
        ("id", pa.int64()),
        ("image_id", pa.int64()),
        *((name, pa.string()) for name in ("category", "supercategory", "label")),
        ("sentences", pa.list_(pa.string())),
        ("bbox", pa.list_(pa.float32())),
        ("mask", pa.struct([("counts", pa.string()), ("size", pa.list_(pa.int32()))])),
    ]
)
TYPES = {
    "image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    "string": pa.string(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "list<int32>": pa.list_(pa.int32()),
    "list<float>": pa.list_(pa.float32()),
    "list<string>": pa.list_(pa.string()),
    "list<list<bool>>": pa.list_(pa.list_(pa.bool_())),
    "objects": pa.list_(OBJECT),
}


def values(rows):
    return np.array([[255 if one == "v" else int(one) for one in row] for row in rows], np.uint8)


def run_length(rows):
    encoded = coco.encode(np.asfortranarray(values(rows)))
    return {"size": encoded["size"], "counts": encoded["counts"].decode("ascii")}


def filled(plain, masks):
    """`plain` with each "$name" replaced by the run-length of that mask."""
    if isinstance(plain, dict):
        return {key: filled(one, masks) for key, one in plain.items()}
    if isinstance(plain, list):
        return [filled(one, masks) for one in plain]
    if isinstance(plain, str) and plain.startswith("$"):
        return run_length(masks[plain[1:]])
    return plain


def python_2_pickle(plain):
    """Protocol 0 as Python 2 writes it: texts are bytes."""
    if isinstance(plain, dict):
        items = "".join(f"{python_2_pickle(k)}{python_2_pickle(v)}s" for k, v in plain.items())
        return f"(d{items}"
    if isinstance(plain, list):
        return "(l" + "".join(f"{python_2_pickle(one)}a" for one in plain)
    return f"I{plain}\n" if isinstance(plain, int) else f"S{plain!r}\n"


def png(rows, mode="L"):
    image = Image.fromarray(values(rows))
    if mode == "P":
        image.putpalette([*range(256)] * 3)  # the values stay what they are
    elif mode != "L":
        image = image.convert(mode)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def picture(size):
    file = io.BytesIO()
    Image.new("RGB", tuple(size)).save(file, "PNG")
    return file.getvalue()


def cell(value, kind, masks):
    if kind != "image":
        return filled(value, masks)
    encoded = png(value) if isinstance(value[0], str) else picture(value)
    return {"bytes": encoded, "path": "0.png"}


def write(root, record):
    masks = record.get("masks", {})
    files = {path: picture(size) for path, size in record.get("image", {}).items()}
    files |= {path: png(**drawn) for path, drawn in record.get("png", {}).items()}
    for path, text in record.get("json", {}).items():
        files[path] = json.dumps(filled(json.loads(text), masks)).encode()
    for path, text in record.get("jsonl", {}).items():
        files[path] = text.strip().encode() + b"\n"
    for path, text in record.get("pickle", {}).items():
        files[path] = f"{python_2_pickle(json.loads(text))}.".encode()
        assert pickle.loads(files[path], encoding="latin1") == json.loads(text)
    for path, table in record.get("parquet", {}).items():
        kinds = table["columns"]
        rows = [{key: cell(row[key], kinds[key], masks) for key in kinds} for row in table["rows"]]
        schema = pa.schema([(key, TYPES[kind]) for key, kind in kinds.items()])
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(rows, schema=schema), root / path)
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def drawn(mask):
    return ["".join(map(str, row)) for row in mask.to_array().astype(int)]


def said(answer):
    return next(
        (one for one in (answer.choice, answer.number, answer.text) if one is not None), None
    )


def found(sample, root):
    """What a record may say about a sample, by the same names."""
    (media,) = sample.query.media
    target = sample.target
    seen = {
        "id": sample.id,
        "text": sample.query.text,
        "files": [str(path.relative_to(root)) for path in files_of(media)],
        "size": list(media.size),
        "frames": list(sample.frames),
        "categories": dict(sample.categories),
        "options": list(sample.query.options),
        "objects": list(sample.query.objects),
    }
    if target is None:
        return seen
    answer = target.answer
    return seen | {
        "masks": [drawn(mask) for mask in answer.masks or ()],
        "ignore": drawn(target.ignore[0]) if target.ignore else None,
        "instances": len(answer.instances or ()),
        "annotators": [len(one) for one in target.extra.get("annotators", ())],
        "boxes": [[*map(float, (b.left, b.top, b.right, b.bottom))] for b in answer.boxes or ()],
        "points": [[point.x, point.y] for point in answer.points or ()],
        "no_target": answer.no_target,
        "answer": said(answer),
    }


@pytest.mark.parametrize("record", RECORDS, ids=[record["task"] for record in RECORDS])
def test_a_record_of_the_published_form_is_read(build, tmp_path, record):
    write(tmp_path, record)
    samples = list(build(record["task"], tmp_path).samples())
    assert [sample.id for sample in samples] == [wanted["id"] for wanted in record["sample"]]
    for sample, wanted in zip(samples, record["sample"], strict=True):
        lost, fault = wanted.get("lost"), sample.query.media[0].fault
        assert fault is None if lost is None else lost in fault
        seen = {**found(sample, tmp_path), "lost": lost}
        assert {key: seen[key] for key in wanted} == wanted


# Faults of one file, and older names


def published(root, task):
    write(root, next(one for one in RECORDS if one["task"] == task))
    return root


@pytest.mark.parametrize("field", ["image_filename", "mask_filename"])
def test_a_name_that_is_too_long_is_the_fault_of_its_question(build, tmp_path, field):
    path = published(tmp_path, "pointbench") / "pointbench/data.json"
    (entry,) = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([entry, {**entry, field: f"{'a' * 300}.png"}]))
    (problem,) = build("pointbench", tmp_path).check()
    assert "record 1" in problem.message and "255 bytes" in problem.message


def saved(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


GREY = np.array([[0, 255, 0, 0], [0, 0, 0, 0]], np.uint8)
DEEP = Image.fromarray(np.minimum(GREY, 1).astype(np.uint16))
HIDDEN = Image.merge("LA", (Image.new("L", (4, 2)), Image.fromarray(GREY)))


@pytest.mark.parametrize("image", [DEEP, HIDDEN, HIDDEN.convert("RGBA")], ids=lambda one: one.mode)
def test_a_mask_that_grey_of_8_bits_would_not_show_is_refused(build, tmp_path, image):
    root = published(tmp_path, "reason_vos")
    path = root / "reason_vos/Annotations/BURST_0a1b_1/00000.png"
    path.write_bytes(saved(image))
    with pytest.raises(DataError, match=rf"00000\.png.*of mode {image.mode}"):
        list(build("reason_vos", root).samples())
    assert [image.mode in one.message for one in build("reason_vos", root).check()] == [True]


def test_a_mask_may_be_opaque(build, tmp_path):
    root = published(tmp_path, "reason_vos")
    path = root / "reason_vos/Annotations/BURST_0a1b_1/00000.png"
    path.write_bytes(saved(Image.fromarray(GREY).convert("RGBA")))
    assert drawn(next(build("reason_vos", root).samples()).target.answer.masks[0])[0] == "0100"


def test_mevis_2_may_have_the_first_versions_name(build, tmp_path):
    place = published(tmp_path, "mevis(split=train,version=2)") / "mevis/v2/train"
    named, first = place / "meta_expressions_v2.json", place / "meta_expressions.json"
    first.write_text("{}")
    assert build("mevis(split=train,version=2)", tmp_path).annotations[0] == named
    named.replace(first)
    (sample,) = build("mevis(split=train,version=2)", tmp_path).samples()
    assert sample.id == "377b1c5f365c/0"


# The three sources of STV-205k


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_tao_is_read_as_published(tmp_path):
    """TAO-Dataset/tao, tao/toolkit/tao/tao.py: the file's head documents every field."""
    name = "train/YFCC100M/v_25685519b728afd746dfd1b2fe77c/frame0391.jpg"
    plain = {
        "info": {"year": 2020},
        "licenses": [{"id": 1, "name": "…", "url": "…"}],
        "images": [
            {"id": 7, "video_id": 4, "file_name": name, "width": 640, "height": 480}
            | {"frame_index": 390, "license": 0, "video": "train/YFCC100M/v_2568"}
        ],
        "videos": [
            {"id": 4, "name": "train/YFCC100M/v_2568", "width": 640, "height": 480}
            | {"neg_category_ids": [342], "not_exhaustive_category_ids": [9]}
            | {"metadata": {"dataset": "YFCC100M", "user_id": "…", "username": "…"}}
        ],
        "tracks": [{"id": 70, "category_id": 95, "video_id": 4}],
        "annotations": [
            {"id": 1, "image_id": 7, "track_id": 70, "bbox": [-10, 20.5, 110, 40], "area": 4400}
            | {"category_id": 95, "video_id": 4, "iscrowd": 0, "segmentation": []}
        ],
        "categories": [
            {"id": 95, "name": "car_(automobile)", "synset": "car.n.01", "frequency": "f"},
            {"id": 9, "name": "polar_bear", "synset": "polar_bear.n.01", "frequency": "r"},
        ],
    }
    put(tmp_path / "tao/annotations/train.json", json.dumps(plain))
    (clip,) = read_tao(tmp_path)
    ((sight,),) = clip.sights
    assert clip.images == (f"tao/frames/{name}",)
    assert (clip.size, clip.rate, clip.uncounted) == ((640, 480), 1.0, (frozenset({"polar bear"}),))
    box = sight.box
    assert (sight.track, sight.category) == ("70", "car")
    assert (box.left, box.top, box.right, box.bottom) == (-10, 20.5, 100, 60.5)


def test_kitti_is_read_as_published(tmp_path):
    """JonathonLuiten/TrackEval, docs/KITTI-format.txt; calibrations lack some colons."""
    root = tmp_path / "kitti_tracking/training"
    put(root / "image_02/0000/000000.png", picture((100, 50)))
    label = "0 3 Car 0 0 -1.57 40.0 20.0 60.0 30.0 1.5 1.6 4.0 0.5 1.7 20.0 -1.55\n"
    unlabelled = "0 -1 DontCare -1 -1 -10.0 9.0 9.0 19.0 19.0 -1000 -1000 -1000 -10 -1 -1 -1\n"
    put(root / "label_02/0000.txt", unlabelled + label)
    straight = "1 0 0 0 0 1 0 0 0 0 1 0"
    camera = "100 0 50 0 0 100 25 0 0 0 1 0"
    lines = [f"P{number}: {camera}" for number in range(4)]
    lines += ["R_rect 1 0 0 0 1 0 0 0 1", f"Tr_velo_cam {straight}", f"Tr_imu_velo {straight}"]
    put(root / "calib/0000.txt", "\n".join(lines) + "\n\n")
    put(root / "oxts/0000.txt", " ".join(["49.0", "8.4", "112.8", *["0.0"] * 27]) + "\n")
    (clip,) = read_kitti(tmp_path)
    ((sight,),) = clip.sights
    assert clip.images == ("kitti_tracking/training/image_02/0000/000000.png",)
    assert (sight.track, sight.category, sight.sides) == ("3", "car", (4.0, 1.6, 1.5))
    assert "car" in clip.uncounted[0]  # DontCare: how many there are is not known
    assert sight.centre is not None and sight.world is not None
    assert (sight.centre.x, sight.centre.z) == (0.5, 20.0)


def test_scannet_is_read_as_published(tmp_path):
    """ScanNet/ScanNet, README.md and SensReader/python/SensorData.py."""
    scan = tmp_path / "scannet/scans/scene0000_00"
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (2, 4)], "<f4")
    vertex = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("colour", "u1", 4)]
    table = np.zeros(8, vertex)
    table["x"], table["y"], table["z"] = corners.T
    kinds = ("float x", "float y", "float z", *(f"uchar {c}" for c in ("red", "green", "blue")))
    head = ["ply", "format binary_little_endian 1.0", "comment VCGLIB generated"]
    head += ["element vertex 8", *(f"property {kind}" for kind in (*kinds, "uchar alpha"))]
    head += ["element face 0", "property list uchar int vertex_indices", "end_header"]
    put(scan / "scene0000_00_vh_clean_2.ply", "\n".join(head).encode() + b"\n" + table.tobytes())
    segments = {"params": {"kThresh": "0.01"}, "sceneId": "scene0000_00"}
    segments |= {"segIndices": [15] * 8}
    put(scan / "scene0000_00_vh_clean_2.0.010000.segs.json", json.dumps(segments))
    groups = {"sceneId": "scannet.scene0000_00", "appId": "Aggregator.v2", "segmentsFile": "…"}
    groups |= {"segGroups": [{"id": 0, "objectId": 0, "segments": [15], "label": "trash can"}]}
    put(scan / "scene0000_00.aggregation.json", json.dumps(groups))
    turned = "1.0 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1"
    put(scan / "scene0000_00.txt", f"appVersionId = 0\naxisAlignment = {turned} \nsceneType = x")
    put(scan / "color/0.jpg", picture((100, 100)))
    rows = "1.000000 0.000000 0.000000 0.000000\n0.000000 1.000000 0.000000 0.000000\n"
    rows += "0.000000 0.000000 1.000000 0.000000\n0.000000 0.000000 0.000000 1.000000\n"
    put(scan / "pose/0.txt", rows)
    camera = "100.0 0.0 50.0 0.0\n0.0 100.0 50.0 0.0\n0.0 0.0 1.0 0.0\n0.0 0.0 0.0 1.0\n"
    put(scan / "intrinsic/intrinsic_color.txt", camera)
    (clip,) = read_scannet(tmp_path)
    ((sight,),) = clip.sights
    assert clip.images == ("scannet/scans/scene0000_00/color/0.jpg",)
    assert (sight.category, sight.sides) == ("trash can", (2.0, 2.0, 2.0))
    assert sight.centre is not None and sight.centre.z == 3.0
