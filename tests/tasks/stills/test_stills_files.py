"""Files that are not as they should be are refused by name: file, record and field."""

import json
import shutil

import pytest
from PIL import Image

from harness.errors import DataError

SPECS = ("refcoco", "refcoco(answer=box)", "refcoco(protocol=res/instance)")


def refused(build, root, message, *, spec="refcoco"):
    """The samples raise, and the check names the same."""
    task = build(spec, root)
    with pytest.raises(DataError, match=message):
        list(task.samples())
    assert any(one.message for one in task.check())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ann_id": 71}, r"entry 0: 'ann_id': .*\b1 .*instances\.json.*71"),
        ({"ann_id": [70, 70]}, r"entry 0: 'ann_id': .*\[70, 70\]"),
        ({"ann_id": [-1, 70]}, r"entry 0: 'ann_id'"),
        ({"ann_id": -1}, r"entry 0: 'ann_id': .*found 0"),
        ({"ann_id": "70"}, r"entry 0: 'ann_id': .*int.*list.*'70'"),
        ({"image_id": 6}, r"entry 0: 'image_id' 6.*5.*annotation 70"),
        ({"image_id": True}, "'image_id'"),
        ({"split": 3}, "'split'"),
        ({"sentences": []}, "'sentences': .*none"),
        ({"sentences": [{"sent": "it"}]}, "sentence 0: 'sent_id'"),
        ({"sentences": [{"sent_id": 4, "sent": 5}]}, "sentence 0: 'sent'"),
        ({"split": "train"}, r"refs\(unc\)\.json: .*\bval\b.*\btrain\b"),
    ],
)
def test_a_referent_that_is_wrong_is_named(build, refer_files, changed, message):
    refused(build, refer_files(refs=[changed]), message)


def test_numbers_that_occur_twice_are_named(build, refer_files):
    refused(build, refer_files(refs=[{}, {}]), r"entry 1: 'ref_id' 1: ")
    refused(build, refer_files(refs=[{}, {"ref_id": 2}]), r"entry 1: 'sent_id' 4: ")
    refused(build, refer_files(things=[{}, {}]), r"'annotations', entry 1: 'id' 70: ")


SQUARE = [2, 3, 6, 3, 6, 8, 2, 8]


@pytest.mark.parametrize(
    ("segmentation", "message"),
    [
        ([[2, 3, 6, 3]], "annotation 70: 'segmentation', part 0: .*4 numbers"),
        ([[2, 3, 6, 3, 6]], "part 0: .*5 numbers"),
        ([SQUARE, [2, 3, 6, 3, float("inf"), 8]], "part 1.*coordinates.*inf"),
        ([[2, 3, 6, 3, float("nan"), 8]], "nan"),
        ([[2, 3, 6, 3, 1e9, 8]], "from -30 to 60"),
        ([[2, 3, 6, -21, 6, 8]], "from -20 to 40"),
        ([[2, 3, 6, True, 6, 8]], "True"),
        (["left"], "part 0"),
        ("left", "'segmentation': .*'left'"),
        ([{"size": [30, 20], "counts": [0, 600]}], "30 × 20 pixels"),
        ({"size": [20, 30], "counts": [0, 599]}, "600 pixels"),
        ({"size": [10**6, 10**6], "counts": "5"}, "size"),
    ],
)
def test_a_segmentation_that_is_wrong_is_named(build, refer_files, segmentation, message):
    refused(build, refer_files(things=[{"segmentation": segmentation}]), message)


@pytest.mark.parametrize(
    "box", [[2, 3, 4], [2, 3, -4, 5], [2, 3, 0, 5], [2, 3, float("nan"), 5], "box", [2, 3, 4, True]]
)
def test_a_box_that_is_wrong_is_named(build, refer_files, box):
    message = "annotation 70: 'bbox'"
    refused(build, refer_files(things=[{"bbox": box}]), message, spec="refcoco(answer=box)")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"width": 31}, r"five\.jpg.*31 × 20 .*30 × 20"),
        ({"width": 0}, "image 5 size"),
        ({"height": 10**6}, "image 5 size"),
        ({"file_name": "../five.jpg"}, r"'\.\./five\.jpg'"),
        ({"file_name": 5}, "'file_name'"),
    ],
)
@pytest.mark.parametrize("spec", SPECS)
def test_an_image_that_is_wrong_is_named(build, refer_files, image, message, spec):
    refused(build, refer_files(image=image), message, spec=spec)


