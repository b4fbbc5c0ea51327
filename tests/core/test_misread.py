"""Files in another order or form: refused with a command, whose lines say what the file does."""

import json
import pickle
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from harness.errors import DataError
from harness.foreign_lines import renamed
from harness.formats import read_format
from harness.formats.units import check_units
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import RowFile, read_rows
from harness.masks import Rle
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
COMMAND = re.compile(r"`((?:jq|\S*python\S*) -c .*?) > NEW`")
WIDTH, HEIGHT, SECONDS = 640, 480, 60


def sample(name, form, frames=1):
    images = [np.zeros((HEIGHT, WIDTH, 3), np.uint8)] * frames
    media = pixels(images, times=range(frames), is_video=frames > 1, id=name)
    query = Query(
        id=query_id(name), text="?", media=(media,), forms=(form,), options=("one", "two", "three")
    )
    return Sample(id=name, query=query, target=None)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def in_this_python(command):
    """Arguments of a printed command; `python` is the one that runs the tests."""
    first, *rest = shlex.split(command)
    return [sys.executable if first == "python" else first, *rest]


def convert(path, error, place=0):
    """Replace the file by what the error's command makes of it."""
    command = COMMAND.findall(str(error.value))[place]
    done = subprocess.run(in_this_python(command), cwd=path.parent, capture_output=True, check=True)
    path.write_bytes(done.stdout)


def check(path, samples):
    rows = RowFile(path)
    notes = check_units(rows, samples, f"predictions {path}")
    return notes, [row_to_answer(rows[one.id], one.query) for one in samples if one.id in rows]


ROWS = [{"id": "0", "answer": 9}, {"id": "1", "answer": 7}]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather"])
def test_a_table_of_arrow_is_named_with_the_command_that_makes_lines(tmp_path, name):
    path = tmp_path / name
    table = pa.Table.from_pylist(ROWS)
    (parquet.write_table if name == "rows.parquet" else feather.write_feather)(table, path)
    with pytest.raises(
        DataError, match="Parquet" if name == "rows.parquet" else "Feather"
    ) as error:
        list(read_rows(path))
    convert(path, error)
    assert [(row.id, row.value) for row in read_rows(path)] == [("0", 9), ("1", 7)]


def test_centres_and_widths_of_moments_have_a_command(tmp_path):
    window = {"vid": "v", "query": "q", "qid": 7, "pred_relevant_windows": [[40.0, 10.0, 0.9]]}
    path = write(tmp_path / "moments.jsonl", [window])
    with pytest.raises(DataError, match=r"\[centre, width\]") as error:
        read_format("qvhighlights", path, [sample("7", AnswerForm.INTERVAL, SECONDS)])
    convert(path, error, 2)
    read = json.loads(path.read_text("utf-8"))
    assert read == {**window, "pred_relevant_windows": [[35.0, 45.0, 0.9]]}


def test_spans_of_fractions_are_not_taken_for_seconds(tmp_path):
    samples = [sample(str(place), AnswerForm.INTERVAL, SECONDS) for place in range(2)]
    rows = [{"id": "0", "answer": [0.6, 0.2]}, {"id": "1", "answer": [0.3, 0.4]}]
    with pytest.raises(DataError, match="fractions of the video"):
        check(write(tmp_path / "spans.jsonl", rows), samples)


def test_zeros_at_the_end_are_an_unfinished_copy_of_text_alone(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"\x93BIN\x00\x01\x00" + bytes(7))
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert "copied" not in str(error.value) and "windows-1252" not in str(error.value)
    path.write_bytes(pickle.dumps(ROWS))
    with pytest.raises(DataError, match="a pickle"):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("000000200000.jpg", "200000"),
        ("000000200000", "200000"),
        ("ReasonSeg/val/val_00000.jpg", "val_00000"),
        ("mevis/valid_u/abc/0", "abc/0"),
        ("val_00000.PNG", "val_00000"),
    ],
)
def test_ids_that_are_names_of_files_have_a_program_that_makes_ids(name, known):
    program = renamed([name], {known, "0"})
    done = subprocess.run(["jq", program], input=json.dumps(name), capture_output=True, text=True)
    assert json.loads(done.stdout) == known


def test_ids_that_are_no_names_of_files_have_none():
    assert renamed(["test_00000", "a/b"], {"val_00000"}) is None
    assert renamed(["200000"], {"200000"}) is None  # an image, asked about other categories


BOXES = [(10, 20, 110, 60), (60, 50, 95, 98), (300, 200, 420, 280)]


