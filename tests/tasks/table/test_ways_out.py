"""What a draft prints for layouts of public data sets leads, as it stands, to right answers."""

import json
import re
import shutil
import subprocess

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness.cli.main import main
from harness.errors import DataError
from harness.tasks.table.draft import draft
from harness.tasks.table.joined import joined, merged
from harness.tasks.table.protocols import PROTOCOLS, yes_or_no
from harness.tasks.table.task import table
from harness.types import Answer, Box, Prediction

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
HERE = {"image": "i.png"}


def put(path, plain):
    """Write JSON, or lines of it, beside an image."""
    Image.new("RGB", (400, 300)).save(path.parent / "i.png")
    lines = "\n".join(map(json.dumps, plain)) if path.suffix == ".jsonl" else json.dumps(plain)
    path.write_text(lines, encoding="utf-8")
    return path


def said(path):
    """Return what the draft of a table asks, or why it is refused."""
    try:
        return str(draft(path).doubts)
    except DataError as error:
        return str(error)


def obeyed(path, text):
    """Type the first command of a text in the folder of a table; return the new table."""
    typed = re.search("`([^`]*> NEW[^`]*)`", text.replace("\\\\", "\\").replace("\\'", "'"))[1]
    subprocess.run(typed, shell=True, cwd=path.parent, check=True)
    (converted,) = path.parent.glob("NEW*")
    return converted.rename(path.parent / f"made{converted.suffix or '.jsonl'}")


def samples(path, **changes):
    """Return the samples of a table by its draft, in which lines are replaced."""
    text = draft(path).toml("mine")
    for before, after in changes.items():
        text = text.replace(before, after)
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    return list(table(path.parent, file=path).samples())


ASKED = {"img_id": 7, "date_added": 1, "active": True}
UNUSED = {"id": 0, "active": False}
TWO_FILES = {
    "RSVQA": (
        ("split_questions.json", "split_answers.json"),
        {"questions": [UNUSED, {**ASKED, "id": 4, "question": "Is there a road?"}]},
        {"answers": [UNUSED, {"id": 0, "question_id": 4, "answer": "yes", "active": True}]},
        ["yes"],
    ),
    "ActivityNet-QA": (
        ("test_q.json", "test_a.json"),
        [{**HERE, "question": f"What {n}?", "question_id": f"v_{n}"} for n in (1, 2)],
        [{"answer": text, "type": 3, "question_id": f"v_{n}"} for n, text in ((2, "b"), (1, "a"))],
        ["a", "b"],
    ),
    "several": (
        ("test_q.json", "test_a.json"),
        [{**HERE, "question": "What?", "question_id": 1}],
        [{"answer": text, "question_id": "1"} for text in ("a", "b")],
        [["a", "b"]],
    ),
}


@pytest.mark.parametrize("name", TWO_FILES)
def test_answers_in_a_second_file_are_joined(name, tmp_path):
    names, questions, answers, right = TWO_FILES[name]
    path, second = (tmp_path / name for name in names)
    put(path, questions)
    put(second, answers)
    converted = obeyed(path, said(path)).read_text().splitlines()
    assert [json.loads(line)["answer"] for line in converted] == right


@pytest.mark.parametrize("answers", [[{"question_id": 2, "answer": "a"}], [{"answer": "a"}], []])
def test_a_question_without_its_answer_is_refused(answers, tmp_path):
    path = put(tmp_path / "q.json", [{"question": "What?", "question_id": 1}])
    with pytest.raises(DataError, match="an id of each question"):
        list(joined(str(path), str(put(tmp_path / "a.json", answers))))


