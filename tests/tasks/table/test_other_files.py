"""Files as other programs write them: read, or made a table by the command that is printed."""

import csv
import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness import load_task
from harness.errors import DataError
from harness.formats.kaggle import masks_of_pairs
from harness.interchange.rows import read_rows
from harness.layout import JsonFile
from harness.masks import Rle
from harness.tasks.table.description import CHECK
from harness.tasks.table.draft import draft
from harness.tasks.table.frame_numbers import OF_FRAMES
from harness.tasks.table.task import table
from harness.tasks.table.yolo_files import class_names, yolo
from harness.types import Answer, Box, Interval

WIDTH, HEIGHT = 64, 48
POPE = [
    {"question_id": n, "image": "a.png", "text": "Is there a cat?", "label": label}
    for n, label in enumerate(("yes", "no"))
]
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")


def samples(path):
    """Return the samples of a table by the description that is drafted for it."""
    if not (path.parent / "a.png").exists():
        Image.new("RGB", (WIDTH, HEIGHT)).save(path.parent / "a.png")
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    return list(table(path.parent, file=path).samples())


def frames(folder):
    """Write a video of 20 s as a folder of images."""
    folder.mkdir()
    for number in range(20):
        Image.new("RGB", (8, 8)).save(folder / f"{number:02}.png")


def obeyed(error, folder, name):
    """Run the command that an error names; return the file that it writes, under a name."""
    typed = re.search(r"`(.*?)`", str(error.value), re.DOTALL)[1]
    subprocess.run(typed, shell=True, cwd=folder, check=True)
    (written,) = folder.glob("NEW*")
    return written.rename(folder / name)


@pytest.mark.parametrize("between", ["\n", "\r\n\r\n"])
def test_json_lines_in_a_file_named_json_are_read(between, tmp_path):
    path = tmp_path / "coco_pope_random.json"
    path.write_text("\ufeff" + between.join(map(json.dumps, POPE)), encoding="utf-8")
    assert [sample.target.answer for sample in samples(path)] == [
        Answer(text="yes"),
        Answer(text="no"),
    ]


@needs_jq
def test_json_lines_where_a_list_is_expected_are_made_one(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("\n".join(map(json.dumps, POPE)), encoding="utf-8")
    with pytest.raises(DataError, match="JSON lines") as error:
        next(JsonFile(path).items())
    made = obeyed(error, tmp_path, "list.json")
    assert [entry.parse() for entry in JsonFile(made).items()] == POPE


def pairs(mask):
    """Return Kaggle's text of a mask: starts, from 1, and lengths, down the columns."""
    runs = np.flatnonzero(np.diff(np.pad(mask.T.ravel().astype(np.int8), 1)))
    starts, ends = runs[::2], runs[1::2]
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(starts, ends, strict=True))