def test_an_image_that_is_lost_is_named_and_is_still_a_sample(build, refer_files):
    root = refer_files()
    next(root.rglob("five.jpg")).unlink()
    task = build("refcoco", root)
    (problem,) = task.check()
    assert "five.jpg" in problem.message
    (sample,) = task.samples()
    assert sample.query.media[0].fault and sample.query.size == (30, 20)


@pytest.mark.parametrize("name", ["refs(unc).json", "instances.json"])
def test_json_that_is_cut_is_named(build, refer_files, name):
    root = refer_files()
    path = root / "refer_seg" / "refcoco" / name
    path.write_text(path.read_text()[:-5])
    refused(build, root, rf"{name.replace('(', '.').replace(')', '.')}.*complete JSON")


def test_a_pickle_that_is_cut_or_runs_code_is_named(build, stills, tmp_path):
    place = tmp_path / "refer_seg" / "refcoco"
    shutil.copytree(stills / "refer_seg" / "refcoco", place)
    path = place / "refs(unc).p"
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    refused(build, tmp_path, r"refs.unc.\.p.*cut")
    path.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    refused(build, tmp_path, r"refs.unc.\.p.*byte 0: .*GLOBAL")
    path.write_bytes(b"}.")
    refused(build, tmp_path, r"refs.unc.\.p: .*list.*dict")


def test_what_is_not_there_says_where_it_is_had(build, tmp_path, refer_files):
    for name, message in (
        ("refcoco", "refer_seg"),
        ("llm_seg40k", "llm_seg40k"),
        ("coco_detection", "coco_detection"),
        ("grefcoco", "refer_seg"),
    ):
        with pytest.raises(DataError, match=rf"{message}.*harness list tasks {name}"):
            build(name, tmp_path)
    root = refer_files()
    for spec in (
        "refcoco_plus",
        "refcoco(split_by=google)",
        "grefcoco",
        "refcoco(layout=lmms,answer=box)",
    ):
        with pytest.raises(DataError, match="harness list tasks"):
            build(spec, root)


# gRefCOCO


@pytest.mark.parametrize(
    ("refs", "things", "message"),
    [
        ([{"ann_id": [70, 99]}], [{}], "'ann_id'.*99"),
        ([{"ann_id": [70, 71]}], [{}, {"id": 71, "image_id": 6}], "'ann_id' 71.*image 5"),
        ([{"ann_id": [70]}], [{"iscrowd": 1}], "'ann_id': .*crowd"),
        ([{"ann_id": []}], [{}], "'ann_id'"),
        ([{"split": "testAB"}], [{}], r"\bval\b.*\btestAB\b"),
    ],
)
def test_a_referent_of_grefcoco_that_is_wrong_is_named(build, refer_files, refs, things, message):
    root = refer_files("grefcoco", "grefs(unc).json", refs=refs, things=things)
    refused(build, root, message, spec="grefcoco")


def test_a_crowd_adds_nothing_to_a_mask(build, refer_files):
    refs = [{"ann_id": [70, 71]}]
    things = [{}, {"id": 71, "iscrowd": 1, "segmentation": [[20, 10, 25, 10, 25, 15]]}]
    root = refer_files("grefcoco", "grefs(unc).json", refs=refs, things=things)
    (sample,) = build("grefcoco", root).samples()
    assert sample.target.answer.masks[0].area == 20 and sample.categories == {"objects": "several"}


def test_images_of_grefcoco_may_lie_where_its_own_reader_looks(build, refer_files):
    root = refer_files("grefcoco", "grefs(unc).json", refs=[{"ann_id": [70]}])
    place = root / "refer_seg" / "images"
    (place / "mscoco/images/train2014").rename(place / "train2014")
    shutil.rmtree(place / "mscoco")
    assert not list(build("grefcoco", root).check())


# LLM-Seg40K


