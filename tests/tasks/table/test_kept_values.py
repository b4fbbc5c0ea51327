"""No value of a file becomes another one in silence: it is read, doubted or refused."""

import json
import re
import subprocess

import pytest
from PIL import Image

from harness.errors import DataError
from harness.foreign_lines import of_whole, way_out
from harness.tasks.table.draft import draft
from harness.tasks.table.joined import joined
from harness.tasks.table.layouts import captions, coco
from harness.tasks.table.line_files import icdar
from harness.tasks.table.task import table
from harness.tasks.table.tracking_files import mot
from harness.tasks.table.voc_files import voc

CAR = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 20]}
COCO = {
    "images": [{"id": 1, "file_name": "a.png"}],
    "annotations": [CAR],
    "categories": [{"id": 1, "name": "car"}],
}


def put(folder, name, plain):
    """Write a table beside its images; a text as it is, records as JSON lines."""
    for image in "ab":
        Image.new("RGB", (64, 48)).save(folder / f"{image}.png")
    lines = isinstance(plain, list) and "".join(f"{json.dumps(row)}\n" for row in plain)
    path = folder / name
    path.write_text(lines or (plain if isinstance(plain, str) else json.dumps(plain)))
    return path


def samples(path):
    """Return the samples of a table by the description that is drafted for it."""
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    return list(table(path.parent, file=path).samples())


def obey(said, folder):
    """Run the command that a message names."""
    typed = re.search(r"`(.*?)`", said, re.DOTALL)[1]
    subprocess.run(typed, shell=True, cwd=folder, check=True)


def asked(**more):
    """Return a record of a question."""
    return {"image": "a.png", "question": "Which is it?", **more}


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"images": [*COCO["images"], {"id": 1, "file_name": "b.png"}]}, "images"),
        ({"categories": [*COCO["categories"], {"id": 1, "name": "dog"}]}, "categories"),
    ],
)
def test_two_entries_of_one_id_are_refused(more, what, tmp_path):
    path = put(tmp_path, "a.json", {**COCO, **more})
    with pytest.raises(DataError, match=f"no other entry of {what} has, found 1"):
        list(coco(path))


def test_entries_that_are_equal_are_one(tmp_path):
    path = put(tmp_path, "a.json", {**COCO, "images": COCO["images"] * 2})
    assert [parse()["image"] for _, parse in coco(path)] == ["a.png"]


@pytest.mark.parametrize("more", [{"caption": "the red car"}, {"caption": ""}, {}])
def test_texts_of_annotations_are_doubted(more, tmp_path):
    doubts = draft(put(tmp_path, "a.json", {**COCO, "annotations": [{**CAR, **more}]})).doubts
    assert ("question.text" in doubts) == bool(more.get("caption"))


def test_two_captions_of_one_id_are_refused(tmp_path):
    images = [{"id": 1, "file_name": f"{name}.png", "caption": f"a {name}"} for name in "ab"]
    with pytest.raises(DataError, match="no other entry of images has"):
        list(captions(put(tmp_path, "a.json", {**COCO, "images": images})))


@pytest.mark.parametrize("number", ["7", 7, [7]])
def test_a_video_is_found_by_its_number_or_its_text(number, tmp_path):
    plain = {
        **COCO,
        "images": [{**COCO["images"][0], "video_id": number}],
        "videos": [{"id": 7, "not_exhaustive_category_ids": [1]}],
    }
    rows = [parse() for _, parse in coco(put(tmp_path, "a.json", plain))]
    assert [row["iscrowd"] for row in rows] == [int(number != [7])]


def test_an_object_of_several_names_ends_the_command(tmp_path):
    sides = "<xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax>"
    named = f"<object><name>1</name><name>7</name><bndbox>{sides}</bndbox></object>"
    path = put(tmp_path, "a.xml", f"<annotation><filename>a.png</filename>{named}</annotation>")
    with pytest.raises(DataError, match="expected one <name>, found several"):
        list(voc([str(path)]))


def test_a_polygon_is_no_quadrilateral_with_a_text(tmp_path):
    path = put(tmp_path, "gt_a.txt", "1,1,9,1,9,5,9,9,5,9,1,9,1,5,HELLO\n")
    with pytest.raises(DataError, match="a text after four corners"):
        list(icdar([str(path)]))
    path.write_text("1,1,9,1,9,9,1,9,1,200,50\n")
    assert [row["question"] for row in icdar([str(path)])] == ["1,200,50"]


