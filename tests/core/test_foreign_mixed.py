"""Lines of several kinds in a file: a command changes those that it is printed for."""

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace

import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import read_rows
from harness.types import AnswerForm, Query, Sample, query_id

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
COMMAND = re.compile(r"`(jq -c .*?) > NEW`")


def convert(path, error):
    """Run the command of an error; return the rows that it makes."""
    command = COMMAND.findall(str(error.value))[0]
    done = subprocess.run(shlex.split(command), cwd=path.parent, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    return list(read_rows(path))


def asking(name, form=AnswerForm.INTERVAL):
    return Query(id=query_id(name), text="?", media=(), forms=(form,))


@pytest.mark.parametrize(
    ("form", "kind", "given", "read"),
    [
        ("interval", "answer", ["00:03", "01:07.5"], [3, 67.5]),
        ("interval", "answer", ["0:00:03", "1:00:07"], [3, 3607]),
        ("interval", "answer", "[3, 7]", [3, 7]),
        ("interval", "answer", [[3, 7], [8, 9]], [3, 7]),
        ("interval", "answer", [3, 7, 0.9], [3, 7]),
        ("boxes", "boxes", ["[3, 4, 7, 9]"], [[3, 4, 7, 9]]),
        ("boxes", "boxes", "[[3, 4, 7, 9]]", [[3, 4, 7, 9]]),
    ],
)
def test_a_command_changes_its_own_kind_of_lines_alone(tmp_path, form, kind, given, read):
    path = tmp_path / "mixed.jsonl"
    others = [{"answer": "None of them"}, {"answer": 4}, {"response": None}, {"boxes": []}]
    lines = [{"id": str(place), **row} for place, row in enumerate([{kind: given}, *others])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError) as error:
        row_to_answer(next(read_rows(path)), asking("0", AnswerForm(form)))
    row, *rows = convert(path, error)
    assert row.value == read
    assert [{row.kind: row.value} for row in rows] == others


def test_scores_in_lists_become_numbers(tmp_path):
    path = tmp_path / "scores.jsonl"
    line = {"id": "0", "boxes": [[3, 4, 7, 9]], "box_scores": [[0.9]]}
    path.write_text(json.dumps(line) + "\n" + json.dumps({"id": "1", "boxes": []}) + "\n")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert [row.box_scores for row in convert(path, error)] == [(0.9,), None]


@pytest.mark.parametrize("key", ["pred", "answer"])
def test_lines_without_what_a_model_wrote_are_kept(tmp_path, key):
    path = tmp_path / "lines.jsonl"
    lines = [{"id": "0", key: "B. two", "gt": "A"}, {"id": "1", "response": "C"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    rows = convert(path, error)
    assert [(row.kind, row.value) for row in rows] == [("response", "B. two"), ("response", "C")]


@pytest.mark.parametrize(
    "value", [{"timestamps": [[1.0, 2.5], [3, 4]], "answers": "From 1"}, [[1.0, 2.5]], [1.0, 2.5]]
)
def test_moments_by_video_query_and_ground_truth(tmp_path, value):
    path = tmp_path / "moments.json"
    keys = ["videos/v.mp4>>>one>>>[1.0, 2.0]", "videos/v.mp4>>>two>>>[4, 5]"]
    path.write_text(json.dumps({keys[0]: value, keys[1]: []}))
    with pytest.raises(DataError, match="--format qvhighlights") as error:
        list(read_rows(path))
    command = COMMAND.findall(str(error.value))[0]
    done = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    samples = [
        Sample(id=text, query=replace(asking(text), text=text), target=None, group="v.mp4")
        for text in ("one", "two")
    ]
    rows = read_format("qvhighlights", path, samples).rows
    assert {name: row.value for name, row in rows.items()} == {"one": [1.0, 2.5], "two": None}