MCQ = {"question": "What?", "options": ["x", "y"]}
NESTED = {
    "HourVideo": (
        {
            "v1": {
                "video_metadata": {"video_uid": "v1"},
                "benchmark_dataset": [
                    {"qid": "a", "question": "What?", "correct_answer_label": label}
                    for label in "BA"
                ],
            }
        },
        [{"video_metadata": {"video_uid": "v1"}, "correct_answer_label": label} for label in "BA"],
    ),
    "Perception Test": (
        {
            "v1": {"metadata": {"video_id": "v1"}, "mc_question": [{**MCQ, "answer_id": 1}]},
            "v2": {"metadata": {"video_id": "v2"}, "mc_question": [{**MCQ, "answer_id": 0}]},
        },
        [
            {"metadata": {"video_id": "v1"}, "answer_id": 1, "key": "v1"},
            {"metadata": {"video_id": "v2"}, "answer_id": 0, "key": "v2"},
        ],
    ),
    "GQA": (
        {
            key: {
                "question": "What?",
                "answer": answer,
                "annotations": {"answer": {}, "question": {}},
            }
            for key, answer in (("9", "x"), ("10", "y"))
        },
        [{"id": "9", "answer": "x"}, {"id": "10", "answer": "y"}],
    ),
    "questions by video": (
        {"v1": {"0": {"q": "What?", "a": "x"}, "1": {"q": "Who?", "a": "y"}}},
        [
            {"key": "v1", "id": "v1/0", "question": "What?", "answer": "x"},
            {"key": "v1", "id": "v1/1", "question": "Who?", "answer": "y"},
        ],
    ),
    "DriveLM": (
        {
            "scene": {
                "key_frames": {
                    "frame": {
                        "QA": {
                            "perception": [{"Q": "What?", "A": "A car."}],
                            "planning": [{"Q": "Stop?", "A": "No."}],
                        },
                        "image_paths": {"FRONT": "f.jpg", "BACK": "b.jpg"},
                    }
                }
            }
        },
        [
            {"question": "What?", "answer": "A car.", "key_3": "frame", "key_5": "perception"},
            {"question": "Stop?", "answer": "No.", "key_3": "frame", "key_5": "planning"},
        ],
    ),
}


@needs_jq
@pytest.mark.parametrize("name", NESTED)
def test_questions_below_objects_become_records(name, tmp_path):
    plain, records = NESTED[name]
    path = put(tmp_path / "nested.json", plain)
    with pytest.raises(DataError) as error:
        draft(path)
    converted = map(json.loads, obeyed(path, str(error.value)).read_text().splitlines())
    for row, wanted in zip(converted, records, strict=True):
        assert wanted.items() <= row.items()


@needs_jq
@pytest.mark.parametrize(
    ("plain", "are_columns"),
    [
        ({"7": {"2": "home", "1": "three"}, "8": {"2": "house", "5": "sofa"}}, False),
        ({"7": {"0": {"x": 1}, "1": {"x": 2}}}, False),
        ({"image": {"0": {"path": "i.png"}, "1": None}, "n": {"0": 1, "1": 2}}, True),
    ],
)
def test_objects_by_number_are_columns_if_all_have_the_same_rows(plain, are_columns, tmp_path):
    path = put(tmp_path / "t.json", plain)
    rows = json.loads(obeyed(path, said(path)).read_text())
    assert (len(rows) == 2 and "image" in rows[0]) == are_columns
    assert ([row.get("id") for row in rows] == [*plain]) != are_columns


@needs_jq
def test_questions_of_text_alone_are_made_a_benchmark_with_a_blank_image(tmp_path):
    rows = [{"question": f"Capital of {land}?", "answer": "a city"} for land in ("Peru", "Cuba")]
    path = put(tmp_path / "t.jsonl", rows)
    converted = obeyed(path, said(path)).rename(tmp_path / "new.jsonl")
    Image.new("RGB", (8, 8)).save(tmp_path / "blank.png")
    description = draft(converted)
    assert not description.doubts
    converted.with_suffix(".toml").write_text(description.toml("new"), encoding="utf-8")
    assert len(list(table(tmp_path, file=converted).samples())) == 2
    path.with_suffix(".csv").write_text(
        "question,answer\nWhich city?,a\nWho?,b\n", encoding="utf-8"
    )
    assert "a blank one" in said(path.with_suffix(".csv"))
    unknown = [{**row, "scene": "a"} for row in rows]
    assert "blank" not in said(put(path, unknown)), "scene may name its image"


def test_images_of_several_fields_are_to_be_checked(tmp_path):
    rows = [{"front": "i.png", "back": f"{n}.png", "question": f"{n}?"} for n in range(2)]
    assert '["front", "back"]' in draft(put(tmp_path / "t.jsonl", rows)).doubts["media.images"]
    rows = [{**row, "back": row["front"]} for row in rows]
    assert "media.images" not in draft(put(tmp_path / "t.jsonl", rows)).doubts