def test_persons_that_count_neither_way_are_counted(tmp_path):
    kinds = ["1,1", "0,1", "1,7", "0,8", "1,3"]  # two pedestrians, one still, one alike, a car
    lines = [f"1,{n},9,13,16,24,{kind},1\n" for n, kind in enumerate(kinds)]
    (row,) = mot(str(put(tmp_path, "gt.txt", "".join(lines))))
    assert (len(row["boxes"]), row["ignored"]) == (1, 3)


def test_quotation_marks_hold_no_records(tmp_path):
    text = (
        'image\tquestion\tanswer\na.png\t"What?\tstop\nb.png\tWho?\ta man\na.png\tWhere?"\thome\n'
    )
    path = put(tmp_path, "a.tsv", text)
    with pytest.raises(DataError, match="tabs and the end of a record") as error:
        draft(path)
    obey(str(error.value), tmp_path)
    texts = [
        sample.target.answer.text
        for sample in samples((tmp_path / "NEW").rename(tmp_path / "n.jsonl"))
    ]
    assert texts == ["stop", "a man", "home"]


def test_a_table_in_a_cell_has_a_command(tmp_path):
    cell = "Table:\nname\tage\tsex\nAnn\t3\tf"
    path = put(tmp_path, "a.tsv", f'image\tquestion\tanswer\na.png\t"{cell}"\t3\n')
    with pytest.raises(DataError, match="tabs and the end of a record") as error:
        draft(path)
    obey(str(error.value).partition("If it is one cell: ")[2], tmp_path)
    (sample,) = samples((tmp_path / "NEW").rename(tmp_path / "n.jsonl"))
    assert sample.query.text == cell


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (r'"What, say \"hi\", is \pi?"', r'What, say "hi", is \pi?'),
        ('"red" or blue?', '"red" or blue?'),
    ],
)
def test_marks_that_are_not_in_pairs_lose_no_cell(cell, text, tmp_path):
    path = put(tmp_path, "a.csv", f"image,question,answer\na.png,{cell},pi\n")
    with pytest.raises(DataError, match="quotation marks in pairs") as error:
        draft(path)
    obey(str(error.value), tmp_path)
    (sample,) = samples((tmp_path / "NEW").rename(tmp_path / "n.jsonl"))
    assert (sample.query.text, sample.target.answer.text) == (text, "pi")


def test_marks_that_part_cells_end_the_command(tmp_path):
    path = put(tmp_path, "a.csv", 'image,question,answer\na.png,"red" or, blue?,pi\n')
    with pytest.raises(DataError, match="quotation marks in pairs") as error:
        draft(path)
    with pytest.raises(subprocess.CalledProcessError):
        obey(str(error.value), tmp_path)


def test_lines_in_quotation_marks_are_read(tmp_path):
    text = 'image\tquestion\tanswer\na.png\t"def f():\n\treturn\t1\n\tpass"\ta cat\n'
    (sample,) = samples(put(tmp_path, "a.tsv", text))
    assert sample.query.text == "def f():\n\treturn\t1\n\tpass"


@pytest.mark.parametrize("marks", ["BCD", "ACD", "23"])
def test_marks_that_leave_an_option_out_are_refused(marks, tmp_path):
    options = {mark: f"the {mark}" for mark in marks}
    path = put(tmp_path, "a.jsonl", [asked(options=options, answer=marks[0])] * 2)
    with pytest.raises(DataError, match="none is left out"):
        samples(path)


def test_options_are_in_the_order_of_their_marks(tmp_path):
    marks = [f"option_{n}" for n in range(1, 12)]
    options = {mark: f"the {mark}" for mark in sorted(marks)}
    (sample,) = samples(put(tmp_path, "a.jsonl", [asked(options=options, answer="B")]))
    assert sample.query.options == tuple(f"the {mark}" for mark in marks)


def test_an_empty_option_behind_the_last_is_none(tmp_path):
    rows = [asked(options={"A": "x", "B": "y", "C": last}, answer="B") for last in ("z", None)]
    counts = [len(sample.query.options) for sample in samples(put(tmp_path, "a.jsonl", rows))]
    assert counts == [3, 2]


def test_images_are_in_the_order_of_their_numbers(tmp_path):
    names = [f"image_{n}" for n in range(1, 12)]
    row = {**dict.fromkeys(sorted(names), "a.png"), "question": "Which?", "answer": "a cat"}
    assert draft(put(tmp_path, "a.jsonl", [row])).media["images"] == names