@pytest.fixture
def questions(tmp_path):
    """One image with one question, changed."""

    def written(pair, *, source="coco", name="a.jpg"):
        root = tmp_path / "llm_seg40k"
        for folder in ("coco/train2017", "LLMSeg-40K", "masks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20)).save(root / "coco/train2017/a.jpg")
        Image.new("L", (30, 20), 255).save(root / "masks/a.png")
        plain = {"question": "What?", "answer": "It.", "segmentation_path": "masks/a.png", **pair}
        entry = {name: {"from_dataset": source, "qa_pairs": [plain]}}
        (root / "LLMSeg-40K/validation.json").write_text(json.dumps(entry))
        return tmp_path

    return written


@pytest.mark.parametrize(
    ("pair", "more", "message"),
    [
        ({"rle_seg": {"size": [20, 30], "counts": [5]}}, {}, "question 0: 'rle_seg'.*600 pixels"),
        ({"rle_seg": {"size": [30, 20], "counts": [0, 600]}}, {}, "question 0: mask.*shape"),
        ({"rle_seg": 5}, {}, "'rle_seg'"),
        ({"segmentation_path": "../a.png"}, {}, r"'\.\./a\.png'"),
        ({"segmentation_path": "masks/b.png"}, {}, r"b\.png"),
        ({"segmentation_path": None}, {}, "'segmentation_path'"),
        ({"question": None}, {}, "question 0: 'question'"),
        ({"answer": 5}, {}, "'answer'"),
        ({}, {"source": "lvis"}, "'from_dataset': .*coco .*ego_objects.*lvis"),
        ({}, {"name": "../a.jpg"}, r"'\.\./a\.jpg'"),
    ],
)
def test_a_question_of_llm_seg40k_that_is_wrong_is_named(build, questions, pair, more, message):
    refused(build, questions(pair, **more), message, spec="llm_seg40k")


def test_a_mask_smaller_than_its_image_is_not_resized_but_the_answer_is(build, questions, numbers):
    from harness.masks import Rle
    from harness.types import Answer

    root = questions({"rle_seg": {"size": [10, 15], "counts": [0, 70, 80]}})
    for protocol in ("seg/lisa", "seg/llmseg"):
        task = build(f"llm_seg40k(protocol={protocol})", root)
        (sample,) = task.samples()
        ground_truth = sample.target.answer.masks[0]
        assert ground_truth.size == (15, 10) and sample.query.size == (30, 20)
        half = Rle.from_json({"size": [20, 30], "counts": [0, 280, 320]})  # fourteen columns
        found = numbers(task.protocol, [(sample, Answer(masks=(half,)))])
        assert found["gIoU"] == pytest.approx(1.0, abs=3e-5)
        none = numbers(task.protocol, [(sample, None)])
        assert none["gIoU"] == none["cIoU"] == 0.0


# Copies of the hub


COPY = "reason_seg(protocol=seg/visionreasoner)"


@pytest.fixture
def copied(stills, tmp_path):
    """A copy of the hub, its rows changed by a function of Arrow's table."""

    def written(change, *, name="reason_seg/ReasonSeg_val"):
        from pyarrow import parquet

        source = sorted((stills / name / "data").glob("*.parquet"))[0]
        path = tmp_path / name / "data" / source.name
        path.parent.mkdir(parents=True)
        parquet.write_table(change(parquet.read_table(source)), path)
        return tmp_path

    return written


def with_column(name, values, kind=None):
    import pyarrow as pa

    def change(table):
        old = table.column(name)
        new = pa.array([values(item) for item in old.to_pylist()], kind or old.type)
        return table.set_column(table.column_names.index(name), name, new)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["text"]), r"test-00000.*\btext, .*none .*\btext\b"),
        (lambda table: table.drop_columns(["mask"]), "column 'mask'.*none"),
        (with_column("img_width", lambda side: side + 1), "row 0: 'mask': .*161.*× 160"),
        (with_column("img_height", lambda side: -side), "row 0: 'img_height'"),
        (with_column("mask", lambda rows: rows[:-1]), "row 0: 'mask'"),
        (with_column("mask", lambda rows: [*rows[:-1], rows[-1][:-1]]), "row 0: 'mask': .*lengths"),
        (
            with_column("mask", lambda rows: [*rows[:-1], [None, *rows[-1][1:]]]),
            "row 0: 'mask': .*gaps",
        ),
        (with_column("mask", lambda rows: None), "row 0: 'mask': .*none"),
        (with_column("mask", lambda rows: []), "row 0: 'mask': .*none"),
        (with_column("ann_id", lambda _: None), "row 0: 'ann_id'"),
        (with_column("image", lambda _: None), "row 0: 'image' and 'text'"),
    ],
)
def test_a_row_of_a_copy_that_is_wrong_is_named(build, copied, change, message):
    refused(build, copied(change), message, spec=COPY)


