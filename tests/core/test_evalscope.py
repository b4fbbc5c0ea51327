"""EvalScope's reviews and predictions."""

import json
from pathlib import Path

import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.evalscope_logs import evalscope
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

GOLDEN = Path(__file__).parents[1] / "golden" / "evalscope"
QUESTIONS = ("Which way does it move?", "What is it?", "Who wins?", "Where does it stop?")
TEMPLATE = "Answer with a letter.\n\n{}\nA) left\nB) right"


def sample(number):
    query = Query(
        id=query_id(str(number)),
        text=QUESTIONS[number],
        media=(),
        forms=(AnswerForm.CHOICE,),
        options=("left", "right"),
    )
    return Sample(id=f"q{number}", query=query, target=Target(answer=Answer(choice="A")))


SAMPLES = [sample(number) for number in range(4)]


def asked(number):
    text = {"type": "text", "text": TEMPLATE.format(QUESTIONS[number])}
    return {"role": "user", "content": [text, {"type": "image", "image": "data:…"}]}


def review(number, prediction, **score):
    return {
        "index": number,
        "target": "A",
        "messages": [asked(number), {"role": "assistant", "content": prediction}],
        "agent_trace": None,
        "sample_score": {
            "score": {
                "value": {"acc": 1.0},
                "status": "success",
                "extracted_prediction": "A",
                "prediction": prediction,
                "main_score_name": "acc",
            }
            | score,
            "sample_id": number,
            "group_id": number,
            "sample_metadata": {"subject": "motion"},
        },
    }


def prediction(number, content):
    choice = {"message": {"role": "assistant", "content": content}, "stop_reason": "stop"}
    output = {"model": "m", "choices": [choice], "error": None}
    return {"index": number, "model": "m", "model_output": output, "messages": [asked(number)]}


def read(tmp_path, *records):
    path = tmp_path / "mvbench_default.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return read_format("evalscope", path, SAMPLES)


def responses(matched):
    return {name: row.value for name, row in matched.rows.items()}


@pytest.mark.parametrize("name", ["reviews", "predictions"])
def test_files_that_evalscope_wrote(name):
    """EvalScope 1.14.1 on two questions of `general_vmcq`, with its own `mock_llm` as the model."""
    path = GOLDEN / f"{name}.jsonl"
    said = "Default output from mockllm/model"
    assert [entry.ground_truth for entry in evalscope(path)] == (
        ["A", "B"] if name == "reviews" else ["", ""]
    )
    matched = read_format("evalscope", path, SAMPLES)
    assert responses(matched) == {"q0": said, "q1": said} and not matched.unmatched
    assert matched.scores == ({"q0": 0.0, "q1": 0.0} if name == "reviews" else {})


def test_the_response_of_a_review_counts_and_not_what_was_extracted_from_it(tmp_path):
    matched = read(
        tmp_path,
        review(2, "I think it is (A)."),
        review(0, "B", value={"acc": 0.0}),
        review(1, "A", value={}, status="judge_failed"),
        review(3, "A", value={"acc": 1, "f1": 0.5}),
    )
    assert responses(matched) == {"q0": "B", "q1": "A", "q2": "I think it is (A).", "q3": "A"}
    assert matched.scores == {"q2": 1.0, "q0": 0.0} and not matched.unmatched


def test_a_predictions_text_is_read_without_its_reasoning(tmp_path):
    parts = [{"type": "reasoning", "reasoning": "B?"}, {"type": "text", "text": "A"}]
    refused = prediction(1, "")
    refused["model_output"] |= {"choices": [], "error": "content moderation"}
    matched = read(tmp_path, prediction(0, parts), refused, prediction(2, ""))
    assert responses(matched) == {"q0": "A", "q2": ""} and matched.scores == {}


def test_several_responses_to_a_question_are_refused(tmp_path):
    second = review(1, "B")
    second["sample_score"]["group_id"] = 0
    with pytest.raises(DataError, match="one response a question"):
        read(tmp_path, review(0, "A"), second)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"index": 0, "messages": []}, "model_output"),
        (review(0, None), "prediction"),
        (review(0, "A") | {"index": "0"}, "index"),
        (review(0, "A") | {"sample_score": []}, "sample_score"),
    ],
)
def test_what_is_not_evalscopes_names_line_and_field(tmp_path, record, words):
    with pytest.raises(DataError, match=f"line 2.*{words}"):
        read(tmp_path, review(1, "A"), record)


def test_a_report_is_refused_by_what_it_is(tmp_path):
    path = tmp_path / "mvbench.json"
    path.write_text(json.dumps({"name": "m@mvbench", "score": 0.5, "metrics": []}))
    with pytest.raises(DataError, match=r"reviews/ or predictions/.*report"):
        read_format("evalscope", path, SAMPLES)
