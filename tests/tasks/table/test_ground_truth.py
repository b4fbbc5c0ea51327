"""Ground truth of a table is held to what predictions are held to, or named before it is scored."""

import json
import shutil
import subprocess
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness.errors import DataError
from harness.masks import Rle
from harness.run.batching import select
from harness.run.survey import survey
from harness.tasks.table.description import CHECK
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table

WIDTH, HEIGHT = 64, 48


def picture(root):
    Image.new("RGB", (WIDTH, HEIGHT), "red").save(root / "i.png")


def disc():
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    return (rows - 20) ** 2 + (columns - 30) ** 2 < 100


def described(path, **sections):
    text = 'name = "mine"\n' if "layout" not in sections else ""
    if layout := sections.pop("layout", ""):
        text = f'name = "mine"\nlayout = "{layout}"\n'
    sections = {"media": {"images": "image"}, "question": {"text": "question"}} | sections
    for name, keys in sections.items():
        text += f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    return table(path.parent, file=path)


def rows(root, *records):
    picture(root)
    path = root / "mine.jsonl"
    lines = [{"image": "i.png", "question": "Which?", **record} for record in records]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def problems(task):
    return " ".join(problem.message for problem in task.check())


MASKS = {
    "pixels to ignore": ([1, 255], "L", "255 beside 1"),
    "pixels to ignore in a palette": ([2, 255], "P", "255 beside 2"),
    "confidences": ([90, 200], "L", "one value besides 0"),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_of_several_values_is_refused(name, tmp_path):
    values, mode, message = MASKS[name]
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[5:20, 5:20], pixels[20:25, 5:20] = values
    image = Image.fromarray(pixels, mode)
    if mode == "P":
        image.putpalette([0, 0, 0, *range(1, 200)])
    image.save(tmp_path / "mask.png")
    path = rows(tmp_path, {"mask": "mask.png"})
    answer = {"form": "mask", "field": "mask", "written": "image"}
    assert message in problems(described(path, answer=answer))


def test_a_jpeg_is_no_mask(tmp_path):
    Image.fromarray(disc().astype(np.uint8) * 255).save(tmp_path / "mask.jpg")
    path = rows(tmp_path, {"mask": "mask.jpg"})
    answer = {"form": "mask", "field": "mask", "written": "image"}
    assert "JPEG" in problems(described(path, answer=answer))


POLYGONS = {
    "fractions": ([0.1, 0.1, 0.5, 0.1, 0.5, 0.6], "fractions"),
    "of a larger image": ([10, 10, 120, 10, 120, 90, 10, 90], "3 of 4"),
    "in a corner": ([0.2, 40.0, 0.3, 40.0, 0.3, 40.1], "cover a pixel"),
    "right": ([10, 10, 30, 10, 30, 40, 66, 20], ""),
}


@pytest.mark.parametrize("name", POLYGONS)
def test_polygons_of_another_unit_or_image_are_refused(name, tmp_path):
    polygon, message = POLYGONS[name]
    path = rows(tmp_path, {"mask": [polygon]})
    answer = {"form": "mask", "field": "mask", "written": "coco"}
    listed = problems(described(path, answer=answer))
    assert message in listed if message else not listed


def turned_picture(root):
    tag = Image.Exif()
    tag[0x0112] = 6
    Image.new("RGB", (WIDTH, HEIGHT), "red").save(root / "i.jpg", exif=tag)  # shown as 48 × 64


@pytest.mark.parametrize(
    ("polygon", "is_refused"),
    [
        ([20, 10, 30, 8, 40, 10, 40, 30, 30, 32, 54, 20], True),  # one of six corners is outside
        ([10, 10, 30, 10, 30, 60, 10, 60], False),
        ([10, 10, 30, 10, 30, 40, 10, 40], False),
    ],
)
def test_polygons_of_the_unturned_image_are_refused_or_noted(polygon, is_refused, tmp_path):
    path = rows(tmp_path, {"image": "i.jpg", "mask": [polygon]})
    turned_picture(tmp_path)
    task = described(path, answer={"form": "mask", "field": "mask", "written": "coco"})
    assert ("only unturned, 64 × 48" in problems(task)) == is_refused
    if not is_refused:
        (note,) = survey(task, select(task, None)).odd
        assert "orientation tag" in note


def test_corners_may_be_pairs(tmp_path):
    pairs = [[10, 10], [30, 10], [30, 40], [10, 40]]
    path = rows(tmp_path, {"mask": pairs}, {"mask": [pairs]}, {"mask": [[*chain(*pairs)]]})
    described_as = draft(path)
    assert described_as.answer == {"form": "mask", "field": "mask", "written": "coco"}
    assert "points" in described_as.doubts["answer.form"]
    areas = {
        sample.target.answer.masks[0].area
        for sample in described(path, answer=described_as.answer).samples()
    }
    assert areas == {20 * 30}


def test_polygons_may_be_listed_for_each_object(tmp_path):
    first, second = [[10, 10], [30, 10], [30, 40], [10, 40]], [[40, 10], [50, 10], [50, 20]]
    third = [[2, 30], [8, 30], [8, 44], [2, 44]]
    path = rows(
        tmp_path,
        {"Polygons": [[first, third], [second]]},  # as PhraseCut has them
        {"Polygons": [[[*chain(*first)], [*chain(*third)]], [[*chain(*second)]]]},
        {"Polygons": [first, third, second]},
    )
    answer = draft(path).answer
    assert answer == {"form": "mask", "field": "Polygons", "written": "coco"}
    masks = {sample.target.answer.masks[0] for sample in described(path, answer=answer).samples()}
    (mask,) = masks
    assert mask.area > 20 * 30 + 6 * 14
    path = rows(tmp_path, {"Polygons": [[first], []]})
    assert problems(described(path, answer=answer))


@pytest.mark.parametrize("is_text", [False, True])
def test_run_lengths_along_the_rows_are_refused(is_text, tmp_path):
    turned = Rle.from_array(disc().reshape(WIDTH, HEIGHT).T)
    mask = {"size": [HEIGHT, WIDTH], "counts": turned.counts if is_text else turned.runs.tolist()}
    answer = {"form": "mask", "field": "mask", "written": "coco"}
    task = described(rows(tmp_path, {"mask": mask}), answer=answer)
    with pytest.raises(DataError, match=r"along the rows.*by_rows=True"):
        survey(task, select(task, None))
    right = {"mask": Rle.from_json(mask, by_rows=True).to_json()}
    task = described(rows(tmp_path, right), answer=answer)
    assert survey(task, select(task, None)).odd == ()
    (sample,) = task.samples()
    assert (sample.target.answer.masks[0].to_array() == disc()).all()


COCO = {
    "right": ([10, 10, 20, 20], [10, 10, 30, 10, 30, 30, 10, 30], (WIDTH, HEIGHT), ""),
    "corners": ([10, 10, 30, 30], [10, 10, 30, 10, 30, 30, 10, 30], (WIDTH, HEIGHT), "polygons as"),
    "y first": ([5, 30, 10, 15], [30, 5, 45, 5, 45, 15, 30, 15], (WIDTH, HEIGHT), "with y first"),
    "turned": ([10, 10, 20, 20], [10, 10, 30, 10, 30, 30, 10, 30], (HEIGHT, WIDTH), "48 × 64"),
    "amodal": ([5, 5, 50, 40], [10, 10, 30, 10, 30, 30, 10, 30], (WIDTH, HEIGHT), ""),
}


@pytest.mark.parametrize("name", COCO)
def test_coco_that_contradicts_its_image_or_itself_is_refused(name, tmp_path):
    box, polygon, (width, height), message = COCO[name]
    picture(tmp_path)
    plain = {
        "images": [{"id": 1, "file_name": "i.png", "width": width, "height": height}],
        "categories": [{"id": 1, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "segmentation": [polygon]}
        ],
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    question = {"id": "id", "text": "category"}
    answer = {"form": "boxes", "field": "boxes", "written": "xyxy"}
    listed = problems(described(path, layout="coco", question=question, answer=answer))
    assert message in listed if message else not listed


@pytest.mark.parametrize(
    ("written", "answer", "fitting"),
    [("letter", "blue", "option"), ("place", 2, "place_from_1"), ("option", "A", "letter")],
)
def test_an_answer_in_another_convention_names_it(written, answer, fitting, tmp_path):
    path = rows(tmp_path, {"options": ["red", "blue"], "answer": answer})
    question = {"text": "question", "options": "options"}
    form = {"form": "choice", "field": "answer"}
    listed = problems(described(path, question=question, answer={**form, "written": written}))
    assert f'written = "{fitting}"' in listed
    assert not problems(described(path, question=question, answer={**form, "written": fitting}))


def test_numbers_are_texts_of_options(tmp_path):
    path = rows(tmp_path, {"options": [2, 3], "answer": 3}, {"options": ["3", "2"], "answer": 3})
    question = {"text": "question", "options": "options"}
    answer = {"form": "choice", "field": "answer", "written": "option"}
    letters = [
        s.target.answer.choice for s in described(path, question=question, answer=answer).samples()
    ]
    assert letters == ["B", "A"]


OPTIONS = {
    "equal": ({"options": ["red", "blue", "red"]}, "'red' 2 times"),
    "differ": ({"options": ["red", "blue", "Red"]}, ""),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_equal_options_are_refused_and_nearly_equal_ones_noted(name, tmp_path):
    record, message = OPTIONS[name]
    path = rows(tmp_path, {**record, "answer": "A"})
    question = {"text": "question", "options": "options"}
    answer = {"form": "choice", "field": "answer", "written": "letter"}
    task = described(path, question=question, answer=answer)
    listed = problems(task)
    if message:
        assert message in listed
        return
    assert not listed
    assert survey(task, select(task, None)).odd == ("1 sample with options that are equal",)


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (("1", "2", "nan", ""), ("1", "2")),
        (("1", "2", "None", ""), ("1", "2", "None")),
        (("1", "nan", "3", ""), None),
    ],
)
def test_cells_without_an_option(cells, read, tmp_path):
    path = rows(tmp_path, {**dict(zip("ABCD", cells, strict=True)), "answer": "A"})
    question = {"text": "question", "options": list("ABCD")}
    answer = {"form": "choice", "field": "answer", "written": "letter"}
    task = described(path, question=question, answer=answer)
    if read is None:
        assert "none between them empty" in problems(task)
        return
    (sample,) = task.samples()
    assert sample.query.options == read
    assert bool(survey(task, select(task, None)).odd) == ("None" in read)


@pytest.mark.parametrize(("text", "is_noted"), [("N/A", True), ("none", False), ("red", False)])
def test_right_texts_that_stand_for_no_value_are_noted(text, is_noted, tmp_path):
    task = described(rows(tmp_path, {"answer": text}), answer={"form": "text", "field": "answer"})
    assert bool(survey(task, select(task, None)).odd) == is_noted


RECORDS = [
    {"image": "i.png", "question": "How many a?", "answer": 3},
    {"image": "i.png", "question": "How many b?", "answer": 4},
]
OBJECTS = {
    "by id": {"x": RECORDS[0], "y": RECORDS[1]},
    "of columns": {
        name: {str(n): record[name] for n, record in enumerate(RECORDS)} for name in RECORDS[0]
    },
    "by id, with ids": {"x": {"id": 1, **RECORDS[0]}, "y": {"id": 2, **RECORDS[1]}},
    "with a list": {"version": 1, "data": RECORDS},
    "with a list of texts": {"names": ["a", "b"], "data": RECORDS},
    "with lists of texts and of records": {"names": ["a"], "a": RECORDS[:1], "b": RECORDS[1:]},
    "with lists by video": {"a": RECORDS[:1], "b": RECORDS[1:]},
    "of one question": RECORDS[0],
}
SHAPES = [
    {"label": "dog", "shape_type": "polygon", "points": [[10, 10], [30, 10], [30, 30], [10, 30]]},
    {"label": "cat", "shape_type": "rectangle", "points": [[30, 30], [10, 10]]},
    {"label": "dog", "shape_type": "rectangle", "points": [[40, 10], [50, 20]]},
]


def converted(path):
    """The records that the command in the refusal makes of a file."""
    with pytest.raises(DataError) as error:
        draft(path)
    command = str(error.value).split("`")[1]
    subprocess.run(command, shell=True, cwd=path.parent, check=True)
    return json.loads((path.parent / "NEW.json").read_text("utf-8"))


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_of_records_has_a_command(name, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(OBJECTS[name]), encoding="utf-8")
    records = converted(path)
    assert [{key: row[key] for key in RECORDS[0]} for row in records] == RECORDS[: len(records)]
    keys = {
        "by id, with ids": ["x", "y"],
        "with lists by video": ["a", "b"],
        "with lists of texts and of records": ["a", "b"],
    }
    assert [row["key"] for row in records if "key" in row] == keys.get(name, [])
    picture(tmp_path)
    assert CHECK not in draft(tmp_path / "NEW.json").toml("mine")


def test_keys_beside_a_list_are_named_as_left_out(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"image": "i.png", "qa": RECORDS}), encoding="utf-8")
    with pytest.raises(DataError, match="without 'image'"):
        draft(path)


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_a_list_without_records_stops_the_command(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"data": []}), encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        converted(path)


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_labelme_has_a_command(tmp_path):
    picture(tmp_path)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"imagePath": "x\\i.png", "shapes": SHAPES}), encoding="utf-8")
    converted(path)
    path = tmp_path / "NEW.json"
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    samples = list(table(tmp_path, file=path).samples())
    assert [sample.query.text for sample in samples] == ["dog", "cat"], "in the file's order"
    dogs, cat = (sample.target.answer.masks[0].to_array() for sample in samples)
    assert cat.sum() == 400 and (dogs & cat).sum() == 400
    assert dogs.sum() == 500, "both dogs are one mask"


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize(
    "shape", [{"label": "ignore_region"}, {"difficult": True}, {"flags": {"difficult": True}}]
)
def test_an_image_with_a_shape_of_labelme_to_ignore_is_refused(shape, tmp_path):
    picture(tmp_path)
    path = tmp_path / "a.json"
    shapes = [SHAPES[0], {**SHAPES[0], **shape}]
    path.write_text(json.dumps({"imagePath": "i.png", "shapes": shapes}), encoding="utf-8")
    (record,) = converted(path)
    assert (record["question"], len(record["mask"]), record["ignored"]) == ("dog", 1, 1)
    path = tmp_path / "NEW.json"
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    assert "where = { ignored = 0 }" in problems(table(tmp_path, file=path))


