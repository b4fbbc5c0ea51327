import hashlib
import io
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from pyarrow import parquet
from scipy import ndimage

from harness.image_file import decode_image
from harness.masks import Rle
from harness.tasks.counting.writer import points
from harness.tasks.mevis.writer import SPLIT_NAMES, frame_name, mask_tracks, video_name
from harness.tasks.reason_seg.writer import annotation
from harness.world.families import draw_scene
from harness.world.outlines import outlines
from harness.world.questions import ask_questions
from harness.world.raster import render, visible_masks
from harness.world.scene import Split
from harness.world.shapes import Example, World

SEEDS = st.integers(0, 2**40)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def lisa_mask(shapes: list[dict[str, Any]], height: int, width: int) -> np.ndarray:
    """LISA's rule: whole-number points, outline and fill, larger polygons first, 255 to ignore."""

    def painted(canvas: np.ndarray, corners: list[list[float]], value: int) -> np.ndarray:
        polygon = np.array([corners], dtype=np.int32)
        cv2.polylines(canvas, polygon, True, value, 1)
        cv2.fillPoly(canvas, polygon, value)
        return canvas

    kept = [shape for shape in shapes if shape["label"].lower() != "flag"]
    blank = np.zeros((height, width), dtype=np.uint8)
    areas = [int(painted(blank.copy(), shape["points"], 1).sum()) for shape in kept]
    for index in np.argsort(areas)[::-1].astype(np.int32):
        value = 255 if "ignore" in kept[index]["label"].lower() else 1
        painted(blank, kept[index]["points"], value)
    return blank


# ReasonSeg


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_reason_seg_lies_in_pairs_with_the_official_fields(
    root: Path, small: World, split: Split
) -> None:
    folder = root / "reason_seg" / "ReasonSeg" / split
    stems = {suffix: {p.stem for p in folder.glob(f"*{suffix}")} for suffix in (".jpg", ".json")}
    assert stems[".jpg"] == stems[".json"] and len(stems[".jpg"]) == len(
        small.examples_of("still", split)
    )
    assert len(list(folder.iterdir())) == 2 * len(stems[".jpg"])
    for path in folder.glob("*.json"):
        plain = read_json(path)
        assert list(plain) == ["text", "is_sentence", "shapes"]
        assert type(plain["is_sentence"]) is bool
        assert 1 <= len(plain["text"]) <= (3 if split == "train" else 1)
        assert all(isinstance(text, str) and text for text in plain["text"])
        for shape in plain["shapes"]:
            assert list(shape) == ["label", "points"]
            assert shape["label"] in ("target", "ignore", "flag")
            assert all(len(point) == 2 for point in shape["points"])


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_reason_seg_files_rasterise_to_the_masks_of_their_scenes(
    root: Path, small: World, split: Split
) -> None:
    folder = root / "reason_seg" / "ReasonSeg" / split
    for path, example in zip(
        sorted(folder.glob("*.json")), small.examples_of("still", split), strict=True
    ):
        plain, image = read_json(path), decode_image(path.with_suffix(".jpg"), path.stem)
        assert plain["text"][0] == example.questions[0].text
        assert abs(image.astype(int) - render(example.scene)).mean() < 4
        mask = lisa_mask(plain["shapes"], *image.shape[:2])
        target = visible_masks(example.scene)[list(example.questions[0].referents)].any(0)
        assert np.array_equal(mask == 1, target)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_polygons_give_back_every_mask_under_the_rule_of_lisa(seed: int) -> None:
    scene = draw_scene(seed, family="still", split="train", index=0)
    for mask in visible_masks(scene):
        shapes = [{"label": "target", "points": contour} for contour in outlines(mask)]
        assert np.array_equal(lisa_mask(shapes, *mask.shape) == 1, mask)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_an_ignored_region_is_the_mask_of_one_thing_that_is_not_meant(seed: int) -> None:
    scene = draw_scene(seed, family="still", split="val", index=0)
    example = Example(scene, ask_questions(scene))
    plain, masks = annotation(example, "val"), visible_masks(scene)
    painted = lisa_mask(plain["shapes"], scene.height, scene.width)
    target = set(example.questions[0].referents)
    assert np.array_equal(painted == 1, masks[list(target)].any(0))
    ignored = [i for i in range(len(masks)) if np.array_equal(painted == 255, masks[i])]
    if any(shape["label"] == "ignore" for shape in plain["shapes"]):
        assert len(ignored) == 1 and ignored[0] not in target
    else:
        assert not (painted == 255).any()


def test_some_files_ignore_some_carry_a_flag_and_some_have_several_polygons(world: World) -> None:
    found = [annotation(example, "train") for example in world.examples_of("still", "train")]
    labels = [[shape["label"] for shape in plain["shapes"]] for plain in found]
    assert 0.1 < np.mean(["ignore" in each for each in labels]) < 0.35
    assert 0.08 < np.mean(["flag" in each for each in labels]) < 0.3
    assert sum(each.count("target") > 1 for each in labels) > 5
    assert {len(plain["text"]) for plain in found} == {1, 2, 3}
    assert {plain["is_sentence"] for plain in found} == {True, False}