@needs_jq
@pytest.mark.parametrize("cell", ["../data/{}.png", "/data/{}.png", ["../../data/{}.png"]])
def test_names_that_lead_out_of_the_folder_have_a_command(cell, tmp_path):
    cells = [json.loads(json.dumps(cell).replace("{}", str(n))) for n in range(2)]
    rows = [{"meta": {"image": name}, "question": f"{n}?"} for n, name in enumerate(cells)]
    path = put(tmp_path / "t.jsonl", rows)
    converted = [*map(json.loads, obeyed(path, said(path)).read_text().splitlines())]
    names = [row["meta"]["image"] for row in converted]
    assert names == [
        [f"data/{n}.png"] if isinstance(cell, list) else f"data/{n}.png" for n in (0, 1)
    ]


@pytest.mark.parametrize("image", [b"\x89PNG", {"bytes": b"\x89PNG", "path": None}, "i.png"])
def test_records_of_one_question_are_merged(image, tmp_path):
    rows = [("q1", "What?", "a"), ("q1", "What?", "b"), ("q2", "Who?", "c")]
    names = ("question_id", "question", "answer")
    rows = [{"image": image, **dict(zip(names, row, strict=True))} for row in rows]
    path = tmp_path / "val.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    converted = [*map(json.loads, obeyed(path, said(path)).read_text().splitlines())]
    assert [row["answer"] for row in converted] == [["a", "b"], ["c"]]
    assert {row["image"] for row in converted} == {image if isinstance(image, str) else "iVBORw=="}


def test_records_of_one_question_in_objects_are_merged(tmp_path):
    asked = [("What?", "a"), ("What?", "b"), ("Who?", None)]
    rows = [{"of": HERE, "qa": {"question": ask, "answer": text}} for ask, text in asked]
    path = put(tmp_path / "the rows.json", rows)
    path = obeyed(path, draft(path).doubts["answer.field"])
    converted = [*map(json.loads, path.read_text().splitlines())]
    assert [row["qa.answer"] for row in converted] == [["a", "b"], []]
    assert [row["qa.question"] for row in converted] == ["What?", "Who?"]


def test_records_that_differ_in_another_field_later_stay_apart(tmp_path):
    rows = [{**HERE, "question": "What?", "answer": text} for text in "xyz"]
    rows[-1]["start"] = 5
    path = put(tmp_path / "t.jsonl", rows)
    converted = [*merged(str(path), "answer", "question")]
    assert [(row["answer"], row.get("start")) for row in converted] == [
        (["x", "y"], None),
        (["z"], 5),
    ]


def test_boxes_in_texts_of_numbers_are_merged_as_numbers(tmp_path):
    path = tmp_path / "train.csv"
    rows = ["image_id,bbox", 'a,"[834.0, 222.0, 56.0, 36.0]"', 'a,"[226.0, 548.0, 130.0, 58.0]"']
    path.write_text("\n".join(rows) + "\n")
    (row,) = merged(str(path), "bbox", "image_id")
    assert row["bbox"] == [[834, 222, 56, 36], [226, 548, 130, 58]]


def test_a_list_of_images_in_bytes_is_merged(tmp_path):
    rows = [{"images": [{"bytes": b"\x89PNG"}], "question": "?", "answer": text} for text in "xy"]
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    (row,) = merged(str(path), "answer", "question")
    assert row["images"] == ["iVBORw=="] and row["answer"] == ["x", "y"]


@pytest.mark.parametrize("value", [1, None, True])
def test_an_object_with_one_value_is_no_list_of_records(value, tmp_path):
    with pytest.raises(DataError, match="a list of records"):
        draft(put(tmp_path / "t.json", {"version": value}))


@needs_jq
def test_an_option_a_is_not_the_answer(tmp_path):
    options = {"a": "red", "b": "blue"}
    rows = [{**HERE, "qa": [{"q": "Which?", **options, "answer": "b"}]}]
    path = put(tmp_path / "t.json", rows)
    (line,) = obeyed(path, said(path)).read_text().splitlines()
    assert json.loads(line) == {**HERE, "question": "Which?", **options, "answer": "b"}


@needs_jq
def test_an_answer_that_names_no_option_stops_the_command(tmp_path):
    options = [{"id": "k1", "text": "red"}, {"id": "k2", "text": "blue"}]
    row = {**HERE, "question": "Which?", "options": options, "answer": "k2"}
    path = put(tmp_path / "t.json", [row])
    doubt = draft(path).doubts["answer.written"]
    put(path, [row, {**row, "answer": "k3"}])
    with pytest.raises(subprocess.CalledProcessError):
        obeyed(path, doubt)
    put(path, [row])
    assert json.loads(obeyed(path, doubt).read_text())["answer"] == "blue"