def test_run_lengths_of_kaggle_become_masks(shapes, tmp_path):
    truths = {
        s.id: s.target.answer.masks[0] for s in load_task("reason_seg", data=shapes).samples()
    }
    rows = []
    for name, mask in truths.items():
        upper = mask.to_array()
        upper[mask.to_array().shape[0] // 2 :] = False
        rows += [[f"{name}.jpg", pairs(mask.to_array() & ~upper)], [f"{name}.jpg", pairs(upper)]]
    path = tmp_path / "submission.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["ImageId", "EncodedPixels"], *rows])
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    stated = str(error.value).replace("TASK", "reason_seg").replace("ROOT", str(shapes))
    written = read_rows(obeyed(SimpleNamespace(value=stated), tmp_path, "mine.jsonl"))
    assert {row.id: Rle.from_json(row.value[0]) for row in written} == truths


@pytest.mark.parametrize(
    ("name", "pixels", "says"),
    [
        ("other.jpg", "1 2", r"1 rows, such as 'other.jpg'"),
        (None, "1 2 3", "pairs of start and length"),
        (None, "1 2.5", "whole numbers"),
        (None, "0 2", "pixels from 1"),
        (None, "1 -2", "pixels from 1"),
        (None, "1 99999999", "pixels from 1"),
    ],
)
def test_run_lengths_of_kaggle_that_are_not_of_a_sample_are_refused(
    name, pixels, says, shapes, tmp_path
):
    samples = list(load_task("reason_seg", data=shapes).samples())
    path = tmp_path / "submission.csv"
    rows = [["ImageId", "EncodedPixels"], [f"{samples[0].id}.jpg", "1 2"]]
    rows.append([name or f"{samples[0].id}.jpg", pixels])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(DataError, match=says):
        next(masks_of_pairs(path, samples))


def test_a_row_of_a_table_is_not_texts_by_id(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = {"frame": "a.png", "colour": "red"}
    path.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert "to_entries" not in str(error.value)


@needs_jq
def test_answers_of_mlvu_have_a_command(tmp_path):
    path = tmp_path / "test_res.json"
    rows = [{"question_id": n, "question_type": "order", "option": "BC"[n]} for n in range(2)]
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    written = read_rows(obeyed(error, tmp_path, "mine.jsonl"))
    assert {row.id: row.value for row in written} == {"0": "B", "1": "C"}


@needs_jq
def test_ids_of_a_log_of_vtimellm_come_once(tmp_path):
    path = tmp_path / "log.txt"
    row = {"video_id": "v", "task": "grounding", "query_id": 0, "answer": "from 1 to 7"}
    lines = [json.dumps({**row, "info": {"sentence_id": n, "iou": 0.5}}) for n in range(2)]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    written = read_rows(obeyed(error, tmp_path, "mine.jsonl"))
    assert {row.id: row.value for row in written} == dict.fromkeys(("v/0", "v/1"), "from 1 to 7")


WINDOWS = {
    "QVHighlights": {"vid": "v_1.0_60.0", "query": "A dog runs.", "relevant_windows": [[10, 16]]},
    "TimeChat": {"image_id": "v.mp4", "caption": "a light", "timestamp": [10.0, 16.0]},
    "numbers of videos": {"video": "4010069381", "question": "When?", "answer": "0:10 - 0:16"},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_of_a_video_is_an_interval(name, tmp_path):
    row = WINDOWS[name]
    video = str(next(iter(row.values()))).removesuffix(".mp4")
    frames(tmp_path / f"{video}.mp4")
    path = tmp_path / "times.json"
    path.write_text(json.dumps([row]), encoding="utf-8")
    (sample,) = samples(path)
    assert sample.target.answer == Answer(interval=Interval(10, 16))
    assert "video" in draft(path).media


def test_several_windows_are_to_be_checked(tmp_path):
    path = tmp_path / "times.json"
    rows = [{"vid": "v", "query": "A dog", "relevant_windows": [[1, 2], [3, 4], [5, 6]]}]
    path.write_text(json.dumps(rows), encoding="utf-8")
    described = draft(path)
    assert described.answer["form"] == "interval" and "several" in described.doubts["answer.form"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_numbers_of_frames_are_refused_with_the_command(suffix, tmp_path):
    row = {"video": "v", "query": "A dog", "start_frame": 50, "end_frame": 100, "fps": 25}
    (tmp_path / "v").mkdir()
    for number in range(9):
        Image.new("RGB", (8, 8)).save(tmp_path / "v" / f"{number}.png")
    path = tmp_path / f"times{suffix}"
    lines = [",".join(row), ",".join(map(str, row.values()))]
    path.write_text("\n".join(lines) if suffix == ".csv" else json.dumps(row), encoding="utf-8")
    described = draft(path)
    assert "NEW.jsonl" in described.doubts["answer.form"]
    described.answer |= {"form": "interval", "field": ["start_frame", "end_frame"]}
    described.answer["written"] = "seconds"
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    with pytest.raises(DataError, match="of frames by its name") as error:
        table(tmp_path, file=path)
    new = obeyed(error, tmp_path, "NEW.jsonl")
    described = draft(new)
    assert described.answer["form"] == "interval"
    (sample,) = samples(new)
    assert sample.target.answer.interval == Interval(2.0, 4.0)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
def test_a_text_with_tabs_is_a_table(encoding, tmp_path):
    path = tmp_path / "excel.txt"
    path.write_text("image\tquestion\tanswer\na.png\tHow wide?\t3\n", encoding=encoding)
    with pytest.raises(DataError) as error:
        draft(path)
    typed = re.search(r"`(.*?)`", str(error.value))[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    (made,) = tmp_path.glob("*.tsv")
    (sample,) = samples(made)
    assert sample.target.answer.number == 3


@needs_jq
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_list_in_the_place_of_a_count_has_a_command(suffix, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    row = {"image": "a.png", "question": "How many?", "points": [[1, 2], [3, 4], [5, 6]]}
    path = tmp_path / f"mine{suffix}"
    path.write_text(json.dumps([row] if suffix == ".json" else row), encoding="utf-8")
    described = draft(path)
    described.answer |= {"form": "count", "field": "points"}
    path.with_suffix(".toml").write_text(described.toml("mine"), encoding="utf-8")
    with pytest.raises(DataError, match="expected a number") as error:
        list(table(tmp_path, file=path).samples())
    (sample,) = samples(obeyed(error, tmp_path, "counted.jsonl"))
    assert sample.target.answer.count == 3


@pytest.mark.parametrize("name", ["start_frame", "startFrame", "frame_idx", "end frames"])
def test_names_of_fields_of_frames(name):
    assert OF_FRAMES.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["timeframe", "frame_time", "frame_rate", "start", "frame_secs", "frame_start_s"]
)
def test_names_of_other_fields(name):
    assert not OF_FRAMES.fullmatch(name)


def test_times_without_a_known_video_are_no_numbers(tmp_path):
    path = tmp_path / "times.json"
    path.write_text(json.dumps([{"clip": "v", "caption": "a light", "timestamp": [24.3, 30.4]}]))
    assert draft(path).answer["form"] == "interval"


BOX = (8, 12, 40, 36)
"""The box in every file of boxes, in pixels."""
SHARES = (8 / WIDTH, 12 / HEIGHT, 40 / WIDTH, 36 / HEIGHT)
VOC = (
    "<annotation><filename>a.png</filename><object><name>cat</name><bndbox><xmin>8</xmin>"
    "<ymin>12</ymin><xmax>40</xmax><ymax>36</ymax></bndbox></object></annotation>"
)
SWIFT = {
    "messages": [
        {"role": "user", "content": "<image>Find <ref-object>"},
        {"role": "assistant", "content": "<bbox>"},
    ],
    "images": ["a.png"],
    "objects": {"ref": ["cat"], "bbox": [BOX]},
}
BOXES = {
    "VOC": ("a.xml", VOC),
    "YOLO": ("a.txt", "0 0.375 0.5 0.5 0.5\n"),
    "Open Images": (
        "boxes.csv",
        "ImageID,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf\n"
        "a,cat,1,{0},{2},{1},{3},0\na,dog,1,0,1,0,1,0\na,dog,1,0,1,0,1,1\n"
        "".format(*SHARES),
    ),
    "TensorFlow": (
        "_annotations.csv",
        "filename,width,height,class,xmin,ymin,xmax,ymax\na.png,64,48,cat,8,12,40,36\n",
    ),
    "TensorFlow, with tabs": (
        "_annotations.tsv",
        "filename\tclass\txmin\tymin\txmax\tymax\na.png\tcat\t8\t12\t40\t36\n",
    ),
    "TensorFlow, with semicolons": (
        "_annotations.csv",
        "filename;class;xmin;ymin;xmax;ymax\na.png;cat;8;12;40;36\n",
    ),
    "TensorFlow, in JSON": (
        "boxes.jsonl",
        json.dumps({"filename": "a.png", "class": "cat", "width": WIDTH, "height": HEIGHT})[:-1]
        + ', "xmin": 8, "ymin": 12, "xmax": 40, "ymax": 36}\n',
    ),
    "ms-swift": ("swift.jsonl", json.dumps(SWIFT) + "\n"),
}


@needs_jq
@pytest.mark.parametrize("name", BOXES)
def test_boxes_of_other_programs_have_a_command(name, tmp_path):
    file, text = BOXES[name]
    (tmp_path / file).write_text(text, encoding="utf-8")
    (tmp_path / "classes.txt").write_text("cat\n", encoding="utf-8")
    for image in ("a.png", "a.jpg"):
        Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / image)
    with pytest.raises(DataError) as error:
        draft(tmp_path / file)
    path = obeyed(error, tmp_path, "mine.jsonl")
    assert CHECK not in draft(path).toml("mine")
    (sample,) = samples(path)
    assert sample.query.text == "cat"
    assert sample.target.answer == Answer(boxes=(Box(*map(float, BOX)),))


@needs_jq
def test_masks_of_segment_anything_have_a_command(tmp_path):
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[12:36, 8:40] = True
    entry = {"segmentation": Rle.from_array(mask).to_json(), "point_coords": [[20.5, 24]]}
    plain = {"image": {"file_name": "a.png"}, "annotations": [{"id": 1, **entry}]}
    (tmp_path / "sa_1.json").write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(DataError) as error:
        draft(tmp_path / "sa_1.json")
    (sample,) = samples(obeyed(error, tmp_path, "mine.json"))
    assert sample.query.text == "the object at (20.5, 24)"
    assert sample.target.answer.masks == (Rle.from_array(mask),)


EGO4D_QUERIES = [
    {"clip_start_sec": 1.5, "clip_end_sec": 7.0, "video_start_sec": 99.0, "query": "a person sits"},
    {"clip_start_sec": 0.0, "clip_end_sec": 0.0, "video_start_sec": 0.0, "query": None},
    {"clip_start_sec": 3.0, "clip_end_sec": 4.0, "video_start_sec": 0.0, "query": ""},
    {"clip_start_sec": 2.0, "clip_end_sec": 8, "video_start_sec": 99.5, "query": "a light, on."},
]
MOMENTS = {
    "Charades-STA": ("test.txt", "v 1.5 7.0##a person sits.\nv 2.0 8.0##a light, on.\n", ".jsonl"),
    "TACoS": (
        "val.json",
        json.dumps(
            {
                "v": {
                    "fps": 4.0,
                    "num_frames": 80,
                    "timestamps": [[6, 28], [8, 32]],
                    "sentences": ["a person sits.", "a light, on."],
                }
            }
        ),
        ".json",
    ),
    "ActivityNet Captions": (
        "val_1.json",
        json.dumps(
            {
                "v": {
                    "duration": 20.0,
                    "timestamps": [[1.5, 7], [2, 8]],
                    "sentences": ["a person sits.", " a light, on."],
                }
            }
        ),
        ".json",
    ),
    "Ego4D NLQ": (
        "nlq_val.json",
        json.dumps(
            {
                "version": "1",
                "videos": [
                    {
                        "video_uid": "whole",
                        "clips": [
                            {
                                "clip_uid": "v",
                                "annotations": [
                                    {"annotation_uid": "a", "language_queries": EGO4D_QUERIES}
                                ],
                            }
                        ],
                    }
                ],
            }
        ),
        ".json",
    ),
}


@needs_jq
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_of_public_files_have_a_command(name, tmp_path):
    file, text, suffix = MOMENTS[name]
    frames(tmp_path / "v.mp4")
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        draft(tmp_path / file)
    read = samples(obeyed(error, tmp_path, f"mine{suffix}"))
    assert [sample.target.answer.interval for sample in read] == [Interval(1.5, 7), Interval(2, 8)]
    assert ["a light, on." in sample.query.text for sample in read] == [False, True]


def test_an_object_with_an_empty_list_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"videos": [], "version": 1}', encoding="utf-8")
    with pytest.raises(DataError, match="a list of records"):
        draft(path)


def test_the_end_of_an_interval_is_that_of_its_start(tmp_path):
    times = {"video_end_sec": 9, "clip_start_sec": 1, "clip_end_sec": 2, "video_start_sec": 8}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"video": "v.mp4", "query": "Where?", **times}]), encoding="utf-8")
    described = draft(path)
    assert described.answer["field"] == ["clip_start_sec", "clip_end_sec"]
    assert "video_start_sec, video_end_sec" in described.doubts["answer.field"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.odgt", "\n".join(map(json.dumps, POPE))),
        ("a.txt", "\ufeff" + "\n".join(json.dumps({"pad": "x" * 9000, **row}) for row in POPE)),
        ("a b.txt", json.dumps(POPE)),
        ("a.data", json.dumps(POPE, indent=2)),
        ("a", json.dumps(POPE)),
    ],
)
def test_json_under_another_name_has_a_command(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="JSON") as error:
        draft(path)
    typed = re.search(r"`(.*?)`", str(error.value))[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    (renamed,) = tmp_path.glob("*.json*")
    assert [sample.target.answer.text for sample in samples(renamed)] == ["yes", "no"]


@pytest.mark.parametrize("line", ["367,101,41,16", "367.5\t101\t41\t16"])
def test_boxes_of_a_track_want_a_line_a_frame(line, tmp_path):
    path = tmp_path / "groundtruth.txt"
    path.write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match="a line of JSON for each frame"):
        draft(path)