@pytest.mark.parametrize("field", ["iscrowd", "ignore", "difficult", "ignored"])
def test_objects_of_coco_to_ignore_are_refused_and_left_out_by_the_draft(field, tmp_path):
    picture(tmp_path)
    objects = [
        {"image_id": 1, "category_id": category, "bbox": [10, 10, 20, 20], field: bit}
        for category, bit in ((1, 0), (1, 1), (2, 0))
    ]
    plain = {
        "images": [{"id": 1, "file_name": "i.png"}],
        "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}],
        "annotations": objects,
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    question = {"id": "id", "text": "category"}
    for form, written in (("boxes", {"written": "xyxy"}), ("count", {})):
        answer = {"form": form, "field": form, **written}
        task = described(path, layout="coco", question=question, answer=answer)
        assert "where = { iscrowd = 0 }" in problems(task)
    drafted = draft(path)
    assert "1 of the first 2" in drafted.doubts["question.where"]
    path.with_suffix(".toml").write_text(drafted.toml("mine"), encoding="utf-8")
    (sample,) = table(tmp_path, file=path).samples()
    assert sample.query.text == "cat" and len(sample.target.answer.boxes) == 1


@pytest.mark.parametrize(
    ("category", "image"), [("ignored regions", {}), ("cat", {"not_exhaustive_category_ids": [1]})]
)
def test_images_of_coco_where_more_would_be_right_are_left_out(category, image, tmp_path):
    picture(tmp_path)
    plain = {
        "images": [
            {"id": 1, "file_name": "i.png", **image},
            {"id": 2, "file_name": "i.png"},
        ],
        "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": category}],
        "annotations": [
            {"image_id": number, "category_id": kind, "bbox": [10, 10, 20, 20]}
            for number, kind in ((1, 1), (1, 2), (2, 1))
        ],
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    asked = {(sample.id, sample.query.text) for sample in table(tmp_path, file=path).samples()}
    assert asked == {("2/1", "dog")} | ({("1/2", "cat")} if image else set())