ROWS = [
    {**HERE, "question": "Where?", "answer": "by the stairs", "extra_answers": ["in the hall"]},
    {**HERE, "question": "What?", "answer": "a lamp"},
]
SHAPE = {"name": "rect", "x": 1, "y": 1, "width": 5, "height": 5}
READ = {"shape_attributes": SHAPE, "region_attributes": {"text": "abc", "label": "word"}}
VIA = {"filename": "i.png", "size": 9, "regions": [READ], "file_attributes": {}}
LABELS = {"label": {"labels": [{"name": "a", "label": "a", "description": "an a"}]}}


@pytest.mark.parametrize(
    ("plain", "found"),
    [
        ({"i.png9": VIA}, "VIA 2"),
        ({"_via_settings": {}, "_via_img_metadata": {"i.png9": VIA}}, "VIA 2"),
        ({"info": {}, "categories": LABELS, "items": [{"id": "i"}]}, "categories, items"),
        ({"info": {"a": {"description": "d", "label": "x"}}, "data": ROWS}, "keys info, data"),
    ],
)
def test_texts_and_labels_in_known_files_are_no_questions(plain, found, tmp_path):
    assert found in said(put(tmp_path / "t.json", plain))


def test_a_mask_of_a_video_is_refused(tmp_path):
    row = {"question": "the dog", "filename": "v.mp4", "segmentation": "i.png"}
    path = put(tmp_path / "t.json", [row])
    with pytest.raises(DataError, match="images for answers of the form mask"):
        samples(path)


def test_a_record_may_lack_a_field_of_the_drafted_question(tmp_path):
    rows = [{**HERE, "question": "Q?", "choices": "(A) red (B) blue"}, {**HERE, "question": "Q?"}]
    described = draft(put(tmp_path / "t.json", [{**row, "answer": "A"} for row in rows]))
    assert "{choices}" in described.question["text"]


@pytest.mark.parametrize("odd", [{"a": "red"}, float("nan")])
def test_options_of_one_record_may_be_of_another_type(odd, tmp_path):
    options = [{"id": "k1", "text": "red"}, {"id": "k2", "text": "blue"}]
    row = {**HERE, "question": "Which?", "options": options, "answer": "k2"}
    described = draft(put(tmp_path / "t.json", [row, {**row, "options": odd}]))
    assert described.question["options"] == ["options.0.text", "options.1.text"]


def test_an_option_beyond_those_that_are_named_is_refused(tmp_path):
    rows = [{**HERE, "question": f"{n}?", "options": [*"xyz"][:n], "answer": "x"} for n in (2, 3)]
    path = put(tmp_path / "t.json", rows)
    two = 'options = ["options.0", "options.1"]'
    with pytest.raises(DataError, match="2 options at most"):
        samples(path, **{'options = "options"': two})
    three = 'options = ["options.0", "options.1", "options.2"]'
    second = samples(path, **{'options = "options"': three})[1]
    assert second.query.options == ("x", "y", "z")


def test_records_that_differ_in_another_field_are_several_questions(tmp_path):
    rows = [
        {**HERE, "question": "What?", "region": n, "answer": text} for n, text in enumerate("xy")
    ]
    assert "NEW" not in said(put(tmp_path / "t.jsonl", rows))
    del rows[0]["region"], rows[1]["region"]
    path = put(tmp_path / "t.jsonl", rows)
    assert [row["answer"] for row in merged(str(path), "answer", "question")] == [["x", "y"]]
    assert "NEW" in said(path)


def test_texts_of_a_second_field_are_right_too(tmp_path):
    path = put(tmp_path / "t.jsonl", ROWS)
    assert 'also = ["extra_answers"]' in draft(path).doubts["answer.field"]
    also = '[answer]\nalso = ["extra_answers"]'
    first, second = samples(path, **{"[answer]": also})
    assert first.target.references == ("in the hall",) and second.target.references == ()
    with pytest.raises(DataError, match="extra_answer'"):
        samples(path, **{"[answer]": also.replace("answers", "answer")})
    rows = [{**HERE, "question": "How many?", "count": 1, "also": 2}]
    with pytest.raises(DataError, match="also: expected the form 'text'"):
        samples(put(path, rows), **{"[answer]": '[answer]\nalso = ["also"]'})


