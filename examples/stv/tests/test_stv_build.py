"""The builder on files in the three sources' formats: ground truth, determinism, counts, named
faults.
"""

import json
import math
import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from stv_builder.__main__ import main
from stv_builder.build import AGAIN, PER_CLIP, BuildSettings, build, clips, questions
from stv_builder.drafts import KINDS
from stv_builder.filters import KEPT, SEVERAL, FilterCounts
from stv_builder.shapes import MAX_SCENES, settings
from stv_builder.shapes import kitti as raw_kitti
from stv_builder.shapes import scannet as raw_scannet
from stv_builder.shapes.street import street
from stv_builder.spatial import PARTLY_LISTED
from stv_builder.statistics import page
from stv_builder.temporal import DOUBTFUL, RESTING, STAYING

from harness.errors import DataError, UsageError
from harness.tasks.training.stv_205k.task import stv_205k

SEED = 3


@pytest.fixture(scope="module")
def found(stv):
    return list(stv_205k(stv).samples())


def test_all_eight_types_of_questions_are_asked_in_all_forms(found):
    assert {one.target.extra["task"] for one in found} == set(KINDS)
    assert {one.target.extra["source"] for one in found} == {"tao", "kitti", "scannet"}
    forms = Counter(str(one.query.form) for one in found)
    assert set(forms) == {"choice", "number", "boxes", "box_3d"}
    assert {one.categories["medium"] for one in found} == {"image", "video"}
    for one in found:
        temporal = one.categories["task"] in (
            "appearance_order",
            "motion_tracking",
            "displacement",
        )
        assert not temporal or one.query.media[0].is_video
        assert (len(one.query.media[0]) > 1) == (one.categories["medium"] == "video")


def test_the_task_has_no_problem_and_its_subset_is_uniform(stv):
    task = stv_205k(stv)
    assert not list(task.check())
    rl = [one.target.extra["task"] for one in stv_205k(stv, split="rl").samples()]
    assert len(rl) == 24
    counts, there = Counter(rl), Counter(one.categories["task"] for one in task.samples())
    free = [kind for kind in KINDS if counts[kind] < there[kind]]
    assert max(counts.values()) - min(counts[kind] for kind in free) <= 1
    only = stv_205k(stv, part="displacement").samples()
    assert {one.target.extra["task"] for one in only} == {"displacement"}


TYPE_OF = {
    "car": "Car",
    "van": "Van",
    "pedestrian": "Pedestrian",
    "truck": "Truck",
    "cyclist": "Cyclist",
    "sitting person": "Person_sitting",
    "tram": "Tram",
}


def thing_of(scene, category):
    kind = TYPE_OF[category]
    (thing,) = (one for one in scene.things if raw_kitti.TYPES[one.shape] == kind)
    return thing


def named_in(text, scene):
    """The categories that a question names, longest names first."""
    words = sorted(TYPE_OF, key=len, reverse=True)
    there = {raw_kitti.TYPES[one.shape] for one in scene.things}
    return [name for name in words if name in text and TYPE_OF[name] in there]


def test_distances_of_kitti_are_those_of_the_scene(found):
    checked = 0
    for one in found:
        if one.categories["task"] != "relative_distance" or one.target.extra["source"] != "kitti":
            continue
        scene = street(SEED, MAX_SCENES + int(one.id.split("/")[1]))
        first, second = named_in(one.query.text, scene)[:2]
        frame = one.target.extra["frame"]
        frame = int(one.id.split("/")[3]) if frame is None else frame
        spots = [raw_kitti.spot_of(scene, thing_of(scene, name), frame) for name in (first, second)]
        assert one.target.answer.number == pytest.approx(math.dist(*spots), abs=0.006), one.id
        checked += 1
    assert checked >= 2


def test_displacements_of_kitti_are_those_of_the_scene(found):
    """Ten frames a second; the camera stands still."""
    checked = 0
    for one in found:
        if one.categories["task"] != "displacement":
            continue
        scene = street(SEED, MAX_SCENES + int(one.id.split("/")[1]))
        (name,) = named_in(one.query.text, scene)[:1]
        words = one.query.text.replace("?", "").replace(",", "").split()
        seconds = [float(word) for word, unit in pairwise(words) if unit == "s"]
        frames = [round(second * 10) for second in seconds]
        spots = [raw_kitti.spot_of(scene, thing_of(scene, name), frame) for frame in frames]
        assert one.target.answer.number == pytest.approx(math.dist(*spots), abs=0.006), one.id
        checked += 1
    assert checked >= 1


