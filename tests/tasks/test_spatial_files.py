"""Files of the spatial benchmarks that are not as they should be are refused by name, as they are
met; nothing large is read whole; videos may be folders of frames.
"""

import json
import re
import shutil
import tracemalloc
from itertools import islice

import pytest
from PIL import Image

from harness.errors import DataError
from harness.run.batching import select
from harness.run.survey import survey
from harness.run.verify import verify
from harness.types import AnswerForm

ITEM = ("v_star/V_STaR_test.json", "v_star")


@pytest.fixture
def copy(example, tmp_path):
    def made(name):
        shutil.copytree(example(name), tmp_path, dirs_exist_ok=True)
        return tmp_path

    return made


def table(root, name, change):
    """Write a benchmark's Parquet file again with its first row changed."""
    import pyarrow as pa
    from pyarrow import parquet

    (path,) = (root / name).rglob("*.parquet")
    whole = parquet.read_table(path)
    rows = whole.to_pylist()
    rows[0].update(change)
    schema = whole.schema
    for key, value in change.items():
        if not isinstance(value, (list, dict)):
            place = schema.get_field_index(key)
            kind = pa.array([value]).type
            if kind != schema.field(place).type and value is not None:
                schema = schema.set(place, pa.field(key, kind))
                for row in rows:
                    row[key] = value
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def refused(build, spec, root, *said):
    """`check` and `samples` name the same thing."""
    task = build(spec, root)
    problems = list(task.check())
    assert problems
    with pytest.raises(DataError) as raised:
        list(task.samples())
    for text in said:
        assert text in str(raised.value)
        assert any(text in problem.message for problem in problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Task": "Guessing"}, "Dimensional Measurement"),
        ({"Answer": "F"}, "'F'"),
        ({"Question": " "}, "'Question'"),
        ({"Candidates": {"A": "1 m", "C": "2 m"}}, "letters A, B"),
        ({"time_start": None}, "'time_start'"),
        ({"Video": "../../secret.mp4"}, "'../../secret.mp4'"),
    ],
)
def test_a_wrong_row_of_sti_bench_is_named(build, copy, change, said):
    root = copy("sti_bench")
    table(root, "sti_bench", change)
    task = build("sti_bench", root)
    assert any(said in problem.message for problem in task.check())
    with pytest.raises(DataError, match=said):
        list(task.samples())