@needs_jq
def test_boxes_in_texts_become_lists(tmp_path):
    texts = ["{<25><40><60><80>}", "5-10-26-38"]
    rows = [{**HERE, "question": f"ship {n}", "answer": text} for n, text in enumerate(texts)]
    path = put(tmp_path / "t.json", rows)
    converted = obeyed(path, said(path))
    assert "percent" in draft(converted).doubts["answer.coordinates"]
    both = samples(converted, **{'coordinates = "pixels"': 'coordinates = "percent"'})
    boxes = (Box(100, 120, 240, 240), Box(20, 30, 104, 114))
    assert [sample.target.answer for sample in both] == [Answer(boxes=(box,)) for box in boxes]


def test_pieces_of_a_video_are_no_seconds(tmp_path):
    rows = [{"video": "v.avi", "description": "a dog", "times": [[2, 2], [2, 3]]}]
    described = draft(put(tmp_path / "t.json", rows))
    assert described.question["text"] == "description" and described.answer["field"] == "times"
    assert "question.text" in described.doubts, "a description may be of the whole video"
    assert "pieces" in described.doubts["answer.form"]
    assert "`" not in described.doubts["answer.form"], "no record has one window"
    rows = [{**rows[0], "times": [[2, 3], [4, 6]]}, {**rows[0], "times": [[2, 3]]}]
    assert "pieces" not in draft(put(tmp_path / "t.json", rows)).doubts["answer.form"]


@needs_jq
def test_leading_slashes_of_images_in_objects_are_left_out(tmp_path):
    rows = [{"images": [{"path": f"/data/{n}.png"}], "question": f"{n}?"} for n in "ab"]
    path = put(tmp_path / "t.json", rows)
    converted = obeyed(path, draft(path).doubts["media.folder"]).read_text().splitlines()
    names = [[image["path"] for image in json.loads(line)["images"]] for line in converted]
    assert names == [["data/a.png"], ["data/b.png"]]


@needs_jq
def test_a_label_of_all_answers_is_left_out(tmp_path):
    rows = [{**HERE, "question": f"{n}?", "answer": f"A: {text}"} for n, text in enumerate("xy")]
    path = put(tmp_path / "t.jsonl", rows)
    converted = obeyed(path, said(path)).read_text().splitlines()
    assert [json.loads(line)["answer"] for line in converted] == ["x", "y"]
    rows[0]["answer"] = "B: z"
    assert "NEW" not in said(put(path, rows))


@pytest.mark.parametrize("response", ["<answer>cat</answer>", r"\boxed{cat}", "Cat"])
def test_marks_of_a_cell_are_left_out_of_a_response_too(response, tmp_path):
    rows = [{**HERE, "question": "What?", "answer": "<answer>cat</answer>"}]
    (sample,) = samples(put(tmp_path / "t.jsonl", rows))
    prediction = Prediction(
        query_id=sample.query.id, answer=Answer(text=response), responses=(response,)
    )
    scored = PROTOCOLS["text"]["text/exact"].score([sample], [prediction])
    assert scored["accuracy"].value == 1


@pytest.mark.parametrize(
    ("truth", "response", "is_right"),
    [
        *(("2008-09", "2008–09", 1), ("No 1204", "no 1,204", 1), ("$1,204,500", "$1204500", 1)),
        *(("it's", "it’s", 1), ("120", "1,20", 0), ("1204", "1.204", 0), ("x1204", "x1,204", 0)),
    ],
)
def test_dashes_quotes_and_thousands_are_typed_in_any_way(truth, response, is_right, tmp_path):
    (sample,) = samples(put(tmp_path / "t.jsonl", [{**HERE, "question": "Q?", "answer": truth}]))
    prediction = Prediction(query_id=sample.query.id, answer=Answer(text=response))
    scored = PROTOCOLS["text"]["text/exact"].score([sample], [prediction])
    assert scored["accuracy"].value == is_right


@pytest.mark.parametrize(
    ("response", "read"),
    [("True", "yes"), ("The answer is false.", "no"), ("Yes", "yes"), ("A car.", None)],
)
def test_true_and_false_are_read_where_they_are_asked_for(response, read):
    assert yes_or_no(response, "Two cars pass. True or False?") == read
    assert yes_or_no("True", "Do two cars pass?") is None


