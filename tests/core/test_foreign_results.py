"""Results of published evaluations: the printed command keeps each question's answer."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from harness.errors import DataError
from harness.interchange.rows import read_rows

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")


def rows(path, error, **known):
    """Return the rows that an error's command writes; `known` replaces names in the command."""
    typed = re.search(r"`(.*?)`", str(error.value), re.DOTALL)[1]
    typed = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", typed)
    for name, value in known.items():
        typed = typed.replace(name, value)
    subprocess.run(typed, shell=True, cwd=path.parent, check=True)
    return {row.id: (row.kind, row.value) for row in read_rows(path.parent / "NEW")}


COUNTS = {"acc": 50.0, "correct": 1, "count": 2}
RECORD = {
    "question_id": "5",
    "parsed_ans": "B",
    "ground_truth": "A",
    "question": "Which?",
    "pred": "The answer is B.",
    "is_multimodal": True,
}
PROMPT_PG = {
    "answer": "18",
    "answer_norm": "18",
    "output": "281 − 263 = 18 The answer is 18.",
    "prediction": "18",
    "prediction_norm": "18",
    "true_false": True,
}
NEXT_QA = {"prediction": 2, "answer": 1}
FILES = {
    "LLaVA's results of ScienceQA": (
        {**COUNTS, "results": {"4": 1, "5": -1}, "outputs": {"4": "B", "5": "The cat."}},
        {"4": ("response", "B"), "5": ("response", "The cat.")},
    ),
    "ScienceQA's results alone": (
        {**COUNTS, "results": {"4": 1, "5": -1}},
        {"4": ("answer", "B"), "5": ("response", None)},
    ),
    "LLaVA's evaluation": (
        {"correct": [RECORD], "incorrect": [{**RECORD, "question_id": "6", "pred": "FAILED"}]},
        {"5": ("response", "The answer is B."), "6": ("response", "FAILED")},
    ),
    "A-OKVQA's predictions": (
        {key: {"multiple_choice": key, "direct_answer": "1"} for key in ("ab", "cd")},
        {"ab": ("response", "ab"), "cd": ("response", "cd")},
    ),
    "ActivityNet's results": (
        {
            "version": "1.3",
            "results": {
                "v1": [
                    {"segment": [1.0, 2.0], "score": 0.2, "label": "a"},
                    {"segment": [3.0, 5.0], "score": 0.9, "label": "a"},
                ],
                "v2": [],
            },
            "external_data": {},
        },
        {"v1": ("answer", [3.0, 5.0]), "v2": ("response", None)},
    ),
    "results by id": (
        {"results": {"7": {"id": "7", "response": "B"}, "4": {"response": "A"}}, "acc": 1},
        {"7": ("response", "B"), "4": ("response", "A")},
    ),
    "HallusionBench's results": (
        [{"question_id": "3", "gt_answer": "1", "question": "Is it?", "model_prediction": "Yes."}],
        {"3": ("response", "Yes.")},
    ),
    "PromptPG": (
        {**COUNTS, "shot_pids": ["3109"], "args": {"model": "gpt3"}, "results": {"8": PROMPT_PG}},
        {"8": ("response", PROMPT_PG["output"])},
    ),
    "NExT-QA": (
        {"4010069381_6": NEXT_QA, "5000000000_6": {"prediction": 0, "answer": 0}},
        {"4010069381_6": ("answer", "C"), "5000000000_6": ("answer", "A")},
    ),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", FILES)
def test_results_keep_their_ids(name, indent, tmp_path):
    plain, expected = FILES[name]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(plain, indent=indent), encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert rows(path, error) == expected


def test_of_segments_without_scores_none_is_chosen(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {"v1": [{"segment": [1, 2]}, {"segment": [3, 5]}]}}))
    with pytest.raises(DataError, match="ActivityNet") as error:
        list(read_rows(path))
    with pytest.raises(subprocess.CalledProcessError):
        rows(path, error)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Select.\n(a) 1 (b) 2", "response": "LETTER", "y_pred": "c", "y_true": "a"},
        {"question": "Which?", "answer": "LETTER"},
    ],
    ids=["VisOnlyQA", "POPE"],
)
def test_responses_without_ids_have_the_order_of_the_samples(row, tmp_path):
    path = tmp_path / "gpt-4o.jsonl"
    lines = [f"{json.dumps(row)}\n".replace("LETTER", letter) for letter in "ab"]
    path.write_text("".join(lines), encoding="utf-8")
    (tmp_path / "two.jsonl").write_text(
        "".join(json.dumps({"q": f"Which of {n}?", "i": "x.png"}) + "\n" for n in range(2))
    )
    (tmp_path / "two.toml").write_text(
        'name = "two"\n[media]\nimages = "i"\n[question]\ntext = "q"\n[answer]\nform = "text"\n'
    )
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    known = {"TASK": f"table(file={tmp_path}/two.jsonl)", "ROOT": str(tmp_path)}
    assert rows(path, error, **known) == {"0": ("response", "a"), "1": ("response", "b")}


@pytest.mark.parametrize("line", ["1,1,912,484,97,109,0,7,1", "0 2 1 -0.2 7 1 8 3"])
def test_lines_of_numbers_are_no_table(line, tmp_path):
    path = tmp_path / "gt.txt"
    path.write_text(f"{line}\n" * 2, encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert "DictReader" not in str(error.value) and "docs/predictions.md" in str(error.value)