def test_graphs_of_scannet_are_the_room_seen_from_the_camera(found):
    checked = 0
    for one in found:
        graphs = one.target.extra.get("graphs", [])
        if one.target.extra["source"] != "scannet" or not one.query.media[0].is_video:
            continue
        scene = raw_scannet.room(SEED, int(one.id.split("/")[1][5:9]))
        labels = [raw_scannet.LABELS[thing.shape] for thing in scene.things]
        for frame in graphs:
            for node in frame["nodes"]:
                places = [k for k, label in enumerate(labels) if label == node["category"]]
                if len(places) != 1:
                    continue
                low, high = raw_scannet.corner_of(scene, scene.things[places[0]])
                x, y, z = (low + high) / 2
                expected = (x - frame["frame"] * raw_scannet.STEP, z - raw_scannet.HEIGHT, y)
                assert node["centre"] == pytest.approx(expected, abs=2e-3)
                checked += 1
        assert all(frame["frame"] < scene.frames - 1 for frame in graphs), "the last pose is lost"
    assert checked > 10


def test_boxes_of_scannet_lie_on_the_image_of_the_thing(found):
    """Projected meshes and rasterised shapes agree to within the thickness of a thing."""
    for one in found:
        if one.id.startswith("scannet") and one.query.form == "boxes":
            left, top, right, bottom = one.target.answer.boxes[0]
            width, height = one.query.size
            assert 0 <= left < right <= width and 0 <= top < bottom <= height


def test_a_build_depends_on_nothing_but_files_and_seed(stv, tmp_path):
    for name in ("first", "second"):
        build(stv, tmp_path / name, settings(SEED))
    other = build(stv, tmp_path / "other", settings(SEED + 1))
    for file in ("questions.jsonl", "graphs.jsonl", "rl_ids.txt", "report.json", "statistics.md"):
        contents = [(tmp_path / name / file).read_bytes() for name in ("first", "second")]
        assert contents[0] == contents[1] == (stv / "stv_205k" / file).read_bytes()
    changed = (tmp_path / "other" / "questions.jsonl").read_bytes()
    assert changed != (tmp_path / "first" / "questions.jsonl").read_bytes()
    assert other["seed"] == SEED + 1


def test_a_folder_that_holds_a_set_is_refused(stv):
    with pytest.raises(UsageError, match="/stv_205k: "):
        build(stv, stv / "stv_205k", settings(SEED))


def test_every_object_in_every_frame_is_counted_once(stv):
    """Kept and dropped add up to all, beside what is counted of questions."""
    report = json.loads((stv / "stv_205k" / "report.json").read_text("utf-8"))
    seen = Counter()
    for clip in clips(stv, settings(SEED)):
        seen[clip.source] += sum(map(len, clip.sights))
    for source, reasons in report["filters"].items():
        objects = {
            name: number
            for name, number in reasons.items()
            if name not in (PER_CLIP, AGAIN) and name.partition(":")[0] not in KINDS
        }
        assert sum(objects.values()) == seen[source]
        assert objects[KEPT] > 0
    assert report["filters"]["scannet"]["ambiguous category"] > 0
    assert {STAYING, RESTING, DOUBTFUL, SEVERAL} <= set(report["filters"]["kitti"])
    everything = BuildSettings(seed=SEED, kitti_step=1, scannet_step=1, per_clip=10**6, images=1)
    tally = FilterCounts()
    number = sum(1 for _ in questions(clips(stv, everything), everything, tally))
    assert not any(reason == PER_CLIP and count for (_, reason), count in tally.counts.items())
    assert number > report["questions"]["total"]


def test_the_page_shows_what_the_report_counts(stv, lines):
    report = json.loads((stv / "stv_205k" / "report.json").read_text("utf-8"))
    shown = (stv / "stv_205k" / "statistics.md").read_text("utf-8")
    assert shown == page(report)
    rows = lines(stv / "stv_205k" / "questions.jsonl")
    assert report["questions"]["total"] == len(rows)
    for kind, number in Counter(row["task"] for row in rows).items():
        assert report["questions"]["task"][kind] == number and f"| {kind} | {number} |" in shown
    for counts in report["questions"]["letters"].values():
        assert len(counts) > 1
    for source, reasons in report["filters"].items():
        assert all(f"| {source} | {why} | {number} |" in shown for why, number in reasons.items())
    assert "less than 15% visible" in shown or "smaller than 400 px" in shown


LAST = 7  # the frame of every sequence of KITTI that has an area without labels


def of_kitti(folder, lines):
    return [row for row in lines(folder / "questions.jsonl") if row["source"] == "kitti"]