VOTT = {
    "tags": [{"name": "car"}],
    "assets": {
        "a": {
            "asset": {"name": "i.png", "size": {"width": 400, "height": 300}},
            "regions": [
                {"tags": tags, "boundingBox": {"height": 50, "width": 60, "left": n, "top": 20}}
                for n, tags in ((10, ["car"]), (90, ["car", "red"]))
            ],
        }
    },
}
OBJECT = {"h": 50, "w": 60, "y": 20}
GENOME = [
    {**HERE, "objects": [{**OBJECT, "x": 10, "names": ["car"]}]},
    {**HERE, "objects": [{**OBJECT, "x": 90, "names": ["tree"]}]},
]


@needs_jq
@pytest.mark.parametrize(
    ("plain", "right"),
    [(VOTT, {"car": [10, 90], "red": [90]}), (GENOME, {"car": [10], "tree": [90]})],
)
def test_objects_with_several_names_are_boxes_of_each(plain, right, tmp_path):
    path = put(tmp_path / "export.json", plain)
    if plain is VOTT:
        path = obeyed(path, said(path))
    rows = map(json.loads, obeyed(path, said(path)).read_text().splitlines())
    boxes = {row["question"]: row["bbox"] for row in rows}
    assert boxes == {name: [[x, 20, 60, 50] for x in xs] for name, xs in right.items()}


def test_an_affordance_is_a_box_by_the_names_of_its_sides(tmp_path):
    box = {"x": 100.5, "y": 200.5, "width": 19, "height": 14}
    rows = [{**HERE, "id": 1, "instruction": "lift the lid", "affordance": box}]
    (sample,) = samples(put(tmp_path / "t.json", rows))
    assert sample.target.answer == Answer(boxes=(Box(100.5, 200.5, 119.5, 214.5),))


def test_boxes_and_polygons_in_one_field_are_to_be_parted(tmp_path):
    shapes = {"bbox": [10, 20, 30, 40], "polygon": [10, 20, 50, 20, 50, 60]}
    rows = [
        {**HERE, "instruction": kind, "box_type": kind, "box_coordinates": numbers}
        for kind, numbers in shapes.items()
    ]
    path = put(tmp_path / "t.json", rows)
    assert "`where`" in draft(path).doubts["answer.form"]
    for kind, written, points in (("bbox", "xywh", 1200), ("polygon", "coco", 800)):
        changes = {'form = "text"': f'form = "points"\nwritten = "{written}"'}
        changes["[answer]"] = f'where = {{ box_type = "{kind}" }}\n[answer]'
        (sample,) = samples(path, **changes)
        area = sample.target.answer.soft_masks[0].to_array().astype(bool).sum()
        assert area == pytest.approx(points, rel=0.05)


def test_run_lengths_of_pairs_and_covered_polygons_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("ImageId,EncodedPixels\ni.png,29102 12 29346 24\ni.png,\n")
    described = draft(path)
    assert described.answer["form"] == "mask" and "from_pairs" in described.doubts["answer.written"]
    city = {"imgHeight": 9, "imgWidth": 9, "objects": [{"label": "car", "polygon": [[0, 0]]}]}
    with pytest.raises(DataError, match="later objects cover earlier ones"):
        draft(put(tmp_path / "a_gtFine_polygons.json", city))


def test_an_object_of_answers_by_ids_is_joined_to_the_questions_that_it_answers(tmp_path, capsys):
    """As in EgoSchema: questions.json and subset_answers.json, whose answers are places."""
    asked = [
        {"q_uid": name, "question": f"What does {name} do?", "option 0": "cook", "option 1": "eat"}
        for name in ("a1", "b2", "c3")
    ]
    questions = put(tmp_path / "questions.json", asked)
    answers = put(tmp_path / "subset_answers.json", {"c3": 1, "a1": 0})
    assert "joined" in said(questions) and "subset_answers.json" in said(questions)
    rows = list(joined(str(questions), str(answers)))
    assert [(row["q_uid"], row["answer"]) for row in rows] == [("a1", 0), ("c3", 1)]
    assert set(rows[0]) == {*asked[0], "answer"}
    assert "1 question of 3" in capsys.readouterr().err
    with pytest.raises(DataError, match="an id of each question"):
        list(joined(str(questions), str(put(tmp_path / "other.json", {"x": 1, "y": 0}))))


