"""Ground truth of a table is held to what predictions are held to, or named before it is scored."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.masks import Rle
from harness.run.batching import select
from harness.run.preflight import survey
from harness.tasks.table.draft import CHECK, draft
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
    "of a larger image": ([10, 10, 120, 10, 120, 90, 10, 90], "3 of 4 further out"),
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


RECORDS = [
    {"image": "i.png", "question": "How many a?", "answer": 3},
    {"image": "i.png", "question": "How many b?", "answer": 4},
]
OBJECTS = {
    "by id": {"x": RECORDS[0], "y": RECORDS[1]},
    "of columns": {
        name: {str(n): record[name] for n, record in enumerate(RECORDS)} for name in RECORDS[0]
    },
    "with a list": {"version": 1, "data": RECORDS},
}
SHAPES = [
    {"label": "dog", "shape_type": "polygon", "points": [[10, 10], [30, 10], [30, 30], [10, 30]]},
    {"label": "cat", "shape_type": "rectangle", "points": [[30, 30], [10, 10]]},
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
    assert [{key: row[key] for key in RECORDS[0]} for row in records] == RECORDS
    picture(tmp_path)
    assert CHECK not in draft(tmp_path / "NEW.json").toml("mine")


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_labelme_has_a_command(tmp_path):
    picture(tmp_path)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"imagePath": "x\\i.png", "shapes": SHAPES}), encoding="utf-8")
    converted(path)
    path = tmp_path / "NEW.json"
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    samples = list(table(tmp_path, file=path).samples())
    assert [sample.query.text for sample in samples] == ["dog", "cat"]
    first, second = (sample.target.answer.masks[0] for sample in samples)
    assert first == second and first.area == 400


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
