"""RVTBench and JiTBench: records are read by a mapping, and errors name its keys."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError, MissingDependency
from harness.masks import Rle
from harness.run.scoring import score_unit
from harness.run.verify import perfect
from harness.summary import breakdowns, values
from harness.tasks.jitbench.task import DEFAULT_MAPPING as JITBENCH
from harness.tasks.rvtbench.mapping import read_mapping
from harness.tasks.rvtbench.task import DEFAULT_MAPPING
from harness.tasks.rvtbench.writing import records
from harness.types import Answer, Box, Failure, FailureKind, Prediction
from harness.world.shapes import make_world

SQUARE = Rle.from_array(np.pad(np.ones((3, 4), bool), ((1, 2), (2, 3)))).to_json()  # of 6 × 9
RECORD = {
    "id": "v_L3_temporal_7",
    "task": "segmentation",
    "level": 3,
    "category": "temporal",
    "video": "v",
    "frames": ["00000", "00005"],
    "query": " the one  that moves ",
    "gt": {
        "masks": [{"frame": "00005", "rle": SQUARE}],
        "boxes": {"00005": [2, 1, 6, 4]},
        "text": "the small red square",
        "choice": "B",
    },
    "options": ["a circle", "a square"],
}
KINDS = {
    "rvtbench_seg": "segmentation",
    "rvtbench_grounding": "grounding",
    "rvtbench_vqa": "vqa",
    "rvtbench_summary": "summary",
}


@pytest.fixture
def root(tmp_path):
    """A data root with one record of each task, as lines of JSON, and two frames."""
    place = tmp_path / "rvtbench"
    (place / "videos/v").mkdir(parents=True)
    for frame in RECORD["frames"]:
        Image.new("RGB", (9, 6)).save(place / "videos/v" / f"{frame}.jpg")
    for kind in KINDS.values():
        put(tmp_path, kind, [{**RECORD, "task": kind}])
    return tmp_path


def put(root: Path, kind: str, plain, name: str = "annotations/{}.jsonl") -> Path:
    path = root / "rvtbench" / name.format(kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = plain if isinstance(plain, list) else [plain]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path


def mapping(root: Path, *changes: tuple[str, str], of: Path = DEFAULT_MAPPING) -> Path:
    """The default mapping with some of its text replaced."""
    text = of.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = root / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def one(task):
    (sample,) = task.samples()
    return sample


def test_the_default_mapping_reads_the_record_of_its_page(build, root):
    sample = one(build("rvtbench_seg", root))
    assert (sample.id, sample.group, sample.unit) == ("v_L3_temporal_7", "v", "v_L3_temporal_7")
    assert sample.query.text == "the one that moves" and sample.query.size == (9, 6)
    assert sample.categories == {
        "level": "3",
        "category": "temporal",
        "level and category": "3 temporal",
    }
    assert [mask.area for mask in sample.target.answer.masks] == [0, 12]
    boxed = one(build("rvtbench_grounding", root))
    assert boxed.target.answer.box_track == (None, Box(2, 1, 6, 4))
    assert one(build("rvtbench_vqa", root)).target.answer.text == "the small red square"
    chosen = one(build("rvtbench_vqa(protocol=rvtbench/choice)", root))
    assert chosen.target.answer.choice == "B" and chosen.query.options == ("a circle", "a square")


def test_jitbench_has_a_mapping_of_its_own(build, root, tmp_path):
    (root / "rvtbench").rename(root / "jitbench")
    plain = {key: value for key, value in RECORD.items() if key != "task"}
    path = root / "jitbench" / "annotations.jsonl"
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert one(build("jitbench", root)).categories["level and category"] == "3 temporal"
    path.write_text(json.dumps({**plain, "level": 4}), encoding="utf-8")
    with pytest.raises(DataError, match=r"'level' \(fields\.level.*\[levels\].*'L3', found 4"):
        one(build("jitbench", root))
    assert set(read_mapping(JITBENCH).levels) == {"1", "2", "3"}
    assert set(read_mapping(DEFAULT_MAPPING).levels) == {"1", "2", "3", "4"}


def test_every_name_in_a_release_may_differ(build, root):
    """A list of records in one file, words, nested fields, tracks and boxes of another form."""
    renamed = {
        "qid": 12,
        "kind": "Seg",
        "meta": {"difficulty": "L2", "type": "Spatial"},
        "clip": "v",
        "question": "which?",
        "answer": {"rles": [None, SQUARE], "xywh": [None, [2, 1, 4, 3]]},
    }
    path = root / "rvtbench" / "all.json"
    boxes = {**renamed, "qid": "b", "kind": "Box"}
    path.write_text(json.dumps({"data": {"items": [renamed, boxes]}}), encoding="utf-8")
    mine = mapping(
        root,
        ('"annotations/{task}.jsonl"', '"all.json"'),
        ('records = ""', 'records = "data.items"'),
        ('id = "id"', 'id = "qid"'),
        ('\ntask = "task"', '\ntask = "kind"'),
        ('level = "level"', 'level = "meta.difficulty"'),
        ('category = "category"', 'category = "meta.type"'),
        ('video = "video"', 'video = "clip"'),
        ('frames = "frames"', 'frames = ""'),
        ('query = "query"', 'query = "question"'),
        ('masks = "gt.masks"', 'masks = "answer.rles"'),
        ('boxes = "gt.boxes"', 'boxes = "answer.xywh"'),
        ('segmentation = ["segmentation"]', 'segmentation = ["Seg"]'),
        ('grounding = ["grounding"]', 'grounding = ["Box"]'),
        ('spatial = ["spatial"]', 'spatial = ["Spatial"]'),
        ('form = "records"', 'form = "track"'),
        ('form = "frames"', 'form = "track"'),
        ('order = "xyxy"', 'order = "xywh"'),
    )
    sample = one(build(f"rvtbench_seg(mapping={mine})", root))
    assert sample.id == "12" and sample.categories["level and category"] == "2 spatial"
    assert [mask.area for mask in sample.target.answer.masks] == [0, 12]
    boxed = one(build(f"rvtbench_grounding(mapping={mine})", root))
    assert boxed.target.answer.box_track == (None, Box(2, 1, 6, 4)), "the same box in another form"
    task = build(f"rvtbench_seg(mapping={mine})", root)
    assert mine in task.annotations, "another mapping is another ground truth"
    assert not list(task.check())


def test_masks_by_frames_and_boxes_that_include_their_last_pixel(build, root):
    ground_truth = {"masks": {"00000": SQUARE, "00005": None}, "boxes": {"00000": [2, 1, 5, 3]}}
    for kind in ("segmentation", "grounding"):
        put(root, kind, {**RECORD, "task": kind, "gt": ground_truth})
    mine = mapping(
        root, ('form = "records"', 'form = "frames"'), ("inclusive = false", "inclusive = true")
    )
    masks = one(build(f"rvtbench_seg(mapping={mine})", root)).target.answer.masks
    assert [mask.area for mask in masks] == [12, 0]
    boxed = one(build(f"rvtbench_grounding(mapping={mine})", root))
    assert boxed.target.answer.box_track == (Box(2, 1, 6, 4), None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[files]", "[file]", "lacks files"),
        ("[files]", 'path = "x"\n[files]', "expected no path"),
        ('id = "id"', 'id = ""', "fields: id: .*none"),
        ('query = "query"', "query = 3", "fields: query: .*found 3"),
        ('query = "query"', 'query = "query"\nlabel = "x"', "fields: .*id, .*task.*found label"),
        (
            '"annotations/{task}.jsonl"',
            '"annotations/{split}.jsonl"',
            "annotations: .*{task}",
        ),
        (
            '"videos/{video}/{frame}.jpg"',
            '"videos/{video}.mp4"',
            "files: frames: .*{frame} and {video}",
        ),
        ('"videos/{video}/{frame}.jpg"', '"videos/{video"', "files: frames"),
        ('3 = [3, "3", "L3"]', '3 = "L3"', "levels: .*list.*'L3'"),
        ('form = "records"', 'form = "png"', "masks: form: .*'records' or 'frames' or 'track'"),
        ('rle = "rle"', 'rle = ""', "masks: rle"),
        ('order = "xyxy"', 'order = "yxyx"', "boxes: order: .*'xyxy' or 'xywh'"),
        ("inclusive = false", "inclusive = 0", "boxes: inclusive: .*true or false"),
        ("[boxes]", "[boxes", "a TOML file"),
    ],
)
def test_a_wrong_mapping_is_refused_by_its_key(build, root, old, new, message):
    mine = mapping(root, (old, new))
    with pytest.raises(DataError, match=message) as refused:
        build(f"rvtbench_seg(mapping={mine})", root)
    assert "mine.toml" in str(refused.value)


def changed(**changes):
    plain = {**RECORD, **changes}
    return {key: value for key, value in plain.items() if value is not None}


@pytest.mark.parametrize(
    ("name", "plain", "key", "message"),
    [
        ("seg", changed(query=None), "fields.query", "none$"),
        ("seg", changed(query=" "), "fields.query", "blank"),
        ("seg", changed(id=None), "fields.id", "none$"),
        ("seg", changed(id=True), "fields.id", "found True"),
        ("seg", changed(level="5"), "fields.level", "found '5'"),
        ("seg", changed(level=True), "fields.level", "found True"),
        ("seg", changed(category="odd"), "fields.category", r"\[categories\].*found 'odd'"),
        ("seg", changed(task="counting"), "fields.task", r"\[tasks\].*found 'counting'"),
        ("seg", changed(frames=[]), "fields.frames", r"found \[\]"),
        ("seg", changed(frames=["00000", "00000"]), "fields.frames", "twice"),
        ("seg", changed(gt={}), "fields.masks", "none$"),
        ("seg", changed(gt={"masks": {}}), "fields.masks", r"list, found \{\}"),
        (
            "seg",
            changed(gt={"masks": [{"frame": "9", "rle": SQUARE}]}),
            "fields.masks",
            "found '9'",
        ),
        ("seg", changed(gt={"masks": [{"frame": "00000"}]}), "fields.masks", "'frame' and 'rle'"),
        (
            "seg",
            changed(gt={"masks": [{"frame": "00000", "rle": {"size": [6, 9], "counts": [3]}}]}),
            "fields.masks",
            "54 pixels",
        ),
        (
            "grounding",
            changed(gt={"boxes": {"00000": [1, 2, 3]}}),
            "fields.boxes",
            r"frame '00000': .*\[1, 2, 3\]",
        ),
        (
            "grounding",
            changed(gt={"boxes": {"00000": [4, 1, 4, 3]}}),
            "fields.boxes",
            r"'xyxy'.*frame '00000' \[4, 1, 4, 3\]",
        ),
        (
            "grounding",
            changed(gt={"boxes": {"00000": [4, 1, 10, 3]}}),
            "fields.boxes",
            "within 9 × 6",
        ),
        ("grounding", changed(gt={"boxes": {"7": [1, 1, 2, 2]}}), "fields.boxes", "found '7'"),
        ("vqa", changed(gt={"text": " "}), "fields.text", "found ' '"),
        ("vqa", changed(gt={"text": 3}), "fields.text", "str .*list, found 3"),
        ("summary", changed(gt={"text": []}), "fields.text", r"found \[\]"),
    ],
)
def test_a_wrong_record_is_refused_by_line_and_key(build, root, name, plain, key, message):
    kind = KINDS[f"rvtbench_{name}"]
    if plain["task"] == RECORD["task"]:
        plain = {**plain, "task": kind}
    path = put(root, kind, [{**RECORD, "task": kind}, plain])
    task = build(f"rvtbench_{name}", root)
    with pytest.raises(DataError, match=message) as refused:
        list(task.samples())
    assert f"{path}, line 2" in str(refused.value) and f"({key} " in str(refused.value)
    (problem,) = task.check()
    assert problem.path == str(path) and "line 2" in problem.message


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"options": ["only one"]}, "fields.options"),
        ({"options": None}, "fields.options"),
        ({"gt": {"choice": "C"}}, "fields.choice"),
        ({"gt": {"choice": "AB"}}, "fields.choice"),
        ({"gt": {"choice": "a star"}}, "fields.choice"),
    ],
)
def test_a_wrong_choice_is_refused_by_its_key(build, root, changes, key):
    put(root, "vqa", changed(task="vqa", **changes))
    with pytest.raises(DataError, match=key):
        list(build("rvtbench_vqa(protocol=rvtbench/choice)", root).samples())


def test_a_mask_of_another_size_is_refused_by_frame(build, root):
    put(
        root,
        "segmentation",
        changed(gt={"masks": [{"frame": "00005", "rle": Rle.full(3, 3).to_json()}]}),
    )
    with pytest.raises(DataError, match=r"line 1: frame '00005'.*9 × 6 pixels.*found 3 × 3"):
        list(build("rvtbench_seg", root).samples())


def test_a_cut_file_and_a_missing_one_are_refused_by_name(build, root):
    path = put(root, "vqa", {**RECORD, "task": "vqa"})
    path.write_text(path.read_text()[:50])
    with pytest.raises(DataError, match=r"vqa\.jsonl, line 1: .*JSON.*char 50"):
        list(build("rvtbench_vqa", root).samples())
    path.unlink()
    with pytest.raises(DataError, match=r"vqa\.jsonl: .*none.*mapping=FILE\.toml"):
        build("rvtbench_vqa", root)
    mine = mapping(root, ('"annotations/{task}.jsonl"', '"../{task}.jsonl"'))
    with pytest.raises(DataError, match=r"'\.\./vqa\.jsonl'"):
        build(f"rvtbench_vqa(mapping={mine})", root)


def test_the_check_names_missing_frames_once_and_ids_that_come_twice(build, root):
    put(root, "segmentation", [RECORD, RECORD])
    (problem,) = build("rvtbench_seg", root).check()
    assert "'v_L3_temporal_7' " in problem.message and "line 2" in problem.message
    gone = root / "rvtbench/videos/v/00005.jpg"
    gone.unlink()
    assert [one.path for one in build("rvtbench_seg", root).check()].count(str(gone)) == 1
    assert next(iter(build("rvtbench_seg", root).samples())).query.media[0].fault


def test_without_any_image_the_size_is_that_of_the_masks(build, root):
    for path in (root / "rvtbench/videos/v").iterdir():
        path.unlink()
    sample = one(build("rvtbench_seg", root))
    assert sample.query.size == (9, 6) and sample.query.media[0].fault
    boxed = {**RECORD, "task": "grounding", "gt": {"boxes": {"00005": [2, 1, 6, 4]}}}
    put(root, "grounding", [boxed])
    sample = one(build("rvtbench_grounding", root))
    assert sample.query.size == (6, 4)
    assert sample.target.answer.box_track == (None, Box(2, 1, 6, 4))


def test_without_any_image_a_record_without_a_mask_does_not_size_the_next_one(build, root):
    for path in (root / "rvtbench/videos/v").glob("*"):
        path.unlink()
    nothing = {**RECORD, "id": "nothing", "gt": {"masks": []}}
    put(root, "segmentation", [nothing, RECORD])
    first, second = build("rvtbench_seg", root).samples()
    assert [mask.area for mask in first.target.answer.masks] == [0, 0]
    assert second.query.size == (9, 6) and second.target.answer.masks[1].area == 12


def test_records_of_one_video_share_its_frames(build, root):
    put(root, "segmentation", [RECORD, {**RECORD, "id": "other"}])
    first, second = build("rvtbench_seg", root).samples()
    assert first.query.media[0] is second.query.media[0]


def test_questions_take_turns_in_every_level_and_category():
    world = make_world(seed=0, size=24)
    for levels in (3, 4):
        cells = {
            (one["level"], one["category"]) for one in records(world, "segmentation", levels=levels)
        }
        assert cells == set(product(range(1, levels + 1), ("semantic", "spatial", "temporal")))


# Scores


def said(sample, **answer) -> Prediction:
    return Prediction(query_id=sample.query.id, answer=Answer(**answer))


def lost(sample) -> Prediction:
    return Prediction(query_id=sample.query.id, failure=Failure(FailureKind.PARSE, "unreadable"))


def number(task, sample, prediction):
    return values(task, [score_unit(task, [sample], [prediction])])


def test_boxes_are_scored_by_areas_and_by_frames(build, root):
    task = build("rvtbench_grounding", root)
    sample = one(task)
    assert number(task, sample, perfect(sample)) == {"cIoU": 1.0, "gIoU": 1.0}
    half = said(sample, box_track=(None, Box(2, 1, 4, 4)))
    assert number(task, sample, half) == {"cIoU": 0.5, "gIoU": 0.75}
    spill = said(sample, box_track=(Box(0, 0, 3, 4), Box(2, 1, 6, 4)))
    assert number(task, sample, spill) == {"cIoU": 0.5, "gIoU": 0.5}
    for nothing in (said(sample, no_target=True), said(sample, box_track=(None, None))):
        assert number(task, sample, nothing) == {"cIoU": 0.0, "gIoU": 0.5}
    assert number(task, sample, lost(sample)) == {"cIoU": 0.0, "gIoU": 0.0}


def test_a_list_of_one_box_a_frame_is_a_track_and_any_other_is_refused(build, root):
    """A file of predictions can say no more; see docs/tasks/rvtbench.md."""
    task = build("rvtbench_grounding", root)
    sample = one(task)
    rows = said(sample, boxes=(Box(0, 0, 3, 4), Box(2, 1, 6, 4)))
    assert number(task, sample, rows) == {"cIoU": 0.5, "gIoU": 0.5}
    with pytest.raises(DataError, match=r"'v_L3_temporal_7': .*2, .*found 1"):
        number(task, sample, said(sample, boxes=(Box(0, 0, 3, 4),)))


def test_texts_are_scored_as_a_corpus_and_no_answer_counts(build, root):
    put(
        root,
        "vqa",
        [
            {**RECORD, "task": "vqa"},
            {
                **RECORD,
                "task": "vqa",
                "id": "two",
                "level": 1,
                "gt": {"text": ["a large blue star", "the star"]},
            },
        ],
    )
    task = build("rvtbench_vqa(protocol=rvtbench/text_simple)", root)
    first, second = task.samples()
    assert second.target.references == ("the star",)
    right = [score_unit(task, [one], [perfect(one)]) for one in (first, second)]
    found = values(task, right)
    assert found["ROUGE-L (simple tokens)"] == 1.0
    assert found["BLEU-4 (simple tokens)"] == pytest.approx(1.0, abs=1e-6)
    assert found["CIDEr (simple tokens)"] > 5
    half = [right[0], score_unit(task, [second], [lost(second)])]
    assert values(task, half)["ROUGE-L (simple tokens)"] == 0.5
    shown = breakdowns(task, half)
    by_level = {level: shown["level"][level]["metrics"] for level in ("1", "3")}
    assert by_level["3"]["ROUGE-L (simple tokens)"] == 1.0
    assert by_level["1"]["ROUGE-L (simple tokens)"] == 0.0


def test_the_default_has_the_official_tokens(build, root):
    task = build("rvtbench_summary", root)
    sample = one(task)
    try:
        found = number(task, sample, said(sample, text="The small, red square."))
    except MissingDependency:
        pytest.skip("no Java, or no pycocoevalcap")
    assert found["ROUGE-L"] == 1.0 and set(found) == {"ROUGE-L", "BLEU-4", "CIDEr"}


def test_a_choice_is_right_by_its_letter_alone(build, root):
    task = build("rvtbench_vqa(protocol=rvtbench/choice)", root)
    sample = one(task)
    for prediction, expected in (
        (perfect(sample), 1.0),
        (said(sample, choice="A"), 0.0),
        (lost(sample), 0.0),
    ):
        assert number(task, sample, prediction) == {"accuracy": expected}
    put(root, "vqa", changed(task="vqa", gt={"choice": "a circle"}))
    sample = one(build("rvtbench_vqa(protocol=rvtbench/choice)", root))
    assert sample.target.answer.choice == "A", "an option's own words are a letter as well"