@pytest.mark.parametrize("output", ["response", "prediction", "model_output"])
def test_a_reply_that_is_also_a_model_s_output_is_not_the_right_answer(output, tmp_path):
    """As in the results of ms-swift's inference: the last message is the model's response."""
    rows = [
        {
            output: response,
            "labels": label,
            "messages": [
                {"role": "user", "content": "Which?\nA. red\nB. blue\nC. green"},
                {"role": "assistant", "content": response},
            ],
            "images": [{"bytes": None, "path": "i.png"}],
        }
        for response, label in (("B", "B"), ("C", "A"))
    ]
    path = put(tmp_path / "infer_result.jsonl", rows)
    assert [sample.target.answer.choice for sample in samples(path)] == ["B", "A"]
    unlabelled = put(tmp_path / "none.jsonl", [{**row, "labels": None} for row in rows])
    assert output in draft(unlabelled).doubts["answer.field"]
    for number in (0, 1):  # a right output here and there
        some_right = [{**row, "labels": None} for row in rows]
        some_right[number][output] = "A"
        mixed = draft(put(tmp_path / f"mixed{number}.jsonl", some_right))
        assert mixed.answer["field"] == "reply" and "answer.field" not in mixed.doubts


def test_two_fields_that_may_be_the_question_are_to_be_checked(tmp_path):
    """As in NLVR2, where `query` is what images were searched by, and `sentence` is judged."""
    row = {"sentence": "Two dogs sit.", "query": "dogs", "label": "True", **HERE}
    path = put(tmp_path / "nlvr.jsonl", [row, {**row, "sentence": "One cat.", "label": "False"}])
    assert "sentence" in draft(path).doubts["question.text"]
    row["question"] = "Do two dogs sit?"
    path = put(tmp_path / "named.jsonl", [row, {**row, "question": "Does a cat sit?"}])
    assert "question.text" not in draft(path).doubts


@pytest.mark.parametrize("folder", [".", "..", "./"])
def test_a_folder_without_a_name_is_read_by_its_own(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "pictures" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "pictures" / "inner")
    assert main(["data", "init", folder]) in (2, 3)
    assert "bug" not in capsys.readouterr().err


def test_answers_by_ids_are_of_the_field_that_has_all_of_them(tmp_path):
    asked = [{"index": n, "id": n + 1, "question": f"What is {n}?"} for n in range(3)]
    questions = put(tmp_path / "q.json", asked)
    answers = put(tmp_path / "a.json", {"1": "A", "2": "B", "3": "C"})
    assert [row["answer"] for row in joined(str(questions), str(answers))] == ["A", "B", "C"]
    crossed = [{**row, "question_id": 3 - n} for n, row in enumerate(asked)]
    questions = put(tmp_path / "crossed.json", crossed)
    assert [row["answer"] for row in joined(str(questions), str(answers))] == ["C", "B", "A"]
    both = [{"index": n + 1, "id": 3 - n, "question": "What?"} for n in range(3)]
    with pytest.raises(DataError, match="an id of each question"):
        list(joined(str(put(tmp_path / "both.json", both)), str(answers)))


SQUARE = [10, 20, 30, 40]
FILES = {
    "omnilabel.json": (
        {
            "images": [{"id": 1, "file_name": "i.png"}],
            "descriptions": [
                {"id": 5, "text": "the red cat", "image_ids": [1]},
                {"id": 6, "text": "a dog", "image_ids": [1]},
            ],
            "annotations": [{"id": 1, "image_id": 1, "bbox": SQUARE, "description_ids": [5]}],
        },
        [("the red cat", [SQUARE]), ("a dog", [])],
    ),
    "fiftyone.json": (
        {
            "classes": ["cat", "dog"],
            "labels": {
                "i": [
                    {"label": 1, "bounding_box": SQUARE},
                    {"label": "cat", "bounding_box": SQUARE},
                ],
                "j": None,
            },
        },
        [("cat", [SQUARE]), ("dog", [SQUARE])],
    ),
}


@needs_jq
@pytest.mark.parametrize("name", FILES)
def test_boxes_of_texts_in_objects_of_lists_are_records(name, tmp_path):
    plain, right = FILES[name]
    path = put(tmp_path / name, plain)
    rows = json.loads(obeyed(path, said(path)).read_text())
    assert [(row["question"], row["boxes"]) for row in rows] == right


