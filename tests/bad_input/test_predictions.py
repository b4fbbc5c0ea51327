"""Predictions files of other programs: `harness score --predictions`."""

import gzip
import io
import json
import pickle
import tracemalloc

import numpy as np
import pytest

from harness.interchange.rows import MAX_LINE_BYTES
from harness.masks import Rle
from harness.run_lengths import encode_runs
from harness.world.encode import encode_png

case = pytest.mark.case


@pytest.fixture
def wide(reason_seg):
    """(id, width, height) of an image that is not square."""
    from PIL import Image

    for path in sorted(reason_seg.glob("*.jpg")):
        width, height = Image.open(path).size
        if width != height:
            return path.stem, width, height
    raise AssertionError("the world has images that are not square")


def full(height, width):
    return Rle.full(height, width).to_json()


@case("masks for too few or too many frames", "refused; names the line and both numbers", code=3)
@pytest.mark.parametrize("count", [0, 7, 9])
def test_a_mask_a_frame_is_needed(harness, mevis, count):
    (video,) = list(json.loads((mevis / "meta_expressions.json").read_text())["videos"])[:1]
    rows = [{"id": f"{video}/0", "masks": [None] * count}]
    harness.score(rows).says("line 1", f"{video}/0", "8 masks, one a frame", f"found {count}")


@case(
    "images of masks whose names are not the frames'",
    "refused; names what is missing and what is too much",
    code=3,
)
@pytest.mark.parametrize("pattern", ["{}.png", "{:05}.bmp", "{:04}.png"])
def test_an_image_is_a_frame_by_its_name(harness, mevis, pattern):
    (video,) = list(json.loads((mevis / "meta_expressions.json").read_text())["videos"])[:1]
    folder = harness.folder / "tree" / video / "0"
    folder.mkdir(parents=True)
    for number in range(8):
        (folder / pattern.format(number)).write_bytes(b"")
    harness(
        "score",
        "--tasks",
        "mevis",
        "--data",
        harness.folder / "data",
        "--format",
        "png-tree",
        "--predictions",
        harness.folder / "tree",
    ).says(f"{video}/0", "missing: 00000.png")


@case("`null` for a frame", "an empty mask: said, not missing", code=0)
def test_null_is_an_empty_mask(harness, mevis):
    (video,) = list(json.loads((mevis / "meta_expressions.json").read_text())["videos"])[:1]
    found = harness.score([{"id": f"{video}/0", "masks": [None] * 8}]).task("mevis")
    assert found["n_scored"] == 1 and found["failures"]["infrastructure"] == found["n_total"] - 1


@case(
    "run-lengths that do not add up, in predictions",
    "refused before C code decodes them; names the line, the id and the frame",
    code=3,
)
@pytest.mark.parametrize("counts", ["5", "", "é0", "P" * 30, [1, 2], [-5, 10], [True, 3], None, 5])
def test_run_lengths_are_checked_before_they_are_decoded(harness, wide, counts):
    name, width, height = wide
    rows = [{"id": name, "masks": [{"size": [height, width], "counts": counts}]}]
    harness.score(rows).says("line 1", name, "frame 0", "expected", "found")


@case(
    "run-lengths with a letter that is no ASCII",
    "refused; it is not read as another letter",
    code=3,
)
def test_a_letter_beyond_ascii_is_not_read_as_another(harness, wide):
    name, width, height = wide
    text = encode_runs([15, width * height - 15])
    assert text[0] == "?", "what Python puts in the place of such a letter"
    rows = [{"id": name, "masks": [{"size": [height, width], "counts": text}]}]
    assert harness.score(rows, code=0).task("reason_seg")["n_scored"] == 1
    rows[0]["masks"][0]["counts"] = "é" + text[1:]
    harness.score(rows).says("line 1", name, "frame 0", "'0' to 'o'")