def test_text_tables_of_excel_and_with_marks(tmp_path):
    picture(tmp_path)
    path = tmp_path / "mine.csv"
    path.write_text("sep=;\nimage;question;answer\ni.png;How many?;3\n", encoding="utf-8")
    assert draft(path).answer == {"form": "number", "field": "answer"}
    path = tmp_path / "mine.tsv"
    path.write_text('image\tquestion\tanswer\ni.png\t"Left" or right?\tx\n', encoding="utf-8")
    with pytest.raises(DataError, match="quotation marks") as error:
        draft(path)
    subprocess.run(str(error.value).split("`")[1], shell=True, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "NEW").read_text("utf-8"))["question"] == '"Left" or right?'


POLYGON_MASK = {"form": "mask", "field": "mask", "written": "coco"}


@pytest.mark.parametrize(
    ("field", "is_refused"),
    [
        ({"ignore_mask": [[0, 0, 9, 0, 9, 9]]}, True),
        ({"ignored_regions": "[[1, 2, 3, 4]]"}, True),
        ({"iscrowd": 1}, True),
        ({"Ignore": "ignore.png"}, True),
        ({"iscrowd": 0, "ignore_mask": None, "ignore": [], "ignored_regions": "[]"}, False),
        ({"iscrowd": [0, 0], "ignore": {"a": False, "b": [""]}, "void": "n"}, False),
        ({"iscrowd": [0, 1]}, True),
        ({"objects": {"iscrowd": [0, 1]}}, True),
        ({"objects": {"iscrowd": [0, 0], "crowd": "many people"}}, False),
        ({"crowd": "ignore: few people"}, False),
        ({"crowd": "1", "note": "ignore"}, True),
    ],
)
def test_what_is_to_be_ignored_is_refused(field, is_refused, tmp_path):
    path = rows(tmp_path, {"mask": [[10, 10, 30, 10, 30, 40]], "count": 2, **field})
    assert ("ignore" in problems(described(path, answer=POLYGON_MASK))) == is_refused
    counted = {"form": "count", "field": "count"}
    assert ("ignore" in problems(described(path, answer=counted))) == is_refused
    text = {"form": "text", "field": "question"}
    assert not problems(described(path, answer=text))


