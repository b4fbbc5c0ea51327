"""Letters of a file whose options have another order mean other options."""

import json
from contextlib import nullcontext

import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.types import AnswerForm, Query, Sample, query_id


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("vlmevalkit", {"A": "left", "B": "right"}),
        ("vlmevalkit", {"candidates": "['left', 'right']"}),
        ("lmms-eval", {"options": ["A. left", "B. right"]}),
        ("video-mme", {"options": ["A. left.", "B. right."]}),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_letters_of_options_in_another_order_are_refused(tmp_path, name, row, swapped):
    texts = ("right", "left") if swapped else ("left", "right")
    query = Query(
        id=query_id("7"), text="Which side?", media=(), forms=(AnswerForm.CHOICE,), options=texts
    )
    sample = Sample(id="7", query=query, target=None, group="v.mp4")
    about = {"question": "Which side?", "question_id": "7"}
    if name == "vlmevalkit":
        cells = {**about, **row, "prediction": "B"}
        path = tmp_path / "p.tsv"
        path.write_text("\n".join("\t".join(part) for part in (cells, cells.values())) + "\n")
    elif name == "lmms-eval":
        path = tmp_path / "p.jsonl"
        path.write_text(json.dumps({"doc_id": 0, "doc": {**about, **row}, "resps": [["B"]]}))
    else:
        path = tmp_path / "p.json"
        video = {"video_id": "v", "questions": [{**about, **row, "response": "B"}]}
        path.write_text(json.dumps([video]))
    with pytest.raises(DataError, match="options") if swapped else nullcontext():
        assert read_format(name, path, [sample]).rows["7"].value == "B"


def test_windows_that_are_not_sorted_by_score_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    line = {"query": "q", "vid": "v", "pred_relevant_windows": [[2, 4, 0.1], [1, 7, 0.9]]}
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError, match="sort_by"):
        read_format("qvhighlights", path, [])


def test_decimal_commas_of_a_table_with_semicolons_are_refused(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("index;question;prediction\n0;How wide?;37,632\n")
    with pytest.raises(DataError, match="37,632"):
        read_format("vlmevalkit", path, [])