def test_annotations_without_a_command_want_a_record_a_question(tmp_path):
    path = tmp_path / "gt_1.txt"
    path.write_text("car 1 2 3 4 5\n", encoding="utf-8")
    with pytest.raises(DataError, match="a record for each question"):
        draft(path)


NAMES = {
    "a list": "names: ['cat', 'a dog']\nnc: 2\n",
    "a list without marks": "names: [cat, a dog]\n",
    "lines with numbers": "names:\n  0: cat\n  1: 'a dog'  # ours\nnc: 2\n",
    "lines": "nc: 2\nnames:\n- cat\n- a dog\ntest: images/test\n",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("images", ["images/val", "valid/images"])
def test_a_data_set_of_yolo_has_a_command(name, images, tmp_path, capfd):
    labels = images.replace("images", "labels")
    for folder in (labels, images):
        (tmp_path / folder).mkdir(parents=True)
    for image in ("a.png", "b.png"):
        Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / images / image)
    (tmp_path / labels / "a.txt").write_text("1 0.375 0.5 0.5 0.5\n", encoding="utf-8")
    (tmp_path / labels / "b.txt").write_text("", encoding="utf-8")
    path = tmp_path / "data.yaml"
    path.write_text(f"path: .\nval: ../{images}\n{NAMES[name]}", encoding="utf-8")
    with pytest.raises(DataError, match="data init"):
        draft(tmp_path / labels / "a.txt")
    with pytest.raises(DataError) as error:
        draft(path)
    (sample,) = samples(obeyed(error, tmp_path, "mine.jsonl"))
    assert "1 image without an object" in capfd.readouterr().err
    assert sample.query.text == "a dog"
    assert sample.target.answer == Answer(boxes=(Box(*map(float, BOX)),))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('names:\n  0: car  # ours\n  1: "C#"\n  2: C# code\n', ["car", "C#", "C# code"]),
        ("names: ['a, b', c]\n", ["a, b", "c"]),
        ("names: ['it''s', \"b]\", # last\n]\n", ["it's", "b]"]),
        ('names: [\'a\', "b\\"c"]\n', None),
        ('names:\n- a\n- "b\\"c"\n', None),
    ],
)
def test_names_of_yolo_are_read_exactly_or_refused(text, names, tmp_path):
    path = tmp_path / "data.yaml"
    path.write_text(text, encoding="utf-8")
    if names is None:
        with pytest.raises(DataError, match=r"classes\.txt"):
            class_names(path)
    else:
        assert class_names(path) == names