LINES = {
    "lists": (
        '["image", "question", "answer"]\n["i.png", "What?", 2]\n["i.png", "Who?", 3]\n',
        [2, 3],
    ),
    "a line about all": (
        '{"version": 1}\n{"image": "i.png", "question": "What?", "answer": 2}\n',
        [2],
    ),
}


@needs_jq
@pytest.mark.parametrize("name", LINES)
def test_a_first_line_that_is_no_record_has_a_command(name, tmp_path):
    lines, right = LINES[name]
    path = tmp_path / "lines.jsonl"
    path.write_text(lines)
    rows = map(json.loads, obeyed(path, said(path)).read_text().splitlines())
    assert [row["answer"] for row in rows] == right


@needs_jq
def test_boxes_of_an_image_a_line_are_grouped_by_their_class(tmp_path):
    for name, text in (("a.txt", "1 2 30 40 1\n5 6 50 60 0\n 7 8 70 80 1\n\n"), ("b.txt", "")):
        (tmp_path / name).write_text(text)
    rows = map(
        json.loads,
        obeyed(tmp_path / "a.txt", said(tmp_path / "a.txt")).read_text().split("\n")[:-1],
    )
    assert [(row["image"], row["class"], row["boxes"]) for row in rows] == [
        ("a.jpg", "0", [[5, 6, 50, 60]]),
        ("a.jpg", "1", [[1, 2, 30, 40], [7, 8, 70, 80]]),
    ]


@needs_jq
def test_lists_of_questions_and_answers_become_records(tmp_path):
    lists = {"questions": ["What?", "Who?"], "answers": ["a cat", "a man"]}
    path = put(tmp_path / "t.jsonl", [{**HERE, **lists}] * 2)
    doubt = draft(path).doubts["question.text"]
    rows = list(map(json.loads, obeyed(path, doubt).read_text().splitlines()))
    assert rows[:2] == [
        {**HERE, "question": "What?", "answer": "a cat"},
        {**HERE, "question": "Who?", "answer": "a man"},
    ]
    put(tmp_path / "t.jsonl", [{**HERE, **lists, "answers": ["a cat"]}])
    with pytest.raises(subprocess.CalledProcessError):
        obeyed(tmp_path / "t.jsonl", doubt)


def test_a_caption_beside_a_wrong_one_becomes_a_choice(tmp_path):
    captions = {"caption": "a red hat", "negative_caption": "a blue hat"}
    path = put(tmp_path / "t.jsonl", [{**HERE, **captions}] * 2)
    rows = list(map(json.loads, obeyed(path, str(draft(path).doubts)).read_text().splitlines()))
    assert [row["options"].index(row["answer"]) for row in rows] == [0, 1]
    assert all(row.keys() == {"image", "answer", "options"} for row in rows)


def test_options_that_say_whether_they_are_right_are_not_questions(tmp_path):
    options = [{"text": "cat", "correct": True}, {"text": "dog", "correct": False}]
    path = put(tmp_path / "t.jsonl", [{**HERE, "question": "What?", "options": options}] * 2)
    assert "questions are in the list" not in str(draft(path).doubts)


def test_no_command_leaves_out_all_records_with_several_windows(tmp_path):
    row = {"video": "v.mp4", "query": "a cat", "relevant_windows": [[1, 5], [20, 30]]}
    assert "`" not in draft(put(tmp_path / "t.jsonl", [row])).doubts["answer.form"]


@pytest.mark.parametrize(
    ("name", "text", "not_said"),
    [
        (
            "two.jsonl",
            '{"question": "What?", "answer": "x"}\n{"text": "Who?", "label": "y"}\n',
            "leaves it out",
        ),
        ("columns.json", '{"classes": ["a"], "labels": [0], "images": ["i.png"]}', "bounding_box"),
        (
            "coco.json",
            '{"images": [], "annotations": [], "categories": [], "descriptions": "x"}',
            "description_ids",
        ),
        ("scores.txt", "10 20 30 40 0.9\n", "a box and its class"),
        ("corners.txt", "10 20 30 40 50 60 70 80\n", "a box and its class"),
    ],
)
def test_a_file_is_not_taken_for_one_of_another_tool(name, text, not_said, tmp_path):
    (tmp_path / name).write_text(text)
    assert not_said not in said(tmp_path / name)