def test_options_of_sti_bench_may_be_json_text(build, copy, example):
    root = copy("sti_bench")
    before = [one.query.options for one in build("sti_bench", root).samples()]
    import pyarrow as pa
    from pyarrow import parquet

    path = root / "sti_bench" / "qa.parquet"
    rows = parquet.read_table(path).to_pylist()
    for row in rows:
        row["Candidates"] = json.dumps({k: v for k, v in row["Candidates"].items() if v})
        row["Scene"] = "a yard"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    samples = list(build("sti_bench", root).samples())
    assert [one.query.options for one in samples] == before
    assert {one.categories["scene"] for one in samples} == {"a yard"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question_type": "colour"}, "object_counting"),
        ({"ground_truth": "none"}, "found 'none'"),
        ({"ground_truth": "0"}, "found '0'"),
        ({"scene_name": "../x"}, "'shapes/../x.mp4'"),
        ({"id": None}, "'id'"),
        ({"question_type": "route_planning"}, "'options': expected 2 to 8"),
        ({"question_type": "route_planning", "options": ["A. x", "C. y"]}, "option B: "),
        ({"question_type": "route_planning", "options": ["A. x", "B. y"]}, "A, B, found '3'"),
    ],
)
def test_a_wrong_line_of_vsi_bench_is_named(build, copy, change, said):
    root = copy("vsi_bench")
    path = root / "vsi_bench" / "test.jsonl"
    first, *others = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **change}), *others]))
    task = build("vsi_bench", root)
    assert any(said in problem.message for problem in task.check())
    with pytest.raises(DataError, match=re.escape(said)):
        list(task.samples())


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"id": 1}', b'{"id": 1, "id": 2}', b"\xff", b"NaN"]
)
def test_a_damaged_line_of_vsi_bench_is_named(build, copy, line):
    root = copy("vsi_bench")
    path = root / "vsi_bench" / "test.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes())
    with pytest.raises(DataError, match="line 1"):
        list(build("vsi_bench", root).samples())
    assert any("line 1" in problem.message for problem in build("vsi_bench", root).check())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "guessing"}, "depth_prediction_oc"),
        ({"image": []}, "'image': .*none"),
        ({"image": [{"bytes": None, "path": None}]}, "'image': .*'bytes': None, 'path': None"),
        ({"image": [{"bytes": None, "path": "/etc/x.png"}]}, "'/etc/x.png'"),
        ({"task": "depth_prediction_oc", "answer": "far"}, "'answer': .*'far'"),
        ({"question": ""}, "'question'"),
    ],
)
def test_a_wrong_row_of_spar_bench_is_named(build, copy, change, said):
    root = copy("spar_bench")
    table(root, "spar_bench", change)
    task = build("spar_bench", root)
    assert any(re.search(said, problem.message) for problem in task.check())
    with pytest.raises(DataError, match=said):
        list(task.samples())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vid": None}, "'vid'"),
        ({"timestamps": [3]}, "[3]"),
        ({"timestamps": [3, 1]}, "start ≤ end"),
        ({"fps": 0}, "'fps'"),
        ({"bboxes": [{"timestamp": 1}]}, "'xmin'"),
        ({"bboxes": [3]}, "found 3"),
        ({"answer": ""}, "'answer'"),
        ({"width": "wide"}, "'width'"),
        ({"timestamps": ["a", 2]}, "finite"),
    ],
)
def test_a_wrong_item_of_v_star_is_named(build, copy, change, said):
    root = copy("v_star")
    path = root / ITEM[0]
    plain = json.loads(path.read_text("utf-8"))
    plain[1].update(change)
    path.write_text(json.dumps(plain))
    refused(build, "v_star", root, said, "item 1")


def test_an_item_says_the_size_of_its_video(build, copy):
    root = copy("v_star")
    path = root / ITEM[0]
    plain = json.loads(path.read_text("utf-8"))
    plain[0]["width"] += 2
    path.write_text(json.dumps(plain))
    assert any(" pixels" in one.message for one in build("v_star", root).check())


@pytest.mark.parametrize("name", ["sti_bench", "vsi_bench", "v_star"])
@pytest.mark.parametrize("damage", ["missing", "cut", "text"])
def test_a_video_that_is_missing_or_damaged_is_named_and_lost(build, copy, name, damage):
    root = copy(name)
    path = sorted((root / name).rglob("*.mp4"))[0]
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"no video" if damage == "text" else path.read_bytes()[:700])
    task = build(name, root)
    problems = list(task.check())
    assert any(path.stem in one.path + one.message for one in problems)
    faults = [one.query.media[0].fault for one in task.samples() if path.stem in one.group]
    assert faults and all(faults)
    with pytest.raises(DataError, match=path.stem):
        survey(task, select(task, None))


@pytest.mark.parametrize("name", ["sti_bench", "vsi_bench", "v_star"])
def test_videos_may_be_folders_of_frames(build, copy, name):
    root = copy(name)
    before = [(one.id, len(one.query.media[0])) for one in build(name, root).samples()]
    for path in (root / name).rglob("*.mp4"):
        media = next(
            one.query.media[0]
            for one in build(name, root).samples()
            if one.group in path.as_posix()
        )
        images = [media.frame(k) for k in range(len(media))]
        path.unlink()
        path.with_suffix("").mkdir()
        for number, image in enumerate(images):
            Image.fromarray(image).save(path.with_suffix("") / f"{number:05d}.png")
    task = build(name, root)
    assert not list(task.check())
    assert [(one.id, len(one.query.media[0])) for one in task.samples()] == before
    assert all(one.is_passed for one in verify(task, None))