def test_of_a_frame_with_an_area_without_labels_nothing_is_counted(stv, copy, lines, tmp_path):
    """And it is, once the rows of these areas are taken away; all else is asked of both."""
    everything = replace(settings(SEED), sources=("kitti",), per_clip=1000, images=1000)
    build(stv, tmp_path / "with", everything)
    for path in (copy / "kitti_tracking" / "training" / "label_02").glob("*.txt"):
        edit(
            path,
            lambda text: "".join(f"{row}\n" for row in text.splitlines() if "DontCare" not in row),
        )
    build(copy, tmp_path / "without", everything)
    partly, wholly = (of_kitti(tmp_path / name, lines) for name in ("with", "without"))
    counted = [
        [row for row in rows if row["task"] == "object_counting"] for rows in (partly, wholly)
    ]
    frames = [{row["frames"][0] for row in rows if row["data_type"] == "image"} for rows in counted]
    assert [len(images) for images in frames] == [MAX_SCENES * LAST, MAX_SCENES * (LAST + 1)]
    assert [any(row["data_type"] == "video" for row in rows) for rows in counted] == [False, True]
    others = [sum(row["task"] != "object_counting" for row in rows) for rows in (partly, wholly)]
    assert others[0] == others[1] > 0
    reasons = [
        json.loads((tmp_path / name / "report.json").read_text("utf-8"))["filters"]["kitti"]
        for name in ("with", "without")
    ]
    page_of = (tmp_path / "with" / "statistics.md").read_text("utf-8")
    assert reasons[0][PARTLY_LISTED] > 0 and PARTLY_LISTED not in reasons[1]
    assert f"| kitti | {PARTLY_LISTED} | {reasons[0][PARTLY_LISTED]} |" in page_of


@pytest.fixture
def copy(stv, tmp_path):
    shutil.copytree(stv, tmp_path / "copy", ignore=shutil.ignore_patterns("stv_205k"))
    return tmp_path / "copy"


def edit(path, change):
    path.write_text(change(path.read_text("utf-8")), encoding="utf-8")


def tao(change):
    def changed(text):
        plain = json.loads(text)
        change(plain)
        return json.dumps(plain)

    return changed


DAMAGE = {
    "tao cut off": ("tao/annotations/train.json", lambda text: text[:200], "train.json"),
    "tao box": (
        "tao/annotations/train.json",
        tao(lambda p: p["annotations"][3].update(bbox=[1, 2, 3])),
        "annotation 3: 'bbox'",
    ),
    "tao track": (
        "tao/annotations/train.json",
        tao(lambda p: p["annotations"][2].update(track_id=9999)),
        "track 9999",
    ),
    "tao way out": (
        "tao/annotations/train.json",
        tao(lambda p: p["images"][0].update(file_name="../x.jpg")),
        r"'\.\./x\.jpg'",
    ),
    "kitti label": (
        "kitti_tracking/training/label_02/0001.txt",
        lambda text: text + "1 2 Car\n",
        "17 columns",
    ),
    "kitti pose": (
        "kitti_tracking/training/oxts/0000.txt",
        lambda text: text[: len(text) // 2],
        "0000.txt",
    ),
    "scannet segments": (
        "scannet/scans/scene0000_00/scene0000_00_vh_clean_2.0.010000.segs.json",
        lambda text: text.replace("[", "[7, "),
        "segIndices",
    ),
    "scannet group": (
        "scannet/scans/scene0001_00/scene0001_00.aggregation.json",
        lambda text: text.replace('"label"', '"lable"'),
        "label",
    ),
    "scannet pose": ("scannet/scans/scene0000_00/pose/1.txt", lambda text: "1 0 0", "16 numbers"),
    "scannet alignment": (
        "scannet/scans/scene0000_00/scene0000_00.txt",
        lambda text: "axisAlignment = 1 0 0\n",
        "axisAlignment",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_named_and_leaves_no_set(copy, tmp_path, name):
    path, change, named = DAMAGE[name]
    edit(copy / path, change)
    with pytest.raises(DataError, match=named):
        build(copy, tmp_path / "out", settings(SEED))
    assert not (tmp_path / "out" / "questions.jsonl").exists()


def test_scans_can_be_left_out_and_sources_chosen(stv, tmp_path, lines, capsys):
    (tmp_path / "out.txt").write_text("scene0000_00\nscene0002_00\n", encoding="utf-8")
    words = [
        "--data",
        str(stv),
        "--out",
        str(tmp_path / "set"),
        "--sources",
        "scannet",
        "--scannet-step",
        "1",
        "--without",
        str(tmp_path / "out.txt"),
        "--no-synonyms",
    ]
    assert main(words) == 0
    scenes = {row["problem_id"].split("/")[1] for row in lines(tmp_path / "set/questions.jsonl")}
    assert scenes == {"scene0001_00"}
    assert "questions" in capsys.readouterr().out
    assert main(words) == 2 and str(tmp_path / "set") in capsys.readouterr().err
    assert main(["--data", str(stv), "--sources", "mars"]) == 2
    assert "mars" in capsys.readouterr().err