def test_what_is_to_be_ignored_is_read_of_parquet_and_may_be_left_out(tmp_path):
    path = rows(tmp_path, {})
    listed = [
        {"image": "i.png", "question": "Which?", "mask": "[[9, 9, 30, 9, 30, 40]]", "iscrowd": bit}
        for bit in (0, 1)
    ]
    path = path.with_suffix(".parquet")
    parquet.write_table(pa.Table.from_pylist(listed), path)
    assert "'iscrowd'" in problems(described(path, answer=POLYGON_MASK))
    text = 'name = "mine"\nmedia.images = "image"\nquestion = {text = "question", where = '
    text += '{iscrowd = 0}}\nanswer = {form = "mask", field = "mask", written = "coco"}\n'
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    task = table(tmp_path, file=path)
    assert not problems(task) and len(list(task.samples())) == 1
    path.with_suffix(".toml").write_text(
        text.replace("where = {iscrowd = 0}", 'categories = {crowd = "iscrowd"}'), encoding="utf-8"
    )
    assert not problems(table(tmp_path, file=path))


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [
        ({"question": "What is <mask><pos>?"}, True),
        ({"question": "Is <region1> left of <region2>?", "options": ["yes", "no"]}, True),
        ({"question": "What happens from <a> to <b>?", "times": [3, 5.5]}, True),
        ({"question": "Where? Write <box>.", "bbox": [1, 2, 3, 4]}, True),
        ({"question": "Where? Write <box>."}, False),
        ({"question": "What happens from <a> to <b>?", "times": [3, 5, 7]}, False),
        ({"question": "<image>\nIs <b>this</b> red?<br>", "times": [3]}, False),
        ({"question": "Which?", "answer": "<mask>"}, True),
        ({"question": "Which of <image_1>, <Frame2> and <img3>?", "times": [3, 5, 7]}, False),
        ({"question": "From <a> to <b>?", "size": [3, 5], "image_size": [3, 5]}, False),
        ({"question": "From <a> to <b>?", "options": [3, 5], "times": [3]}, False),
        ({"question": "<p>Write <think> and <answer>", "times": [3, 5, 7]}, False),
        ({"question": "What <time> is in List<int>?", "times": [3]}, False),
        ({"question": "When is <t1>?", "times": [3]}, True),
        ({"question": "What does List<T> of <object> hold?", "bbox": [1, 2, 3, 4]}, True),
        ({"question": "The <mask> sat."}, False),
        ({"question": "The <mask> sat.", "box": [1, 2, 3, 4]}, True),
        ({"question": "The <mask> sat.", "cat_mask": "m.png"}, True),
        ({"question": "Press <Enter> now", "tags": ["x"]}, False),
    ],
)
def test_marks_of_values_in_other_fields_are_refused(fields, is_refused, tmp_path):
    path = rows(tmp_path, {"answer": "red", **fields})
    question = {"text": "question"} | ({"options": "options"} if "options" in fields else {})
    task = described(path, question=question, answer={"form": "text", "field": "answer"})
    assert ("marks for other values" in problems(task)) == is_refused


