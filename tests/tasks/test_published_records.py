"""Readers of questions take records in the form in which the benchmarks are published.

The records are in `published_records.toml`, each with its source; none is from a writer of ours.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from harness.errors import UsageError
from harness.tasks.mvbench.task import FOLDERS
from harness.types import Answer
from harness.world.encode import encode_png
from harness.world.mp4 import write_mp4

FRAMES = [np.full((48, 64, 3), 20 * number, np.uint8) for number in range(10)]
IMAGE = encode_png(FRAMES[3])
CELL = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SIDE = pa.list_(pa.float32())
TYPES: dict[str, pa.DataType] = {
    **{name: getattr(pa, name)() for name in ("string", "int32", "int64", "float64")},
    "bool": pa.bool_(),
    "strings": pa.list_(pa.string()),
    "halves": pa.list_(pa.float16()),
    "boxes": pa.list_(pa.list_(pa.float64())),
    "image": CELL,
    "images": pa.list_(CELL),
    "blobs": pa.list_(pa.binary()),
    "points": pa.struct([("x", SIDE), ("y", SIDE)]),
}
RECORDS = tomllib.loads(
    Path(__file__).with_name("published_records.toml").read_text(encoding="utf-8")
)["record"]


def cell(value: Any, kind: str) -> Any:
    """A value as pyarrow takes it for a column of a type."""
    if isinstance(value, list) and kind in ("images", "blobs"):
        return [cell(one, "image" if kind == "images" else "blob") for one in value]
    if kind == "halves":
        return [np.float16(one) for one in value]
    if value == "@":
        return {"bytes": IMAGE, "path": None} if kind == "image" else IMAGE
    return value


def write_published(root: Path, record: dict[str, Any]) -> None:
    """The smallest tree of files that holds a record."""

    def place(name: str) -> Path:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        return root / name

    if record["task"] == "mvbench":  # which is refused without the files of all its tasks
        record["files"] = (
            dict.fromkeys((f"mvbench/json/{name}.json" for name in FOLDERS), "[]") | record["files"]
        )
    for name, content in record.get("files", {}).items():
        place(name).write_text(content.lstrip("\n"), encoding="utf-8")
    for table in record.get("tables", ()):
        kinds = table["columns"]
        schema = pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()])
        rows = [
            {name: cell(value, kinds[name]) for name, value in row.items()}
            for row in json.loads(table["rows"], strict=False)
        ]
        parquet.write_table(pa.Table.from_pylist(rows, schema=schema), place(table["path"]))
    for name in record.get("videos", ()):
        write_mp4(place(name), FRAMES, times=range(len(FRAMES)))
    for name in record.get("images", ()):
        place(name).write_bytes(IMAGE)
    for name, number in record.get("frames", {}).items():
        for frame in range(number):
            place(f"{name}/{frame + 1:05d}.jpg").write_bytes(IMAGE)


def plain(answer: Answer) -> Any:
    """A ground truth as the records have it: the most that it says."""
    for many in (answer.points, answer.boxes):
        if many is not None:
            return [list(one) for one in many]
    if answer.interval is not None:
        return list(answer.interval)
    values = (answer.choice, answer.number, answer.count, answer.text)
    return next(value for value in values if value is not None)


@pytest.mark.parametrize(
    "record", RECORDS, ids=[f"{number}-{one['task']}" for number, one in enumerate(RECORDS)]
)
def test_a_published_record_is_read(build, tmp_path, record):
    assert record["source"]
    write_published(tmp_path, record)
    task = build(record["task"], tmp_path)
    assert not list(task.check())
    samples = list(task.samples())
    assert [sample.id for sample in samples] == [one["id"] for one in record["expected"]]
    for sample, expected in zip(samples, record["expected"], strict=True):
        query = sample.query
        assert [media.fault for media in query.media] == [None] * expected.get("media", 1)
        assert query.text == expected.get("text", query.text)
        assert all(part in query.text for part in expected.get("has", ()))
        assert list(query.options) == expected.get("options", list(query.options))
        assert dict(sample.categories) == expected.get("categories", dict(sample.categories))
        if "times" in expected:
            assert list(query.media[0].times()) == pytest.approx(expected["times"])
        if "answer" in expected:
            assert plain(sample.target.answer) == expected["answer"]


# Two releases in one folder


def published(root: Path, task: str) -> list[dict[str, Any]]:
    """Write all published records of a task below folders of their numbers."""
    found = [one for one in RECORDS if one["task"] == task]
    for number, record in enumerate(found):
        write_published(root / str(number), record)
    return found


def ids(task) -> list[str]:
    return [sample.id for sample in task.samples()]


@pytest.mark.parametrize("folder", ["star/Charades_segment", "clevrer/video_validation", "video"])
def test_whole_videos_of_mvbench_are_read_beside_parts_of_them(build, tmp_path, folder):
    published(tmp_path, "mvbench")
    root = tmp_path / "0"
    beside = root / "mvbench" / folder
    beside.mkdir(parents=True, exist_ok=True)
    write_mp4(beside / "5W1Z7.mp4", FRAMES, times=range(len(FRAMES)))
    task = build("mvbench", root)
    assert not list(task.check()) and "branch" not in task.arguments
    lengths = {
        clips: [len(one.query.media[0]) for one in build(f"mvbench(clips={clips})", root).samples()]
        for clips in ("clipped", "whole")
    }
    assert lengths == {"clipped": [3, 10, 1, 4], "whole": [10, 10, 10, 12]}


def test_parts_of_videos_of_mvbench_may_be_among_those_added_later(build, tmp_path):
    published(tmp_path, "mvbench")
    place = tmp_path / "1" / "mvbench"
    (place / "data0613/star").mkdir(parents=True)
    (place / "star/Charades_segment").rename(place / "data0613/star/Charades_segment")
    (place / "video").mkdir()  # of archives, which are not unpacked
    task = build("mvbench", tmp_path / "1")
    assert not list(task.check())
    assert task.arguments["branch"] == "video"
    with pytest.raises(UsageError, match="branch video"):
        build("mvbench(clips=whole)", tmp_path / "1")


def test_translations_of_mindcube_are_left_out_of_the_authors_lines_alone(build, tmp_path):
    table, _ = published(tmp_path, "mindcube")
    (tmp_path / "1/mindcube/tiny").mkdir()  # empty: it hides nothing
    lines = tmp_path / "1/mindcube/data/raw/MindCube_tinybench.jsonl"
    text = lines.read_text("utf-8").replace('"gt_answer": "B"', '"gt_answer": "Left"')
    lines.write_text(text, encoding="utf-8")
    task = build("mindcube", tmp_path / "1")
    assert not list(task.check()) and ids(task) == ["rotation_group004_q1_2"]
    renamed = table["tables"][0]["rows"].replace("among_group693", "translation_group693")
    write_published(tmp_path / "0", {**table, "tables": [{**table["tables"][0], "rows": renamed}]})
    (sample,) = build("mindcube", tmp_path / "0").samples()
    assert sample.id == "translation_group693_q1_5_2" and sample.categories["setting"] == "other"


def test_view_spatial_is_read_once(build, tmp_path):
    published(tmp_path, "view_spatial")
    root = tmp_path / "1" / "view_spatial"
    listed = (root / "ViewSpatial-Bench.json").read_text("utf-8")
    (root / "ViewSpatial-Bench/ViewSpatial-Bench.json").write_text(listed, encoding="utf-8")
    task = build("view_spatial", tmp_path / "1")
    assert ids(task) == ["ViewSpatial-Bench/0"]
    assert task.annotations == (root / "ViewSpatial-Bench.json",)
    (tmp_path / "0/view_spatial/ViewSpatial-Bench.json").write_text(listed, encoding="utf-8")
    assert ids(build("view_spatial", tmp_path / "0")) == ["test-00000-of-00001/0"]
