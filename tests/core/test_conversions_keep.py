"""Printed commands change what they are printed for, and lose nothing else of a file."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from harness.errors import DataError
from harness.formats.units import check_units
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import RowFile, read_rows
from harness.types import AnswerForm, Query, Sample, query_id

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
COMMAND = re.compile(r"`((?:jq|\S*python\S*) -.*?) > NEW`")
MIXED = [
    *("B", "(c)", "none of them", "12.50", " 7 ", "1,5", "1.234,5", "-1", "1e3", ".5", "007"),
    *("", "NaN", "nan", "None", "N/A", "3 chairs", "0x10", "五"),
    *(2, 2.5, 3.0, None, [1.0, 2.0], [], "[3, 7]", ["00:03", "00:07"]),
]
"""Answers as a table of several question types has them."""


def query(form, **more):
    return Query(id=query_id("a"), text="?", media=(), forms=(AnswerForm(form),), **more)


def write(path, values, kind="answer"):
    lines = [json.dumps({"id": f"{n:03}", kind: value}) for n, value in enumerate(values)]
    path.write_text("".join(f"{line}\n" for line in lines))


def run(path, error, place=0):
    """The lines that a command of an error makes, by id."""
    command = COMMAND.findall(str(error.value))[place]
    parts = [sys.executable if part == "python" else part for part in shlex.split(command)]
    done = subprocess.run(parts, cwd=path.parent, capture_output=True, check=True)
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return {line.pop("id"): line for line in lines}


@pytest.mark.parametrize(
    ("form", "given", "place", "changed"),
    [
        (
            "number",
            "12.50",
            0,
            {"12.50": 12.5, " 7 ": 7, "-1": -1, "1e3": 1000, ".5": 0.5, "007": 7, "nan": None}
            | {"NaN": None},
        ),
        ("count", 3.0, 0, {3.0: 3}),
        ("choice", "2", 0, {"12.50": ..., 2: "B", " 7 ": "", "007": "", "1e3": "", 3.0: "C"}),
        ("choice", "2", 1, {2: "C", 3.0: "D", " 7 ": "", "007": "", "1e3": ""}),
        ("interval", "[3, 7]", 0, {"[3, 7]": [3, 7]}),
        ("interval", ["00:03", "00:07"], 0, {"['00:03', '00:07']": [3, 7]}),
    ],
)
def test_a_command_keeps_what_it_cannot_convert(tmp_path, form, given, place, changed):
    path = tmp_path / "vsi.jsonl"
    write(path, [given])
    options = tuple("wxyz") if form == "choice" else ()
    with pytest.raises(DataError) as error:
        row_to_answer(next(read_rows(path)), query(form, options=options))
    write(path, MIXED)
    converted = run(path, error, place)
    known = {str(key): value for key, value in changed.items() if value is not ...}
    # jq 1.6 and later differ in whether they read "nan" and "NaN" as a number; both print null.
    for number, before in enumerate(MIXED):
        after = converted[f"{number:03}"]["answer"]
        wanted = known.get(str(before), before)
        assert after == wanted or (after == before and wanted is None), (before, after)
    assert len(converted) == len(MIXED)


def test_what_stands_for_no_number_becomes_a_failure_and_nothing_else_does(tmp_path):
    path = tmp_path / "vsi.jsonl"
    write(path, ["N/A"])
    with pytest.raises(DataError, match="gave none") as error:
        row_to_answer(next(read_rows(path)), query("count"))
    write(path, MIXED)
    converted = run(path, error)
    failed = [MIXED[int(name)] for name, line in converted.items() if line == {"response": None}]
    assert failed == ["", "NaN", "nan", "None", "N/A", None]
    kept = {name: line["answer"] for name, line in converted.items() if "answer" in line}
    assert kept == {f"{n:03}": v for n, v in enumerate(MIXED) if v not in failed}


@pytest.mark.parametrize("given", ["3 chairs", "1,5", "B", "0x10"])
def test_a_text_that_is_no_number_gets_no_command(tmp_path, given):
    path = tmp_path / "vsi.jsonl"
    write(path, [given])
    with pytest.raises(DataError, match='"response"') as error:
        row_to_answer(next(read_rows(path)), query("number"))
    assert "jq" not in str(error.value)


def test_texts_of_intervals_become_responses_and_other_lines_stay(tmp_path):
    path = tmp_path / "spans.jsonl"
    write(path, ["from 3 to 7"])
    with pytest.raises(DataError) as error:
        row_to_answer(next(read_rows(path)), query("interval"))
    others = [{"answer": [1, 2]}, {"response": "x"}, {"boxes": []}, {"no_target": True}]
    with path.open("a") as file:
        file.writelines(json.dumps({"id": f"o{n}", **line}) + "\n" for n, line in enumerate(others))
    converted = run(path, error)
    assert converted.pop("000") == {"response": "from 3 to 7"}
    assert list(converted.values()) == others


def test_decimal_commas_become_points_in_numbers_alone(tmp_path):
    path = tmp_path / "numbers.jsonl"
    texts = ["1,5", "1,234", "Yes, it is", "2,75 m", "3", None, ["1,5", "2"]]
    write(path, texts, "response")
    samples = [Sample(id=f"{n:03}", query=query("number"), target=None) for n in range(len(texts))]
    with pytest.raises(DataError, match="decimal") as error:
        check_units(RowFile(path), samples, "x")
    converted = [line["response"] for line in run(path, error).values()]
    assert converted == ["1.5", "1.234", *texts[2:]]


def test_lists_of_one_become_values_but_masks_of_no_object_stay(tmp_path):
    path = tmp_path / "jsonlite.jsonl"
    lines = [
        {"id": ["0"], "answer": ["B"]},
        {"id": ["1"], "masks": [None]},
        {"id": ["2"], "answer": [5]},
        {"id": ["3"], "boxes": [[1, 2, 3, 4]], "box_scores": [0.5]},
        {"id": ["4"], "no_target": [True]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match="in a list") as error:
        list(read_rows(path))
    assert list(run(path, error).values()) == [
        {"answer": "B"},
        {"masks": [None]},
        {"answer": 5},
        {"boxes": [[1, 2, 3, 4]], "box_scores": [0.5]},
        {"no_target": True},
    ]


def test_a_command_for_polygons_stops_at_other_lines(tmp_path):
    path = tmp_path / "polygons.jsonl"
    write(path, [[[1, 1, 5, 1, 5, 4]]], "masks")
    with pytest.raises(DataError, match="polygons") as error:
        row_to_answer(next(read_rows(path)), query("mask"))
    command = COMMAND.findall(str(error.value))[0]
    with path.open("a") as file:
        file.write('{"id": "b", "no_target": true}\n')
    done = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True)
    assert [record["image_id"] for record in json.loads(done.stdout)] == ["000"]
    with path.open("a") as file:
        file.write('{"id": "c", "response": "x"}\n')
    assert subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True).returncode


@pytest.mark.parametrize("is_list", [True, False], ids=["list", "lines"])
@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"image_id": 7, "count": 5}, "answer"),
        ({"question_id": "7", "boxes": [[1, 2, 3, 4]]}, "boxes"),
        ({"id": 7, "answer": 5}, "answer"),
        ({"qid": 7, "prediction": "five", "label": "six"}, "response"),
    ],
)
def test_one_command_makes_lines_of_objects_with_another_id(tmp_path, row, kind, is_list):
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps([row]) if is_list else json.dumps(row))
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    ((name, line),) = run(path, error).items()
    assert name == "7" and list(line) == [kind]
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"id": name, **line}))
    assert len(list(read_rows(lines))) == 1


def test_what_may_be_the_ground_truth_is_not_named_an_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps([{"image_id": 7, "answer": 5, "gt": 5}]))
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    (command,) = COMMAND.findall(str(error.value))
    lines = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    path.with_suffix(".jsonl").write_text(lines)
    with pytest.raises(DataError, match="answer, gt"):
        list(read_rows(path.with_suffix(".jsonl")))