def test_boxes_as_a_corner_and_a_size_are_named_as_such(tmp_path):
    samples = [sample(str(place), AnswerForm.BOXES) for place in range(4)]
    sizes = [[left, top, right - left, bottom - top] for left, top, right, bottom in BOXES]
    rows = [{"id": str(place), "boxes": [box]} for place, box in enumerate(sizes)]
    path = write(tmp_path / "boxes.jsonl", [*rows, {"id": "3", "no_target": True}])
    with pytest.raises(DataError, match=r"line 2 .* of 3 .*fit as \[left, top, width") as error:
        check(path, samples)
    convert(path, error)
    assert [answer.boxes[0] for answer in check(path, samples)[1][:3]] == BOXES
    assert len(RowFile(path)) == 4


def test_boxes_around_a_centre_are_named_as_such(tmp_path):
    samples = [sample(str(place), AnswerForm.BOXES) for place in range(2)]
    rows = [{"id": "0", "boxes": [[600, 400, 80, 160]]}, {"id": "1", "boxes": [[50, 60, 70, 80]]}]
    path = write(tmp_path / "boxes.jsonl", rows)
    with pytest.raises(DataError, match=r"all fit as \[centre x") as error:
        check(path, samples)
    convert(path, error)
    assert check(path, samples)[1][0].boxes[0] == (560, 320, 640, 480)


def test_small_boxes_as_sizes_are_not_taken_for_percentages(tmp_path):
    samples = [sample(str(place), AnswerForm.BOXES) for place in range(3)]
    rows = [{"id": str(place), "boxes": [[70, 20 + place, 20, 30]]} for place in range(3)]
    rows[0]["boxes"] = [[10, 10, 20, 20]]
    with pytest.raises(DataError, match="fit as"):
        check(write(tmp_path / "boxes.jsonl", rows), samples)


def test_boxes_that_fit_in_no_order_are_refused_by_their_line(tmp_path):
    samples = [sample(str(place), AnswerForm.BOXES) for place in range(2)]
    rows = [{"id": "0", "boxes": [[630, 20, 20, 30]]}, {"id": "1", "boxes": [[1, 2, 300, 400]]}]
    with pytest.raises(DataError, match=r"line 1.*left < right"):
        check(write(tmp_path / "boxes.jsonl", rows), samples)


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ([[20, 5], [3, 10]], [[[20, 25], [3, 13]]]),  # a duration alone fits
        (
            [[50, 20], [40, 30]],
            [[[20, 50], [30, 40]], [[40, 60], [25, 55]]],
        ),  # beyond the video as durations
        (
            [[20, 5], [30, 10]],
            [[[5, 20], [10, 30]], [[20, 25], [30, 40]], [[17.5, 22.5], [25, 35]]],
        ),
    ],
)
def test_each_order_of_intervals_that_fits_has_a_command(tmp_path, given, offered):
    samples = [sample(str(place), AnswerForm.INTERVAL, SECONDS) for place in range(3)]
    rows = [{"id": str(place), "answer": span} for place, span in enumerate(given)]
    rows.append({"id": "2", "no_target": True})
    for place, read in enumerate(offered):
        path = write(tmp_path / "spans.jsonl", rows)
        with pytest.raises(DataError, match=r"2 intervals of the file") as error:
            check(path, samples)
        assert len(COMMAND.findall(str(error.value))) == len(offered)
        convert(path, error, place)
        answers = check(path, samples)[1]
        assert [list(answer.interval) for answer in answers[:2]] == read
        assert answers[2].no_target


def run_length(number):
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[number : 2 * number + 1, 3:9] = True
    return Rle.from_array(mask).to_json()


@pytest.mark.parametrize(
    ("plain", "kind", "values"),
    [
        ({"0": 2, "1": 5}, "answer", [2, 5]),
        ({"0": [1.5, 2], "1": [3, 4]}, "answer", [[1.5, 2], [3, 4]]),
        ({"0": [[1, 2, 3, 4]], "1": []}, "boxes", [[[1, 2, 3, 4]], []]),
        ({"0": [[1, 2]], "1": [[3, 4]]}, "points", [[[1, 2]], [[3, 4]]]),
        ({"0": "A", "1": None}, "response", ["A", None]),
        ({"0": run_length(1), "1": run_length(2)}, "masks", [[run_length(1)], [run_length(2)]]),
        ({"0": {"answer": "A"}, "1": {"answer": "B"}}, "answer", ["A", "B"]),
        ({"v/0": {"response": "A", "id": 7}, "v/1": {"response": "B"}}, "response", ["A", "B"]),
        ({"0": [{"timestamp": [1, 2]}], "1": [{"timestamp": [3, 4]}]}, "answer", [[1, 2], [3, 4]]),
    ],
)
def test_one_object_of_values_by_id(tmp_path, plain, kind, values):
    path = write(tmp_path / "values.json", [plain])
    with pytest.raises(DataError, match="ids") as error:
        list(read_rows(path))
    convert(path, error)
    rows = list(read_rows(path))
    assert [row.id for row in rows] == list(plain)
    assert [(row.kind, row.value) for row in rows] == [(kind, value) for value in values]


