"""The files of TAO, KITTI and ScanNet are read as published; examples in docstrings are right."""

import doctest
import importlib
import io
import json
import pkgutil
from pathlib import Path

import numpy as np
import pytest
import stv_builder
from PIL import Image
from stv_builder.kitti import read_kitti
from stv_builder.scannet import _depth, read_scannet
from stv_builder.tao import read_tao

from harness.errors import DataError

MODULES = [module.name for module in pkgutil.walk_packages(stv_builder.__path__, "stv_builder.")]
WITH_EXAMPLES = [
    name
    for name in MODULES
    if ">>>" in Path(importlib.import_module(name).__file__).read_text("utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_are_right(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def blank(size, mode="RGB"):
    file = io.BytesIO()
    Image.new(mode, size).save(file, "PNG")
    return file.getvalue()


def test_depth_maps_keep_their_sixteen_bits_or_are_refused(tmp_path):
    path = tmp_path / "0.png"
    Image.fromarray(np.full((12, 16), 1234, np.uint16)).save(path)
    assert _depth(path)[0, 0] == 1.234
    for mode in ("L", "RGB", "P", "1"):
        path.write_bytes(blank((16, 12), mode))
        with pytest.raises(DataError, match="thousandths"):
            _depth(path)


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
    put(root / "image_02/0000/000000.png", blank((100, 50)))
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
    put(scan / "color/0.jpg", blank((100, 100)))
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