@pytest.mark.parametrize("text", ["10_20", "(12.5)"])
def test_a_text_that_python_reads_as_another_number_is_a_text(text, tmp_path):
    path = put(tmp_path, "a.jsonl", [asked(answer=text), asked(answer="20_30")])
    assert samples(path)[0].target.answer.text == text


def test_an_exponent_may_be_a_code(tmp_path):
    doubts = draft(put(tmp_path, "a.jsonl", [asked(answer="3E5"), asked(answer="12E4")])).doubts
    assert "'3E5' has an E" in doubts["answer.form"]


def test_records_without_options_are_counted(tmp_path):
    rows = [asked(options=None, answer="4"), asked(options=["x", "y"], answer="x")]
    assert "1 of 2 records" in draft(put(tmp_path, "a.jsonl", rows)).doubts["question.options"]


def test_boxes_of_several_rows_become_one_record(tmp_path):
    text = "image,x1,y1,x2,y2,class\na.png,1,2,9,9,car\na.png,20,2,40,9,car\nb.png,1,2,9,9,dog\n"
    obey(draft(put(tmp_path, "a.csv", text)).doubts["answer.form"], tmp_path)
    made = samples((tmp_path / "NEW").rename(tmp_path / "n.jsonl"))
    assert [(s.query.text, len(s.target.answer.boxes)) for s in made] == [("car", 2), ("dog", 1)]


def test_regions_of_one_question_in_several_records_are_doubted(tmp_path):
    rows = [asked(bbox=[1, 2, 30, 20]), asked(bbox=[31, 2, 30, 20])]
    doubts = draft(put(tmp_path, "a.jsonl", rows)).doubts
    assert "records of one image ask the same" in doubts["answer.field"]


def filmed(folder, **more):
    """Return a table of a video that is a folder of frames."""
    (folder / "v").mkdir()
    for number in range(10):
        Image.new("RGB", (8, 8)).save(folder / "v" / f"{number}.png")
    return put(folder, "a.jsonl", [{"video": "v", "question": "he sits", **more}])


def test_the_rate_of_frames_in_a_folder_is_doubted(tmp_path):
    drafted = draft(filmed(tmp_path, start=2.0, end=5.0, answer="yes"))
    assert drafted.media["frames_per_second"] == 1
    assert "how many are of one second" in drafted.doubts["media.frames_per_second"]
    path = put(tmp_path, "b.jsonl", [{"video": "w.mp4", "question": "Who?", "answer": "a cat"}])
    (tmp_path / "w.mp4").touch()
    assert "frames_per_second" not in draft(path).media


def test_times_in_an_object_are_read(tmp_path):
    (sample,) = samples(filmed(tmp_path, timestamp={"start": 2.0, "end": 5.5}))
    assert sample.target.answer.interval == (2.0, 5.5)


def test_boxes_of_persons_are_not_polygons_of_cityscapes(tmp_path):
    plain = {"imgHeight": 48, "imgWidth": 64, "objects": [{"bbox": [1, 2, 9, 9], "label": "car"}]}
    with pytest.raises(DataError, match="an object with the keys"):
        draft(put(tmp_path, "a.json", plain))


def test_answers_beside_other_fields_of_their_file_are_joined(tmp_path):
    questions = put(tmp_path, "q.json", json.dumps([{"question_id": 7, "question": "Who?"}]))
    listed = [{"question_id": 7, "answer": "a cat"}]
    answers = put(tmp_path, "a.json", {"info": {}, "license": "x", "annotations": listed})
    assert list(joined(str(questions), str(answers))) == [
        {"question_id": 7, "question": "Who?", "answer": "a cat"}
    ]


def test_ids_of_objects_are_no_id_of_a_question(tmp_path):
    rows = [asked(objects={"id": [n], "bbox": [[1, 2, 9, 9]]}) for n in range(2)]
    assert "id" not in draft(put(tmp_path, "a.jsonl", rows)).question


@pytest.mark.parametrize("name", ["questionId", "q_uid", "sampleId"])
def test_a_file_with_ids_of_its_own_is_not_joined_by_order(name):
    fix = way_out({name: "7", "answer": "a cat"}, "a.jsonl", is_row=True)
    assert f"If {name} is the benchmark's id" in fix
    assert f"If {name} is" in of_whole([{name: "7", "prediction": "a cat"}], "a.json")


def test_a_completion_with_an_id_is_not_joined_by_order():
    fix = way_out({"sample_id": "7", "prompt": "Who?", "completion": "B"}, "a.jsonl", is_row=True)
    assert "If sample_id is the benchmark's id and completion what the model wrote" in fix