def test_a_line_of_yolo_that_is_no_box_stops_the_command(tmp_path, capfd):
    (tmp_path / "classes.txt").write_text("cat\n", encoding="utf-8")
    path = tmp_path / "a.txt"
    path.write_text("0 0.3 0.5 0.5 0.5\n\n0 0.1 0.1 0.4 0.1 0.4 0.4\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        draft(path)
    with pytest.raises(subprocess.CalledProcessError):
        obeyed(error, tmp_path, "mine.jsonl")
    printed = capfd.readouterr().err
    assert "line 3" in printed and "Traceback" not in printed


@pytest.mark.parametrize("numbers", ["0.4 0.4 2 0.5 0.5 0", "0.4 0.4 2"])
def test_keypoints_of_yolo_are_left_out_if_the_data_set_states_them(numbers, tmp_path):
    (tmp_path / "data.yaml").write_text("kpt_shape: [2, 3]\nnames:\n  0: cat\n", encoding="utf-8")
    (tmp_path / "labels").mkdir()
    label = tmp_path / "labels" / "a.txt"
    label.write_text(f"0 0.375 0.5 0.5 0.5 {numbers}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"data init .*data\.yaml"):
        draft(label)
    records = yolo([str(tmp_path / "data.yaml"), str(label)])
    if numbers.endswith("2"):
        with pytest.raises(DataError, match="6 of keypoints, found 7 numbers"):
            list(records)
    else:
        assert [record["boxes"] for record in records] == [[[0.125, 0.25, 0.625, 0.75]]]


@needs_jq
@pytest.mark.parametrize("part", ["questions", "annotations"])
def test_questions_of_vqa_are_joined_to_their_annotations(part, tmp_path):
    about = {"data_type": "mscoco", "data_subtype": "val2014"}
    questions = [{"image_id": 42, "question": f"Which {n}?", "question_id": n} for n in (420, 421)]
    annotations = [
        {"question_id": n, "image_id": 42, "answers": [{"answer": f"{n}", "answer_id": 1}]}
        for n in (421, 420)
    ]
    plain = {"questions": questions, "annotations": annotations}
    for name, listed in plain.items():
        (tmp_path / f"{name.upper()}.json").write_text(json.dumps({**about, name: listed}))
    with pytest.raises(DataError, match="joins") as error:
        draft(tmp_path / f"{part.upper()}.json")
    rows = json.loads(obeyed(error, tmp_path, "mine.json").read_text())
    assert [(row["question"], row["answers"]) for row in rows] == [
        ("Which 420?", ["420"]),
        ("Which 421?", ["421"]),
    ]
    assert rows[0]["image"] == "COCO_val2014_000000000042.jpg"


OBJECTS = {
    "records whose fields are objects": (
        {"r1": {"question": {"en": "What?"}, "answer": {"en": "a"}}},
        [{"id": "r1", "question": {"en": "What?"}, "answer": {"en": "a"}}],
    ),
    "columns": (
        {"image": ["a.png", "b.png"], "answer": ["x", "y"]},
        [{"image": "a.png", "answer": "x"}, {"image": "b.png", "answer": "y"}],
    ),
    "questions of a named database": (
        {"database": "vqa", "questions": [{"image": "a.png", "answer": "x"}]},
        [{"image": "a.png", "answer": "x"}],
    ),
    "COIN": (
        {
            "database": {
                "v": {
                    "subset": "testing",
                    "annotation": [
                        {"id": "1", "label": "boil", "segment": [1, 3]},
                        {"id": "1", "label": "boil", "segment": [5, 6]},
                    ],
                }
            }
        },
        [
            {
                "video": "v",
                "subset": "testing",
                "question": "boil",
                "relevant_windows": [[1, 3], [5, 6]],
            }
        ],
    ),
    "NExT-GQA": (
        {"v": {"duration": 20, "location": {"3": [[2, 4]]}}},
        [
            {
                "video": "v",
                "id": "v/3",
                "qid": "3",
                "question": "CHECK",
                "relevant_windows": [[2, 4]],
            }
        ],
    ),
    "V*Bench": (
        {"target_object": ["a"], "bbox": [[1, 2, 3, 4]], "question": "?", "options": ["x", "y"]},
        [
            {
                "image": "made.jpg",
                "target_object": ["a"],
                "bbox": [[1, 2, 3, 4]],
                "question": "?",
                "options": ["x", "y"],
                "answer": "x",
            }
        ],
    ),
}


@needs_jq
@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_of_json_has_a_command_that_makes_its_records(name, tmp_path):
    plain, records = OBJECTS[name]
    path = tmp_path / "made.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(DataError) as error:
        draft(path)
    assert json.loads(obeyed(error, tmp_path, "table.json").read_text()) == records


@needs_jq
def test_records_with_several_windows_have_a_command_that_leaves_them_out(tmp_path):
    rows = [
        {"qid": n, "vid": "v", "query": "A dog runs.", "relevant_windows": windows}
        for n, windows in enumerate(([[1, 4], [8, 12]], [[2, 3]], [2, 3]))
    ]
    path = tmp_path / "windows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    doubt = SimpleNamespace(value=draft(path).doubts["answer.form"])
    made = obeyed(doubt, tmp_path, "single.jsonl").read_text().splitlines()
    assert [json.loads(line)["qid"] for line in made] == [1, 2]


def test_a_mask_for_points_is_to_be_checked_and_objects_are_no_question(tmp_path):
    for name in ("a.png", "m.png"):
        Image.new("L", (WIDTH, HEIGHT)).save(tmp_path / name)
    row = {"image": "a.png", "prompt": "Point out the box.", "mask": "m.png"}
    path = tmp_path / "places.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert "points" in draft(path).doubts["answer.form"]
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    row["prompt"] = [{"text": "Point out the box."}]
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="'prompt': expected a text"):
        list(load_task(f"table(file={path})").samples())


NESTED = {
    "meta": {"image": {"path": "a.png"}},
    "question": {"text": "How many?"},
    "answer": {"value": 2, "unit": "m"},
    "answers": [{"text": "two"}],
}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_fields_in_objects_have_names_with_dots(suffix, tmp_path):
    path = tmp_path / f"nested{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist([NESTED]), path)
    else:
        path.write_text(json.dumps([NESTED] if suffix == ".json" else NESTED), encoding="utf-8")
    (sample,) = samples(path)
    assert sample.query.text == "How many?" and sample.target.answer.number == 2
    description = draft(path).toml("mine").replace('"meta.image.path"', '"{meta.image.path}"')
    description = description.replace('"number"', '"text"').replace(
        "answer.value", "answers.0.text"
    )
    path.with_suffix(".toml").write_text(description, encoding="utf-8")
    (sample,) = table(tmp_path, file=path).samples()
    assert sample.target.answer.text == "two"


def test_a_field_in_an_object_that_a_record_lacks_is_named(tmp_path):
    path = tmp_path / "nested.jsonl"
    path.write_text(json.dumps(NESTED) + "\n" + json.dumps({**NESTED, "answer": {}}) + "\n")
    with pytest.raises(DataError, match=r"line 2.*answer\.value"):
        samples(path)


def test_a_field_whose_own_name_has_a_dot_is_read(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("image,question,answer.value\na.png,How many?,3\n")
    (sample,) = samples(path)
    assert sample.target.answer.number == 3