@pytest.mark.parametrize("fields", [{}, {"boxes": [[1, 2, 3, 4]]}, {"masks": "m.png"}])
def test_the_values_of_marks_are_looked_for_in_parquet(fields, tmp_path):
    row = {"image": "i.png", "question": "The <mask> sat.", "answer": "cat", **fields}
    path = rows(tmp_path).with_suffix(".parquet")
    parquet.write_table(pa.Table.from_pylist([row]), path)
    task = described(path, answer={"form": "text", "field": "answer"})
    assert ("marks for other values" in problems(task)) == bool(fields)


@pytest.mark.parametrize("text", ["Write <bbox>.", "Give <box>(x1,y1),(x2,y2)", "Mark <mask>."])
def test_a_form_of_response_is_no_mark_of_the_ground_truth(text, tmp_path):
    box = {"form": "boxes", "field": "bbox", "written": "xyxy"}
    path = rows(tmp_path, {"question": text, "bbox": [1, 2, 30, 40]})
    assert not problems(described(path, answer=box))
    path = rows(tmp_path, {"question": text, "mask": [[10, 10, 30, 10, 30, 40]]})
    assert not problems(described(path, answer=POLYGON_MASK))
    turns = [{"from": "human", "value": text}, {"from": "gpt", "value": "Here."}]
    path = rows(tmp_path, {"conversations": turns, "bbox": [1, 2, 30, 40]})
    assert not problems(described(path, layout="llava", answer=box))