@settings(max_examples=60, deadline=None)
@given(arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_polygons_give_back_any_mask_without_holes(mask: np.ndarray) -> None:
    solid = ndimage.binary_fill_holes(mask)
    pieces = outlines(solid)
    shapes = [{"label": "target", "points": corners} for corners in pieces]
    assert np.array_equal(lisa_mask(shapes, *solid.shape) == 1, solid)
    assert len(pieces) == ndimage.label(solid, structure=np.ones((3, 3)))[1]


def test_an_outline_names_its_corners_only() -> None:
    mask = np.zeros((6, 8), dtype=bool)
    mask[1:4, 2:7] = True
    assert sorted(outlines(mask)[0]) == [(2, 1), (2, 3), (6, 1), (6, 3)]
    lone = np.zeros((3, 3), dtype=bool)
    lone[1, 2] = True
    assert outlines(lone) == [[(2, 1)]]


# MeViS


@pytest.mark.parametrize("name", ["train", "valid_u", "valid"])
def test_mevis_has_the_official_files_and_keys(root: Path, small: World, name: str) -> None:
    folder = root / "mevis" / name
    hidden = name == "valid"
    names = {"JPEGImages", "meta_expressions.json"} | (set() if hidden else {"mask_dict.json"})
    assert {path.name for path in folder.iterdir()} == names
    meta = read_json(folder / "meta_expressions.json")
    assert list(meta) == ["videos"]
    videos = meta["videos"]
    assert [video["vid_id"] for video in videos.values()] == list(range(len(videos)))
    assert {path.name for path in (folder / "JPEGImages").iterdir()} == set(videos)
    for vid, video in videos.items():
        assert list(video) == ["vid_id", "frames", "expressions"]
        assert video["frames"] == [f"{frame:05d}" for frame in range(8)]
        frames = sorted(path.name for path in (folder / "JPEGImages" / vid).iterdir())
        assert frames == [f"{frame}.jpg" for frame in video["frames"]]
        assert list(video["expressions"]) == [str(i) for i in range(len(video["expressions"]))]
        keys = ["exp"] if hidden else ["exp", "obj_id", "anno_id"]
        assert all(list(each) == keys for each in video["expressions"].values())
    requested = sum(len(video["expressions"]) for video in videos.values())
    assert requested == small.size * (4 if name == "train" else 1)


@pytest.mark.parametrize("name", ["train", "valid_u"])
def test_mevis_run_lengths_are_the_masks_of_the_scenes(root: Path, small: World, name: str) -> None:
    folder = root / "mevis" / name
    masks = read_json(folder / "mask_dict.json")
    videos = read_json(folder / "meta_expressions.json")["videos"]
    assert list(masks) == [str(number) for number in range(len(masks))]
    for example in small.examples_of("video", SPLIT_NAMES[name]):
        scene = example.scene
        vid = video_name(scene)
        ground_truth = [visible_masks(scene, frame) for frame in range(scene.frames)]
        for place, question in enumerate(example.questions):
            expression = videos[vid]["expressions"][str(place)]
            assert expression["exp"] == question.text
            assert expression["obj_id"] == list(question.referents)
            assert len(expression["anno_id"]) == len(expression["obj_id"])
            for thing, number in zip(expression["obj_id"], expression["anno_id"], strict=True):
                track = masks[str(number)]
                assert len(track) == len(videos[vid]["frames"])
                for frame, plain in enumerate(track):
                    if plain is None:
                        assert not ground_truth[frame][thing].any()
                        continue
                    assert list(plain) == ["size", "counts"]
                    assert plain["size"] == [scene.height, scene.width]
                    assert np.array_equal(
                        Rle.from_json(plain).to_array(), ground_truth[frame][thing]
                    )
        for frame in range(scene.frames):
            path = folder / "JPEGImages" / vid / f"{frame_name(frame)}.jpg"
            image = decode_image(path, vid)
            assert image.shape == (scene.height, scene.width, 3)
            assert abs(image.astype(int) - render(scene, frame)).mean() < 4


def test_mevis_annotations_belong_to_one_video_each(root: Path) -> None:
    videos = read_json(root / "mevis" / "train" / "meta_expressions.json")["videos"]
    owners: dict[int, tuple[str, int]] = {}
    for vid, video in videos.items():
        for each in video["expressions"].values():
            for thing, number in zip(each["obj_id"], each["anno_id"], strict=True):
                assert owners.setdefault(number, (vid, thing)) == (vid, thing)
    assert len(set(owners.values())) == len(owners)


def test_mevis_has_single_and_several_referents_and_frames_without_them(world: World) -> None:
    examples = world.examples_of("video", "train")
    numbers = {question.count for example in examples for question in example.questions}
    assert 1 in numbers and max(numbers) > 1
    tracks = [track for example in examples for track in mask_tracks(example.scene)]
    assert sum(track[0] is None for track in tracks) > 2
    assert sum(track[-1] is None for track in tracks) > 2


# Counting

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
REASONER = {
    "image": IMAGE,
    "text": pa.string(),
    "image_id": pa.string(),
    "ann_id": pa.string(),
    "img_height": pa.int64(),
    "img_width": pa.int64(),
    "count": pa.int64(),
}
TABLES: dict[str, tuple[str, dict[str, pa.DataType]]] = {
    "counting_pixmo_validation": ("test", REASONER),
    "counting_pixmo_test": ("test", REASONER),
    "counting_countbench": ("test", REASONER),
    "CountBenchQA": (
        "test",
        {"image": IMAGE, "text": pa.string(), "question": pa.string(), "number": pa.int32()},
    ),
    "countbench": (
        "train",
        {"image_url": pa.string(), "text": pa.string(), "number": pa.int64(), "image": IMAGE},
    ),
    "pixmo-count": (
        "train",
        {
            "image_url": pa.string(),
            "image_sha256": pa.string(),
            "count": pa.int32(),
            "points": pa.struct([(side, pa.list_(pa.float32())) for side in "xy"]),
            "label": pa.string(),
        },
    ),
}


def table(root: Path, name: str) -> pa.Table:
    split, _ = TABLES[name]
    return parquet.read_table(root / "counting" / name / "data" / f"{split}-00000-of-00001.parquet")


def decoded(image: dict[str, Any]) -> np.ndarray:
    with Image.open(io.BytesIO(image["bytes"])) as opened:
        assert (opened.format, opened.mode) == ("PNG", "RGB")
        return np.asarray(opened)


@pytest.mark.parametrize("name", TABLES)
def test_counting_tables_have_the_official_columns(root: Path, name: str) -> None:
    found, columns = table(root, name), TABLES[name][1]
    assert {field.name: field.type for field in found.schema} == columns
    assert found.schema.names == list(columns)
    features = json.loads(found.schema.metadata[b"huggingface"])["info"]["features"]
    assert list(features) == list(columns)
    assert all(
        (features[column] == {"_type": "Image"}) == (kind == IMAGE)
        for column, kind in columns.items()
    )
    assert {path.name for path in (root / "counting").iterdir()} == set(TABLES)


@pytest.mark.parametrize(
    ("name", "family", "split"),
    [
        ("counting_pixmo_validation", "count", "val"),
        ("counting_pixmo_test", "count", "test"),
        ("counting_countbench", "countbench", "test"),
    ],
)
def test_rows_of_the_copies_are_the_scenes(
    root: Path, small: World, name: str, family: str, split: Split
) -> None:
    for row, example in zip(
        table(root, name).to_pylist(), small.examples_of(family, split), strict=True
    ):
        image, scene = decoded(row["image"]), example.scene
        assert np.array_equal(image, render(scene))
        assert (row["img_height"], row["img_width"]) == image.shape[:2]
        assert row["image_id"] == row["ann_id"] == str(scene.index)
        assert row["text"] == example.questions[0].text
        assert 2 <= row["count"] == len(example.questions[0].referents) <= 10


def test_countbench_says_its_number_in_words_and_has_lost_one_image(
    root: Path, small: World
) -> None:
    bench = small.examples_of("countbench", "test")
    rows, questions = (table(root, name).to_pylist() for name in ("countbench", "CountBenchQA"))
    assert len(rows) == len(bench) + 1 and len(questions) == len(bench)
    assert [row["image"] is None for row in rows] == [False] * len(bench) + [True]
    words = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    for row, requested, example in zip(rows[:-1], questions, bench, strict=True):
        count, label = example.questions[0].count, example.questions[0].label
        assert row["number"] == requested["number"] == count
        assert row["text"] == requested["text"] == f"A picture with {words[count]} {label}."
        assert requested["question"] == f"How many {label} are there in the image?"
        assert row["image"] == requested["image"]
        assert np.array_equal(decoded(row["image"]), render(example.scene))


def test_training_images_are_named_by_their_sha256(root: Path, small: World) -> None:
    rows = table(root, "pixmo-count").to_pylist()
    images = root / "counting" / "pixmo-count" / "images"
    assert {path.name for path in images.iterdir()} == {row["image_sha256"] for row in rows}
    for row, example in zip(rows, small.examples_of("count", "train"), strict=True):
        data = (images / row["image_sha256"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == row["image_sha256"]
        assert np.array_equal(decoded({"bytes": data}), render(example.scene))
        assert row["count"] == len(row["points"]["x"]) == example.questions[0].count
        assert row["label"] == example.questions[0].label


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(0, 20))
def test_each_point_lies_on_the_visible_part_of_its_own_thing(seed: int, index: int) -> None:
    scene = draw_scene(seed, family="count", split="train", index=index)
    example = Example(scene, ask_questions(scene))
    masks = visible_masks(scene)
    found = points(example)
    pairs = zip(found["x"], found["y"], strict=True)
    for thing, (column, row) in zip(example.questions[0].referents, pairs, strict=True):
        assert masks[thing][int(row), int(column)]
        x, y = scene.things[thing].centre(0)
        assert (column, row) == (x, y) or not masks[thing][y, x]