def test_the_older_layout_of_vsi_bench_is_read_too(build, shapes, tmp_path):
    place = tmp_path / "vsi_bench"
    shutil.copytree(shapes / "vsi_bench", place)
    (place / "test-00000-of-00001.parquet").unlink()
    whole = [one.id for one in build("vsi_bench", shapes).samples()]
    (place / "test_debiased.parquet").rename(place / "test-00000-of-00002.parquet")
    (place / "test_pruned.parquet").rename(place / "test-00001-of-00002.parquet")
    (place / "test.jsonl").unlink()
    assert sorted(one.id for one in build("vsi_bench", tmp_path).samples()) == sorted(whole)
    for split in ("debiased", "pruned"):  # by the list of ids alone
        ours = [one.id for one in build(f"vsi_bench(split={split})", tmp_path).samples()]
        assert ours == [one.id for one in build(f"vsi_bench(split={split})", shapes).samples()]


def test_images_of_spar_bench_may_lie_beside_the_table(build, copy):
    root = copy("spar_bench")
    from pyarrow import parquet

    (path,) = (root / "spar_bench").rglob("*.parquet")
    first = parquet.read_table(path).to_pylist()[0]["image"]
    place = path.parent.parent / "images"
    place.mkdir()
    for number, one in enumerate(first):
        (place / f"{number}.png").write_bytes(one["bytes"])
    images = [{"bytes": None, "path": f"images/{k}.png"} for k in range(len(first))]
    before = [
        media.frame(0) for media in next(iter(build("spar_bench", root).samples())).query.media
    ]
    table(root, "spar_bench", {"image": images})
    after = [
        media.frame(0) for media in next(iter(build("spar_bench", root).samples())).query.media
    ]
    assert len(before) == len(after)
    assert all((one == other).all() for one, other in zip(before, after, strict=True))
    (place / "0.png").write_bytes(b"")
    assert [one.path for one in build("spar_bench", root).check()] == ["question '0'"]


def test_opening_vsi_bench_reads_nothing_whole(build, copy):
    root = copy("vsi_bench")
    path = root / "vsi_bench" / "test.jsonl"
    line = path.read_text("utf-8").splitlines()[0]
    with path.open("w") as lines:
        for number in range(40_000):
            lines.write(json.dumps({**json.loads(line), "id": number}) + "\n")
    next(iter(build("vsi_bench", root).samples()))  # what is imported and cached once
    tracemalloc.start()
    samples = list(islice(build("vsi_bench", root).samples(), 3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one.id for one in samples] == ["0", "1", "2"]
    assert peak < path.stat().st_size / 8


def test_an_archive_that_is_not_unpacked_is_told_with_where_data_is_had(build, tmp_path):
    for name in ("sti_bench", "vsi_bench", "spar_bench", "v_star"):
        with pytest.raises(DataError, match=f"harness list tasks {name}"):
            build(name, tmp_path)
        (tmp_path / name).mkdir()
        with pytest.raises(DataError, match=f"harness list tasks {name}"):
            build(name, tmp_path)


def test_further_items_of_one_video_have_a_number(build, copy):
    root = copy("v_star")
    path = root / ITEM[0]
    plain = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([plain[0], plain[1], plain[0], plain[0]]))
    units = list(dict.fromkeys(one.unit for one in build("v_star", root).samples()))
    first, second = plain[0]["vid"], plain[1]["vid"]
    assert units == [first, second, f"{first}#2", f"{first}#3"]
    forms = [one.query.form for one in build("v_star", root).samples()][:5]
    assert forms == [
        AnswerForm.TEXT,
        AnswerForm.INTERVAL,
        AnswerForm.BOX_TRACK,
        AnswerForm.BOX_TRACK,
        AnswerForm.INTERVAL,
    ]


def test_boxes_beyond_the_video_lower_the_ceiling(build, copy):
    root = copy("v_star")
    path = root / ITEM[0]
    plain = json.loads(path.read_text("utf-8"))
    plain[0]["bboxes"].append({**plain[0]["bboxes"][0], "timestamp": 99})
    share = 1 - 1 / len(plain[0]["bboxes"])
    path.write_text(json.dumps(plain))
    for one in verify(build("v_star", root), None):
        assert one.is_passed and one.ceiling == pytest.approx((2 + (share + 2) / 3) / 3)
    for one in verify(build("v_star(where=text)", root), None):
        assert one.is_passed and one.ceiling == 1.0