def test_images_by_their_mark_are_no_values_of_marks(tmp_path):
    turns = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "red"}]
    path = rows(tmp_path, {"conversations": turns, "media": {"<image>": "i.png"}})
    task = described(path, layout="llava", answer={"form": "text", "field": "answer"})
    assert not problems(task)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"angle": 30}, "'angle'"),
        ({"rotation": 0.0}, ""),
        ({"bbox_mode": "XYWH_ABS"}, "'bbox_mode'"),
        ({"bbox_mode": "xyxy"}, ""),
        ({"width": 2 * WIDTH, "height": 2 * HEIGHT}, "'width' and 'height'"),
        (
            {"image_width": str(WIDTH), "image_height": str(2 * HEIGHT)},
            "'image_width' and 'image_height'",
        ),
        ({"width": 15, "height": 15}, ""),
        ({"img_size": [2 * WIDTH, 2 * HEIGHT]}, "'img_size'"),
        ({"image_shape": [HEIGHT, WIDTH, 3]}, ""),
        ({"image_size": {"width": WIDTH, "height": 2 * HEIGHT}}, "'image_size'"),
        ({"imageWidth": WIDTH, "imageHeight": 2 * HEIGHT}, "'imageWidth' and 'imageHeight'"),
        ({"rotation": 90}, ""),
        ({"rotation": 30}, "'rotation'"),
        ({"theta": 90}, "'theta'"),
        ({"angle": True}, ""),
        ({"bbox_mode": "xywh or xyxy"}, ""),
        ({"width": WIDTH, "height": HEIGHT}, ""),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_fields_that_contradict_a_box_are_refused(suffix, fields, message, tmp_path):
    path = rows(tmp_path, {"bbox": [5, 5, 20, 20], **fields})
    if suffix == ".parquet":
        listed = [json.loads(line) for line in path.read_text().splitlines()]
        path = path.with_suffix(suffix)
        parquet.write_table(pa.Table.from_pylist(listed), path)
    answer = {"form": "boxes", "field": "bbox", "written": "xyxy"}
    listed = problems(described(path, answer=answer))
    assert message in listed if message else not listed
    text = {"form": "text", "field": "question"}
    assert not problems(described(path, answer=text))


