"""Commands that make tables of other programs' files: what they do not know ends with an error.

Each file is as its program writes it, in a variant that the command must keep whole or refuse.
"""

import json
import re
import shutil
import subprocess

import pytest
from PIL import Image

from harness.errors import DataError
from harness.tasks.table.annotation_tools import supervisely, via2
from harness.tasks.table.draft import draft
from harness.tasks.table.joined import joined
from harness.tasks.table.task import table

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")


def said(path):
    """Return what a table of another form is refused with, or what its draft asks."""
    with pytest.raises(DataError) as error:
        draft(path)
    return str(error.value)


def run(folder, text):
    """Run the first command of a message; return the records that it writes, and its stderr."""
    typed = re.search(r"`(.*?)`", text, re.DOTALL)[1]
    done = subprocess.run(typed, shell=True, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        assert "compile error" not in done.stderr
        return None, done.stderr
    (path,) = folder.glob("NEW*")
    written = path.read_text()
    try:
        records = json.loads(written)
    except ValueError:
        return [json.loads(line) for line in written.splitlines()], done.stderr
    return (records if isinstance(records, list) else [records]), done.stderr


def write(folder, files):
    """Write files by their names; return the path of the first."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / next(iter(files))


def labelme(image, *labels):
    shapes = [
        {"label": label, "points": [[1, 1], [9, 9]], "shape_type": "rectangle"} for label in labels
    ]
    size = {"imageWidth": 64, "imageHeight": 48}
    return {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": image, **size}


def datumaro(*items):
    labels = {"label": {"labels": [{"name": name, "parent": ""} for name in ("ant", "bee")]}}
    return {"info": {}, "categories": labels, "items": list(items)}


def item(image, *boxes):
    annotations = [
        {"id": 0, "type": "bbox", "attributes": about, "label_id": label, "bbox": [1, 2, 8, 8]}
        for label, about in boxes
    ]
    media = {"path": image, "size": [48, 64]}
    return {"id": image.removesuffix(".png"), "annotations": annotations, "image": media}


def voc(image, *names):
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    objects = "".join(f"<object><name>{name}</name>{box}</object>" for name in names)
    return f"<annotation><filename>{image}</filename>{objects}</annotation>"


def cvat(*images):
    box = '<box label="cat" xtl="1" ytl="2" xbr="9" ybr="9"></box>'
    entries = [
        f'<image id="0" name="{name}" subset="Train" task_id="{task}" width="64" height="48">{box}'
        "</image>"
        for task, name in enumerate(images)
    ]
    return f"<annotations><version>1.1</version>{''.join(entries)}</annotations>"


def via(*files):
    shape = {"name": "rect", "x": 1, "y": 2, "width": 8, "height": 8}
    about = {"name": "cat", "difficult": ""}
    region = {"shape_attributes": shape, "region_attributes": about}
    return {
        f"{name}{size}": {
            "filename": name,
            "size": size,
            "regions": [region],
            "file_attributes": {},
        }
        for name, size in files
    }


def studio(*rows):
    side = {"x": 10, "y": 10, "width": 20, "height": 20, "rotation": 0, "rectanglelabels": ["cat"]}
    shape = {**side, "original_width": 64, "original_height": 48}
    return [
        {"image": image, "id": 1, "label": [shape], "annotator": n, "annotation_id": n}
        for n, image in enumerate(rows)
    ]


def swift(**objects):
    given = {"ref": ["cat"], "bbox": [[1, 2, 9, 9]], **objects}
    turns = [
        {"role": "user", "content": "<image>Find <ref-object>"},
        {"role": "assistant", "content": "<bbox>"},
    ]
    return json.dumps({"id": "q7", "messages": turns, "images": ["a.png"], "objects": given})


def tacos(*moments):
    names = [f"moment {number}" for number, _ in enumerate(moments)]
    about = {"fps": 10, "num_frames": 300}
    return {"v.avi": {"timestamps": [*moments], "sentences": names, **about}}


CAPTIONS = {
    "images": [{"id": 9, "file_name": "9.png"}, {"id": 3, "file_name": "3.png"}],
    "annotations": [
        {"id": 1, "image_id": 9, "caption": "a"},
        {"id": 2, "image_id": 3, "caption": "b"},
        {"id": 3, "image_id": 9, "caption": "c"},
    ],
}
SEGMENTS = [
    {"segment": [0, 2], "label": "run"},
    {"segment": [5, 6], "label": "jump"},
    {"segment": [8, 9], "label": "run"},
]
V_STAR = {"target_object": ["x"], "bbox": [[1, 2, 3, 4]], "question": "?", "options": ["p", "q"]}
RECORD = {"image": "a.png", "question": "?", "answer": "x"}
KEPT = {
    "frames of TACoS": ({"a.json": tacos([15, 70], [85, 200])}, "answer", [[1.5, 7], [8.5, 20]]),
    "keys as ids": ({"a.json": {"10": RECORD, "2": RECORD}}, "id", ["10", "2"]),
    "ids beside keys": (
        {"a.json": {"k": {**RECORD, "id": 3}, "j": {**RECORD, "id": 1}}},
        "id",
        [3, 1],
    ),
    "keys of lists": (
        {"a.json": {"val": [RECORD], "test": [], "dev": [RECORD]}},
        "key",
        ["val", "dev"],
    ),
    "labels of labelme": (
        {"a.json": labelme("../i/a.png", "zebra", "ant", "zebra"), "b.json": labelme("b.png")},
        "question",
        ["zebra", "ant"],
    ),
    "labels of Datumaro": (
        {"a.json": datumaro(item("a.png", (1, {}), (0, {"rotation": 0.0}), (1, {})))},
        "question",
        ["bee", "ant"],
    ),
    "images of captions": ({"a.json": CAPTIONS}, "image", ["9.png", "3.png"]),
    "labels of moments": (
        {"a.json": {"version": "1.3", "database": {"v": {"annotations": SEGMENTS}}}},
        "relevant_windows",
        [[[0, 2], [8, 9]], [[5, 6]]],
    ),
    "ids of ms-swift": ({"a.jsonl": swift()}, "id", ["q7"]),
    "ms-swift's pixels": ({"a.jsonl": swift(bbox_type="real")}, "bbox_mode", ["XYXY_ABS"]),
    "a list of ms-swift": (
        {"a.json": f"[{swift(bbox_type='norm1')}]"},
        "bbox_mode",
        ["XYXY_REL"],
    ),
    "V*Bench": ({"a.json": V_STAR, "b.json": V_STAR}, "answer", ["p", "p"]),
    "VOC without an object": (
        {"a.xml": voc("a.png", "cat"), "b.xml": voc("b.png")},
        "image",
        ["a.png"],
    ),
    "VIA": ({"a.json": via(("a.png", 5), ("b.png", 5))}, "image", ["a.png", "b.png"]),
}
REFUSED = {
    "seconds in TACoS' form": ({"a.json": tacos([1.5, 7], [8.5, 20])}, "may be seconds"),
    "ids of some records": ({"a.json": {"k": {**RECORD, "id": 3}, "3": RECORD}}, "an id"),
    "records' own keys": ({"a.json": {"k": {**RECORD, "id": 3, "key": "x"}}}, "key of its own"),
    "own keys in lists": (
        {"a.json": {"val": [{**RECORD, "key": "x"}], "dev": [RECORD]}},
        "key of its own",
    ),
    "labelme's images of one name": (
        {"a.json": labelme("x/i.png", "cat"), "b.json": labelme("y/i.png", "cat")},
        "one name",
    ),
    "Datumaro's images of one name": (
        {"a.json": datumaro(item("x/i.png", (0, {})), item("y/i.png", (0, {})))},
        "one name",
    ),
    "CVAT's rotated box": (
        {"a.json": datumaro(item("i.png", (0, {"rotation": 30.5})))},
        "rotation",
    ),
    "a label below the list": ({"a.json": datumaro(item("i.png", (-1, {})))}, "label of the list"),
    "no label": ({"a.json": datumaro(item("i.png", (None, {})))}, "label of the list"),
    "V*Bench with an answer": ({"a.json": {**V_STAR, "answer": "q"}}, "V*Bench"),
    "thousandths of ms-swift": ({"a.jsonl": swift(bbox_type="norm1000")}, "norm1000"),
    "VOC's old file name": ({"a.xml": voc("a.png", "cat"), "b.xml": voc("a.png", "dog")}, "a.png"),
    "CVAT's tasks": ({"a.xml": cvat("frame_000000.png", "frame_000000.png")}, "frame_000000"),
    "two files of CVAT": ({"a.xml": cvat("i.png"), "b.xml": cvat("i.png")}, "i.png"),
    "VIA's images of one name": ({"a.json": via(("i.png", 5), ("i.png", 6))}, "i.png"),
    "two annotators of Label Studio": (
        {"a.json": studio("/data/upload/1/i.png", "/data/upload/1/i.png")},
        "one annotation",
    ),
    "a class below 0": (
        {"a.txt": "-1 0.5 0.5 0.5 0.5\n", "b.txt": "0 0.5 0.5 0.5 0.5\n", "classes.txt": "cat\n"},
        "class",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_order_and_ids_are_those_of_the_file(name, tmp_path):
    files, field, right = KEPT[name]
    path = write(tmp_path, files)
    records, _ = run(tmp_path, said(path))
    assert [record[field] for record in records] == right


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_command_does_not_know_ends_with_an_error(name, tmp_path):
    files, words = REFUSED[name]
    path = write(tmp_path, files)
    if name == "a class below 0":
        path = tmp_path / "b.txt"
    text = said(path)
    records, error = run(tmp_path, text) if "`" in text else (None, text)
    assert records is None and words in error


def test_files_without_an_object_are_counted(tmp_path):
    path = write(tmp_path, {"a.xml": voc("a.png", "cat"), "b.xml": voc("b.png")})
    assert "1 file without an object left out" in run(tmp_path, said(path))[1]


DESCRIPTION = """name = "mine"
[media]
folder = "."
images = "image"
[question]
text = "question"
id = "id"
[answer]
field = "{field}"
form = "{form}"
"""


def refusal(folder, records, form, field="answer"):
    """Return what the first record of a described table is refused with."""
    path = write(folder, {"a.json": records})
    path.with_suffix(".toml").write_text(DESCRIPTION.format(form=form, field=field))
    Image.new("RGB", (64, 48)).save(folder / "a.png")
    with pytest.raises(DataError) as error:
        list(table(folder, file=path).samples())
    return str(error.value)


def asked(answer, **more):
    return {"id": 1, "image": "a.png", "question": "how many?", "answer": answer, **more}


@pytest.mark.parametrize(
    ("records", "field", "right"),
    [
        ([asked(["p", "q"]), asked([])], "answer", [2, 0]),
        ([asked({"seen": ["p", "q", "r"]})], "answer.seen", [3]),
        ([asked(["p", "q"]), asked("none")], "answer", "not a list"),
        ([asked(["p", "q"]), asked(None)], "answer", "not a list"),
        ([asked(["p", "q"], count=7)], "answer", "a count beside the list"),
    ],
)
def test_a_list_is_counted_and_nothing_else(records, field, right, tmp_path):
    rows, error = run(tmp_path, refusal(tmp_path, records, "count", field))
    assert right in error if rows is None else [record["count"] for record in rows] == right


@pytest.mark.parametrize(
    ("texts", "answer", "right"),
    [
        (["p?", "q?"], ["x", "y"], "an answer for each text"),
        (["p?", "q?"], "x", ["x", "x"]),
        (["p?"], ["x"], [["x"]]),
        (["p?", "q?"], ["x", "y", "z"], [["x", "y", "z"]] * 2),
    ],
)
def test_texts_of_a_record_share_its_answer(texts, answer, right, tmp_path):
    records = [{**asked(answer), "question": texts}]
    rows, error = run(tmp_path, refusal(tmp_path, records, "text"))
    assert right in error if rows is None else [record["answer"] for record in rows] == right


def test_a_record_without_a_text_stops_the_command(tmp_path):
    records = [{**asked("x"), "question": texts} for texts in (["p?"], [])]
    rows, error = run(tmp_path, refusal(tmp_path, records, "text"))
    assert rows is None and "without a text" in error


def test_answers_that_are_left_out_or_several_are_counted(tmp_path, capsys):
    files = {
        "questions.json": [{"id": n, "question": "?"} for n in (1, 2)],
        "answers.json": [
            {"question_id": n, "answer": text}
            for text, n in {"a": 2, "b": 1, "c": 1, "d": 5}.items()
        ],
    }
    questions = write(tmp_path, files)
    rows = list(joined(str(questions), str(tmp_path / "answers.json")))
    assert [(row["id"], row["answer"]) for row in rows] == [(1, ["b", "c"]), (2, "a")]
    said = capsys.readouterr().err
    assert "1 answer to no question" in said and "1 question with answers in several" in said


@pytest.mark.parametrize(
    ("about", "n_left_out"), [({"difficult": "yes"}, 1), ({"difficult": "no"}, 0)]
)
def test_regions_of_via_in_which_nothing_counts_are_counted(about, n_left_out, tmp_path):
    plain = via(("a.png", 5))
    (entry,) = plain.values()
    (region,) = entry["regions"]
    attributes = {**region["region_attributes"], **about}
    entry["regions"] = [region, {**region, "region_attributes": attributes}]
    records = list(via2(str(write(tmp_path, {"a.json": plain})), "name"))
    assert [record.get("ignored", 0) for record in records] == [n_left_out]
    assert [len(record["boxes"]) for record in records] == [2 - n_left_out]


@pytest.mark.parametrize(("tags", "n_left_out"), [([], 0), ([{"name": "difficult"}], 1)])
def test_tags_of_supervisely_in_which_nothing_counts_are_counted(tags, n_left_out, tmp_path):
    points = {"exterior": [[1, 2], [8, 9]], "interior": []}
    entry = {"geometryType": "rectangle", "classTitle": "cat", "points": points, "tags": []}
    plain = {"size": {"width": 64, "height": 48}, "objects": [entry, {**entry, "tags": tags}]}
    (record,) = supervisely([str(write(tmp_path, {"a.png.json": plain}))])
    assert (record.get("ignored", 0), len(record["boxes"])) == (n_left_out, 2 - n_left_out)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_gets_another_suffix_replaces_none(is_there, tmp_path):
    path = write(
        tmp_path, {"a.txt": json.dumps(RECORD) + "\n", **({"a.jsonl": "{}"} if is_there else {})}
    )
    typed = re.search(r"`(.*?)`", said(path))[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    right = {
        "a.txt": RECORD,
        **({"a.jsonl": {}, "NEW.jsonl": RECORD} if is_there else {"a.jsonl": RECORD}),
    }
    assert {file.name: json.loads(file.read_text()) for file in tmp_path.iterdir()} == right


def test_questions_without_an_answer_stay_in_their_list(tmp_path):
    asked = [{"question": "Is it red?", "answer": "yes"}, {"question": "Why?", "choices": ["a"]}]
    path = write(tmp_path, {"a.json": json.dumps([{"video": "v.mp4", "questions": asked}])})
    records, _ = run(tmp_path, draft(path).doubts["question.text"])
    assert [record["question"] for record in records] == ["Is it red?", "Why?"]
    assert all(record["video"] == "v.mp4" for record in records)


def test_lists_of_texts_and_of_boxes_are_not_all_with_all(tmp_path):
    Image.new("RGB", (64, 48)).save(tmp_path / "1.png")
    row = {"image": "1.png", "names": ["cat", "dog"], "boxes": [[1, 2, 9, 9], [20, 2, 30, 9]]}
    path = write(tmp_path, {"a.jsonl": json.dumps(row)})
    path.with_suffix(".toml").write_text(
        'name = "a"\n[media]\nimages = "image"\n[question]\ntext = "names"\n'
        '[answer]\nform = "boxes"\nfield = "boxes"\nwritten = "xyxy"\n'
    )
    with pytest.raises(DataError) as error:
        list(table(tmp_path, file=path).samples())
    records, stderr = run(tmp_path, str(error.value))
    assert records is None and "an answer for each text" in stderr