def test_a_value_that_is_missing_among_numbers_by_id_is_a_failure(tmp_path):
    path = write(tmp_path / "values.json", [{"0": 2, "1": None}])
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    convert(path, error)
    assert [(row.kind, row.value) for row in read_rows(path)] == [("answer", 2), ("response", None)]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("{'id': '0', 'response': \"it's\"}", "it's"),
        ("{'id': '0', 'response': None}", None),
        ('{"id": "0", "response": NaN}', None),
        ("[{'id': '0', 'response': \"it's\"}]", "it's"),
        ('{"id": "0", "response": "NaN"}', "NaN"),
    ],
)
def test_what_python_writes_instead_of_json(tmp_path, line, value):
    path = tmp_path / "lines.jsonl"
    path.write_text(f"{line}\n")
    if value != "NaN":
        with pytest.raises(DataError) as error:
            list(read_rows(path))
        convert(path, error)
    assert [row.value for row in read_rows(path)] == [value]


@pytest.mark.parametrize(
    ("kind", "form", "values"),
    [
        ("masks", AnswerForm.MASK_TRACK, [run_length(place) for place in range(1, 12)]),
        ("boxes", AnswerForm.BOX_TRACK, [None, *([1, 2, 3, 4 + n] for n in range(10))]),
    ],
)
def test_values_by_frame_become_a_list_in_the_frames_order(tmp_path, kind, form, values):
    one = sample("0", form, len(values))
    by_frame = {str(place): value for place, value in enumerate(values)}
    path = write(tmp_path / "frames.jsonl", [{"id": "0", kind: by_frame}])
    with pytest.raises(DataError, match="an object with 11 keys") as error:
        check(path, [one])
    convert(path, error)
    assert [row.value for row in read_rows(path)] == [values]
    del by_frame["3"]
    write(path, [{"id": "0", kind: by_frame}])
    convert(path, error)
    with pytest.raises(DataError, match="found 10 of them"):
        check(path, [one])


@pytest.mark.parametrize(
    ("form", "given", "rest"),
    [
        (AnswerForm.COUNT, "3", [3, "two", None]),
        (AnswerForm.CHOICE, 2, ["B", "two", None]),
    ],
)
def test_a_command_keeps_the_lines_that_it_cannot_convert(tmp_path, form, given, rest):
    one = sample("0", form)
    rows = [{"id": str(place), "answer": value} for place, value in enumerate([given, "two"])]
    path = write(tmp_path / "answers.jsonl", [*rows, {"id": "2", "response": None}])
    with pytest.raises(DataError) as error:
        row_to_answer(RowFile(path)["0"], one.query)
    convert(path, error)
    assert [row.value for row in read_rows(path)] == rest


def test_answers_numbered_by_the_rows_of_the_table(tmp_path):
    options = [("yes", "no"), ("left", "right"), ("one", "two"), ("up", "down")]
    samples = [
        Sample(
            id=f"video_{place // 2}/{place}",
            query=Query(
                id=query_id(str(place)),
                text="?",
                media=(),
                forms=(AnswerForm.CHOICE,),
                options=options[place],
            ),
            target=None,
            group=f"video_{place // 2}.mp4",
        )
        for place in range(4)
    ]
    for start in (0, 2):  # the second video's questions by position, by row
        plain = {
            f"video_{video}": [
                {
                    "id": place + start * video,
                    "answer_id": 1,
                    "answer": options[video * 2 + place][1],
                }
                for place in range(2)
            ]
            for video in range(2)
        }
        path = tmp_path / "answers.json"
        path.write_text(json.dumps(plain))
        matched = read_format("perception-test", path, samples)
        assert not matched.unmatched
        assert {name: row.value for name, row in matched.rows.items()} == {
            one.id: "B" for one in samples
        }