@case("masks of 10⁶ × 10⁶ or of negative size, in predictions", "refused; names the line", code=3)
@pytest.mark.parametrize("size", [[10**6, 10**6], [-1, 5], [0, 0], [1.5, 2], 7, ["1", "2"], None])
def test_an_impossible_size_is_refused(harness, wide, size):
    rows = [{"id": wide[0], "masks": [{"size": size, "counts": "5"}]}]
    harness.score(rows).says("line 1", wide[0], "frame 0", "size")


@case(
    "NaN, Infinity, 1e999, a key twice or text behind the object",
    "refused; names the line",
    code=3,
)
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{"id": "0", "boxes": [[1, 2, NaN, 4]]}', "NaN"),
        ('{"id": "0", "boxes": [[1, 2, Infinity, 4]]}', "Infinity"),
        ('{"id": "0", "boxes": [[1e999, 2, 1, 4]]}', "too large"),
        ('{"id": "0", "answer": 3, "answer": 4}', "'answer' twice"),
        ('{"id": "0", "answer": 3} and more', "Extra data"),
        ('{"id": "0", "answer": 3}{"id": "1", "answer": 3}', "Extra data"),
    ],
)
def test_json_is_read_strictly(harness, counting, row, words):
    harness.score(row.encode(), tasks="counting").says("said.jsonl, line 1", words)


@case(
    "boxes without area, of three numbers, or for a question about masks",
    "refused; edges are never swapped",
    code=3,
)
@pytest.mark.parametrize("box", [[9, 2, 1, 4], [1, 4, 9, 2], [1, 1, 1, 1], [1, 2, 3], ["1"] * 4])
def test_a_box_without_area_is_refused(harness, counting, box):
    harness.score([{"id": "0", "boxes": [box]}], tasks="counting").says("line 1", "id '0'", "box")


@case("a point [-1, -1], as some files write none", "refused; says how none is written", code=3)
def test_a_point_that_stands_for_none_is_refused(harness, counting):
    row = {"id": "0", "points": [[3, 4], [-1, -1]]}
    harness.score([row], tasks="counting").says("line 1", "[-1, -1]")


@case("more than 100 000 boxes, or a count beyond a thousand million", "refused", code=3)
@pytest.mark.parametrize(
    "row",
    [
        {"boxes": [[1, 2, 3, 4]] * 100_001},
        {"answer": 10**10},
        {"points": [[1, 2]] * 100_001},
    ],
)
def test_there_are_bounds(harness, counting, row):
    harness.score([{"id": "0", **row}], tasks="counting").says("line 1", "id '0'", "000")


@case("10⁵ digits or 10⁵ levels of nesting", "refused; names the line", code=3)
@pytest.mark.parametrize("text", ["[" * 100_000, '{"id": "0", "answer": ' + "9" * 100_000 + "}"])
def test_depth_and_digits_are_bounded(harness, counting, text):
    harness.score(text.encode(), tasks="counting").says("line 1", "JSON")


@case("predictions for another split", "refused: so many ids are not of this split", code=3)
def test_predictions_for_another_split_are_refused(harness, reason_seg):
    rows = [{"id": f"test_{number:05d}", "no_target": True} for number in range(8)]
    harness.score(rows).says("8 others", "'test_00000'", "line 1", "split val", "No line")


@case("masks whose size is [width, height]", "refused; says which order is meant", code=3)
def test_turned_masks_are_told_apart(harness, wide):
    name, width, height = wide
    done = harness.score([{"id": name, "masks": [full(width, height)]}])
    done.says(f"[{height}, {width}]", f"[{width}, {height}]", "[height, width]")