def test_a_width_of_the_box_is_no_size_of_its_image(tmp_path):
    path = rows(tmp_path, {"x": 5, "y": 5, "width": 20, "height": 10})
    field = "[{x}, {y}, {width}, {height}]"
    answer = {"form": "boxes", "field": field, "written": "xywh"}
    assert not problems(described(path, answer=answer))
    path = rows(tmp_path, {"x": 5, "y": 5, "width": 20, "height": 10, "rotation": 90})
    assert "'rotation'" in problems(described(path, answer=answer))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_name_with_braces_is_a_field_if_the_table_has_it(suffix, tmp_path):
    path = rows(tmp_path, {"text {en}": "Red?", "a{b}": "yes"})
    if suffix == ".parquet":
        listed = [json.loads(line) for line in path.read_text().splitlines()]
        path = path.with_suffix(suffix)
        parquet.write_table(pa.Table.from_pylist(listed), path)
    answer = {"form": "text", "field": "a{b}"}
    (sample,) = described(path, question={"text": "text {en}"}, answer=answer).samples()
    assert (sample.query.text, sample.target.answer.text) == ("Red?", "yes")


def test_the_letter_of_a_choice_may_be_a_pattern(tmp_path):
    path = rows(tmp_path, {"options": ["red", "blue"], "letter": "B"})
    question = {"text": "question", "options": "options"}
    answer = {"form": "choice", "field": "{letter}", "written": "letter"}
    (sample,) = described(path, question=question, answer=answer).samples()
    assert sample.target.answer.choice == "B"


def test_fields_of_an_interval_with_a_dot_are_refused(tmp_path):
    path = rows(tmp_path, {"t.s": 1, "t.e": 2})
    answer = {"form": "interval", "field": ["t.s", "t.e"], "written": "seconds"}
    with pytest.raises(DataError, match=r"found 't\.s'"):
        described(path, answer=answer)