def test_an_image_of_another_size_than_its_row_says_is_named(build, copied):
    from io import BytesIO

    def other(cell):
        held = BytesIO()
        Image.new("RGB", (4, 4)).save(held, "PNG")
        return {**cell, "bytes": held.getvalue()}

    root = copied(with_column("image", other))
    refused(build, root, "row 0: 'image'.*found 4 × 4", spec=COPY)


def test_a_parquet_file_that_is_cut_is_named(build, copied, tmp_path):
    copied(lambda table: table)
    path = next(tmp_path.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-200])
    refused(build, tmp_path, r"test-00000.*complete Parquet file", spec=COPY)


@pytest.mark.parametrize("box", [[1.0, 2.0, 3.0], [5.0, 2.0, 3.0, 4.0], None, []])
def test_a_box_of_a_copy_that_is_wrong_is_named(build, copied, box):
    root = copied(with_column("bbox", lambda _: box), name="refer_seg/refcoco_val")
    spec = "refcoco(protocol=res/instance,layout=visionreasoner)"
    refused(build, root, "row 0: 'bbox'", spec=spec)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("bbox", [1.0, 2.0, 0.0, 4.0], r"'bbox': .*1\.0, 2\.0, 0\.0, 4\.0"),
        ("bbox", [1.0], "'bbox'"),
        ("answer", None, "'answer'"),
        ("question_id", None, "'question_id'"),
        ("image", None, "'image'"),
    ],
)
def test_a_row_of_lmms_lab_that_is_wrong_is_named(build, copied, column, value, message):
    root = copied(with_column(column, lambda _: value), name="refer_seg/lmms-lab/RefCOCO")
    refused(build, root, rf"row 0: {message}", spec="refcoco(layout=lmms,answer=box,split=testA)")


# COCO


@pytest.fixture
def detection(stills, tmp_path):
    """COCO's files, the annotations changed by a function."""

    def written(change, *, copy=False):
        place = tmp_path / "coco_detection"
        shutil.copytree(stills / "coco_detection", place)
        if not copy:
            shutil.rmtree(place / "coco_val")
        path = place / "annotations" / "instances_val2017.json"
        plain = json.loads(path.read_text())
        change(plain)
        path.write_text(json.dumps(plain))
        return tmp_path

    return written


def set_first(key, value):
    return lambda plain: plain["annotations"][0].update({key: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_first("image_id", 9), "'image_id'.*9"),
        (set_first("category_id", 99), "'category_id'.*99"),
        (set_first("bbox", [1, 2, 3]), "'bbox'"),
        (set_first("area", None), "'area'"),
        (
            lambda plain: plain["categories"].append(plain["categories"][0]),
            "'categories'.*twice|'id'",
        ),
        (lambda plain: plain.pop("categories"), "'categories'"),
    ],
)
def test_annotations_of_coco_that_are_wrong_are_named(build, detection, change, message):
    refused(build, detection(change), message, spec="coco_detection")


def test_a_question_about_an_image_that_coco_does_not_have_is_named(build, detection):
    root = detection(lambda plain: plain["images"].pop(0), copy=True)
    refused(build, root, "row 0: 'image_id' and 'cat_id'", spec="coco_detection")


def test_boxes_of_coco_without_area_are_kept(build, detection):
    root = detection(set_first("bbox", [1.0, 2.0, 0.0, 5.0]))
    boxes = [
        box for one in build("coco_detection", root).samples() for box in one.target.answer.boxes
    ]
    assert (1.0, 2.0, 1.0, 7.0) in boxes