@case("masks at another scale", "refused; never resized", code=3)
def test_masks_at_another_scale_are_refused(harness, wide):
    name, width, height = wide
    done = harness.score([{"id": name, "masks": [full(height // 2, width // 2)]}])
    done.says("line 1", f"[{height}, {width}]", f"[{height // 2}, {width // 2}]")


@case(
    "a file of a mask that is cut, of another size, in colours or of several values of grey, "
    "or a pickle as .npy",
    "refused by name; never resized, never unpickled",
    code=3,
)
@pytest.mark.parametrize(
    ("end", "content", "words"),
    [
        (".png", lambda size: encode_png(np.zeros(size[::-1], np.uint8))[:50], "a complete PNG"),
        (".png", lambda size: encode_png(np.zeros(size, np.uint8)), "192 × 256"),
        (
            ".png",
            lambda size: encode_png(np.indices(size[::-1], np.uint8)[0]),
            "besides 0",
        ),
        (
            ".png",
            lambda size: encode_png(np.eye(3, dtype=np.uint8)[np.zeros(size[::-1], int)]),
            "RGB",
        ),
        (".jpg", lambda size: b"\xff\xd8\xff\xe0", "write the masks as PNG"),
        (".npy", lambda size: pickle.dumps(Canary()), "numpy.save"),
        (".npy", lambda size: npy(np.full(size[::-1], Canary(), object)), "array"),
        (".npy", lambda size: npy(np.full(size[::-1], 1.5)), "from 0 to 1"),
        (".npy", lambda size: npy(np.zeros(size[::-1]))[:-1], "array"),
    ],
)
def test_a_file_that_tells_no_mask_is_refused(harness, wide, end, content, words):
    name, *size = wide
    path = harness.folder / "tree" / f"{name}{end}"
    path.parent.mkdir()
    path.write_bytes(content(tuple(size)))
    harness(
        "score",
        "--tasks",
        "reason_seg",
        "--data",
        harness.folder / "data",
        "--format",
        "mask-tree",
        "--predictions",
        path.parent,
    ).says(path.name, words)


class Canary:
    def __reduce__(self):
        return (pytest.fail, ("code in a prediction was run",))


def npy(values):
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


@case("an id twice, or a number for an id", "refused; names the line", code=3)
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": "0", "answer": 1}, {"id": "0", "answer": 1}], "line 2: id '0'"),
        ([{"id": 0, "answer": 1}], "a text"),
        ([{"answer": 1}], "a text"),
        ([["0", 1]], "a text"),
        ([{"id": None, "answer": 1}], "a text"),
        ([{"id": "\ud800", "answer": 1}], r"'\ud800'"),
    ],
)
def test_an_id_is_text_and_occurs_once(harness, counting, rows, words):
    harness.score(rows, tasks="counting").says(words)


@case(
    "a byte-order mark, CRLF, blank lines, no newline at the end",
    "read without them",
    code=0,
)
def test_marks_and_line_ends_change_nothing(harness, counting):
    rows = [json.dumps({"id": str(number), "answer": number}) for number in range(4)]
    plain = harness.score("\n".join(rows).encode(), tasks="counting").task("counting")
    odd = b"\xef\xbb\xbf" + "\r\n\r\n".join(rows).encode() + b"\r\n"
    assert harness.score(odd, tasks="counting").task("counting") == plain
    assert plain["n_scored"] == 4


@case(
    "a gzip or zip file, UTF-16, one JSON list, indented JSON",
    "refused; says what a line must be, or to unpack it",
    code=3,
)
@pytest.mark.parametrize("form", ["gzip", "zip", "utf-16", "list", "indented", "nul"])
def test_other_forms_are_refused(harness, counting, form):
    rows = [{"id": str(number), "answer": number} for number in range(4)]
    text = "\n".join(map(json.dumps, rows))
    raw, words = {
        "gzip": (gzip.compress(text.encode()), "gunzip said.jsonl"),
        "zip": (b"PK\x03\x04" + text.encode(), "unzip said.jsonl"),
        "utf-16": (text.encode("utf-16"), "iconv -f utf-16"),
        "list": (json.dumps(rows).encode(), "jq -c '.[]' said.jsonl"),
        "indented": (json.dumps(rows, indent=1).encode(), "jq -c '.[]' said.jsonl"),
        "nul": (b"\0" * 999, "line 1: expected one JSON object, found 999 zero bytes"),
    }[form]
    harness.score(raw, tasks="counting").says("said.jsonl", words)


@case("lines of other programs, a table", "refused; says how to make lines of them", code=3)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": 0, "answer": 1}', "jq -c '.id |= tostring' said.jsonl"),
        # LLaVA's model_vqa.py
        (
            '{"question_id": 0, "prompt": "?", "text": "2", "model_id": "m"}',
            "then {id: (.question_id | tostring), response: .text} else . end' said.jsonl",
        ),
        # an answer may be the ground truth: no command takes it for what the model wrote
        ('{"question_id": 0, "answer": "2"}', "{id: (.question_id | tostring), answer: .answer}"),
        # EvalScope numbers the rows of what was evaluated
        ('{"index": 0, "model_output": {}}', "logs of other programs need --format"),
        # MVBench's notebook
        ('{"acc_dict": {}, "res_list": [{"pred": "(A)"}]}', "jq -c '.res_list[]' said.jsonl"),
        ("id,answer\n0,2\n", "csv.DictReader("),
        ('{\n    "id": "0",\n    "answer": 2\n}\n', "jq -c ."),
    ],
)
def test_other_lines_have_a_way_out(harness, counting, text, words):
    harness.score(text.encode(), tasks="counting").says("said.jsonl, line 1", words)


@case("a line of 100 MB", "refused after 64 MiB; the rest is not read", code=3)
def test_an_endless_line_is_not_read_whole(harness, counting):
    path = harness.folder / "said.jsonl"
    with path.open("wb") as file:
        file.write(b"0" * (8 * MAX_LINE_BYTES))  # a file with a hole is refused before it is read
    tracemalloc.start()
    try:
        done = harness(
            "score",
            "--tasks",
            "counting",
            "--data",
            harness.folder / "data",
            "--predictions",
            path,
            "--json",
        )
        _, limit = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    done.says("line 1", f"{MAX_LINE_BYTES} bytes")
    assert limit < 4 * MAX_LINE_BYTES


@case("a folder, or no file, as predictions", "refused; names the path", code=3)
@pytest.mark.parametrize("name", ["", "none.jsonl"])
def test_predictions_must_be_a_file(harness, counting, name):
    path = harness.folder / name
    done = harness(
        "score",
        "--tasks",
        "counting",
        "--data",
        harness.folder / "data",
        "--predictions",
        path,
        "--json",
    )
    done.says(f"predictions {path}", "expected a file", "found")


@case(
    "an empty predictions file",
    "refused: nothing was predicted, not everything wrongly",
    code=3,
)
@pytest.mark.parametrize("raw", [b"", b"\n\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(harness, counting, raw):
    harness.score(raw, tasks="counting").says("said.jsonl", "none")


@case("ids from 1 where the benchmark's are from 0", "refused; says to subtract 1", code=3)
def test_ids_that_count_from_1_have_a_way_out(harness, counting):
    rows = [{"id": str(number), "answer": 3} for number in range(1, 9)]
    harness.score(rows, tasks="counting").says("subtract 1")


@case("a sample without a line", "a failure of the infrastructure, counted in the score", code=0)
def test_a_sample_without_a_line_fails(harness, counting):
    found = harness.score([{"id": "0", "answer": 3}], tasks="counting").task("counting")
    assert found["failures"]["infrastructure"] == found["n_failed"] == found["n_total"] - 1 == 7


@case("`null` in place of a whole value", "a failure of the model, counted in the score", code=0)
@pytest.mark.parametrize("key", ["response", "answer", "boxes", "points"])
@pytest.mark.parametrize("model", [[], ["--model", "qwen_vl(backend=stored)"]])
def test_null_in_place_of_a_value_fails(harness, counting, key, model):
    rows = [{"id": "0", key: None}] + [{"id": f"{n}", "answer": n} for n in range(1, 8)]
    scored = harness.score(rows, *model, tasks="counting", code=0).task("counting")
    assert scored["n_failed"] == scored["failures"]["model"] == 1


@case(
    "boxes for masks, masks for a count, two kinds, an unknown field",
    "refused; says what fits the question",
    code=3,
)
@pytest.mark.parametrize(
    ("task", "row", "words"),
    [
        ("reason_seg", {"id": "val_00000", "boxes": [[1, 2, 3, 4]]}, 'found "boxes"'),
        ("reason_seg", {"id": "val_00000", "answer": "B"}, 'found "answer"'),
        ("counting", {"id": "0", "masks": [None]}, 'found "masks"'),
        ("counting", {"id": "0", "answer": "3"}, "found '3'"),
        ("counting", {"id": "0", "answer": 3.0}, "found 3.0"),
        ("counting", {"id": "0", "answer": True}, "found True"),
        ("counting", {"id": "0", "answer": -1}, "found -1"),
        ("counting", {"id": "0", "no_target": "yes"}, "found 'yes'"),
        ("counting", {"id": "0", "answer": 3, "boxes": []}, "found boxes, answer"),
        ("counting", {"id": "0", "count": 3}, "response, boxes, points, masks, instances, answer"),
        ("counting", {"id": "0"}, "response, boxes, points, masks, instances, answer"),
        ("counting", {"id": "0", "box_scores": [1], "boxes": 5}, "box_scores"),
        ("counting", {"id": "0", "box_scores": [1], "boxes": [[1, 2, 3, 4]] * 2}, "box_scores"),
        ("reason_seg", {"id": "val_00000", "instances": 5}, "int"),
        ("reason_seg", {"id": "val_00000", "instances": [[None] * 2]}, "2 of them"),
        ("reason_seg", {"id": "val_00000", "instances": [[None]], "box_scores": []}, "box_scores"),
        ("counting", {"id": "0", "response": 5}, '"response"'),
    ],
)
def test_a_row_must_fit_its_question(harness, bench, task, row, words):
    bench(task)
    more = ["--model", "qwen_vl(backend=stored)"] if "response" in row else []
    harness.score([row], *more, tasks=task).says("line 1", words)


@case("responses without a model that reads them", "refused; names one that does", code=2)
@pytest.mark.parametrize("model", [[], ["--model", "random"]])
def test_responses_need_a_reader(harness, counting, model):
    rows = [{"id": "0", "response": "3"}]
    harness.score(rows, *model, tasks="counting").says("qwen_vl(backend=stored")


@case(
    "predictions for a split whose ground truth is hidden",
    "refused; says what writes the server's file",
    code=3,
)
def test_hidden_ground_truth_cannot_be_scored(harness, shapes):
    (video,) = list(videos_of(shapes))[:1]
    path = harness.folder / "said.jsonl"
    path.write_text(json.dumps({"id": f"{video}/0", "no_target": True}))
    done = harness(
        "score", "--tasks", "mevis(split=valid)", "--data", shapes, "--predictions", path, "--json"
    )
    done.says("mevis", "valid", "harness eval")


def videos_of(root):
    listed = json.loads((root / "mevis" / "valid" / "meta_expressions.json").read_text())
    return listed["videos"]


@case("predictions whose run folder is there already", "refused; the old run stays", code=5)
def test_an_earlier_run_of_predictions_is_kept(harness, counting, contents):
    rows = [{"id": "0", "answer": 3}]
    out = harness.folder / "runs"
    harness.score(rows, "--out", out, tasks="counting", code=0)
    before = contents(out)
    rows = [{"id": "0", "answer": 4}]
    harness.score(rows, "--out", out, tasks="counting").says(str(out), "--out or --name")
    assert contents(out) == before
