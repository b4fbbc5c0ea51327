"""Lines of other programs: the command in the error makes lines of ours that say the same."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.units import check_units
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import read_rows
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
COMMAND = re.compile(r"`(jq -c .*?) > NEW`")


def in_this_python(command):
    """Arguments of a printed command; `python` is the one that runs the tests."""
    first, *rest = shlex.split(command)
    return [sys.executable if first == "python" else first, *rest]


def convert(path, error, place=0):
    """Run the command of an error; return the rows that it makes."""
    command = COMMAND.findall(str(error.value))[place]
    done = subprocess.run(in_this_python(command), cwd=path.parent, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    return list(read_rows(path))


# As the programs write them: batches of OpenAI (also Mistral, vLLM), Anthropic and Gemini.
CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": "(B) two"},
    "finish_reason": "stop",
}
FILES = {
    "openai": [
        {
            "id": "batch_req_1",
            "custom_id": "7",
            "response": {
                "status_code": 200,
                "request_id": "r",
                "body": {"id": "c", "object": "chat.completion", "choices": [CHOICE], "usage": {}},
            },
            "error": None,
        },
        {
            "id": "batch_req_2",
            "custom_id": "8",
            "response": {"status_code": 429, "request_id": "r", "body": {"error": {}}},
            "error": None,
        },
    ],
    "openai responses": [
        {
            "id": "batch_req_1",
            "custom_id": "7",
            "response": {
                "status_code": 200,
                "body": {
                    "object": "response",
                    "output": [
                        {"type": "reasoning", "summary": []},
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [{"type": "output_text", "text": "(B) two"}],
                        },
                    ],
                },
            },
            "error": None,
        }
    ],
    "anthropic": [
        {
            "custom_id": "7",
            "result": {
                "type": "succeeded",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "one?", "signature": "s"},
                        {"type": "text", "text": "(B) two"},
                    ],
                },
            },
        },
        {"custom_id": "8", "result": {"type": "errored", "error": {"type": "invalid_request"}}},
    ],
    "gemini": [
        {
            "key": "7",
            "response": {
                "candidates": [
                    {
                        "content": {
                            "role": "model",
                            "parts": [{"text": "one?", "thought": True}, {"text": "(B) two"}],
                        }
                    }
                ]
            },
        }
    ],
    "evalscope": [
        {
            "index": 7,
            "model": "m",
            "model_output": {
                "model": "m",
                "choices": [
                    {
                        "message": {
                            "content": [
                                {"type": "reasoning", "reasoning": "one?"},
                                {"type": "text", "text": "(B) two"},
                            ],
                            "role": "assistant",
                        },
                        "stop_reason": "stop",
                    }
                ],
            },
            "messages": [],
        }
    ],
    "evalscope review": [
        {
            "index": 7,
            "input": "How many?",
            "target": "A",
            "sample_score": {
                "score": {
                    "value": {"acc": 0},
                    "extracted_prediction": "B",
                    "prediction": "(B) two",
                    "explanation": None,
                },
                "sample_id": 7,
                "group_id": 7,
            },
        }
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_what_the_model_wrote_is_kept_and_what_failed_is_left_out(tmp_path, name):
    path = tmp_path / "out put.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in FILES[name]))
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    (row,) = convert(path, error)
    assert (row.id, row.kind, row.value) == ("7", "response", "(B) two")


def asking(name="9769", form=AnswerForm.INTERVAL, **more):
    return Query(id=query_id(name), text="?", media=(), forms=(form,), **more)


def test_the_first_window_of_qvhighlights_form_counts(tmp_path):
    path = tmp_path / "hl_val_submission.jsonl"
    line = {
        "qid": 9769,
        "query": "some military patriots",
        "vid": "j7rJstUseKg_360.0_510.0",
        "pred_relevant_windows": [[0.0, 16.5, 0.98], [41.3, 73.2, 0.4]],
        "pred_saliency_scores": [-0.2, -0.4, 0.1],
    }
    none = {**line, "query": "nothing of this", "pred_relevant_windows": []}
    path.write_text(json.dumps(line) + "\n" + json.dumps(none) + "\n")
    with pytest.raises(DataError, match="--format qvhighlights"):
        list(read_rows(path))
    samples = [
        Sample(
            id=name,
            query=replace(asking(name), text=f"When does this happen: {text}"),
            target=None,
            group=f"{line['vid']}.mp4",
        )
        for name, text in (("a", line["query"]), ("b", none["query"]))
    ]
    found = read_format("qvhighlights", path, samples)
    assert {name: row.value for name, row in found.rows.items()} == {"a": [0.0, 16.5], "b": None}


@pytest.mark.parametrize("factor", [1 / 150, 1000, 30])
def test_windows_of_qvhighlights_form_in_another_unit_are_refused(tmp_path, factor):
    times = [[10, 30], [50, 65.5], [2, 149], [70, 71], [100, 140], [33, 44]]
    path, samples, frames = tmp_path / "x.jsonl", [], np.zeros((151, 8, 8, 3), np.uint8)
    clip = pixels(list(frames), times=range(151), is_video=True, id="v")
    with path.open("w") as file:
        for number, window in enumerate(times):
            scaled = [[end * factor for end in window]]
            line = {"query": f"event {number}", "vid": "v", "pred_relevant_windows": scaled}
            file.write(json.dumps(line) + "\n")
            query = replace(asking(str(number)), text=f"event {number}", media=(clip,))
            samples.append(Sample(id=str(number), query=query, target=None, group="v.mp4"))
    rows = read_format("qvhighlights", path, samples).rows
    with pytest.raises(DataError, match="seconds"):
        check_units(rows, samples, "x")


@pytest.mark.parametrize(
    "given", [[[1.0, 2.5], [3, 4]], [[1.0, 2.5, 0.9]], [1.0, 2.5, 0.9], {"start": 1.0, "end": 2.5}]
)
def test_intervals_in_another_form(tmp_path, given):
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps({"id": "9769", "answer": given}) + "\n")
    (row,) = read_rows(path)
    with pytest.raises(DataError, match="seconds") as error:
        row_to_answer(row, asking())
    (row,) = convert(path, error)
    assert tuple(row_to_answer(row, asking()).interval) == (1.0, 2.5)


@pytest.mark.parametrize("given", [2, "2", "2 "])
def test_numbers_of_options_are_no_letters_until_somebody_says_from_where(tmp_path, given):
    query = asking(form=AnswerForm.CHOICE, options=("x", "y", "z", "w"))
    path = tmp_path / "numbers.jsonl"
    letters = []
    for place in (0, 1):  # counted from 1, from 0
        path.write_text(json.dumps({"id": "a", "answer": given}) + "\n")
        (row,) = read_rows(path)
        with pytest.raises(DataError, match=r"from 1.*from 0") as error:
            row_to_answer(row, query)
        (row,) = convert(path, error, place)
        letters.append(row_to_answer(row, query).choice)
    assert letters == ["B", "C"]


@pytest.mark.parametrize(
    ("given", "letter"),
    [
        *(("B", "B"), ("b", "B"), ("(B)", "B"), ("B.", "B"), (" b) ", "B")),
        *((text, None) for text in ("", "two", "E", "(Z)")),
    ],
)
def test_a_letter_is_read_as_labels_are_written_and_nothing_else_is_one(tmp_path, given, letter):
    query = asking(form=AnswerForm.CHOICE, options=("x", "y", "z", "w"))
    path = tmp_path / "letters.jsonl"
    path.write_text(json.dumps({"id": "a", "answer": given}) + "\n")
    (row,) = read_rows(path)
    if letter is None:
        with pytest.raises(DataError, match='"response", null'):
            row_to_answer(row, query)
    else:
        assert row_to_answer(row, query).choice == letter


def test_numbers_that_are_texts_and_columns_of_a_table(tmp_path):
    path = tmp_path / "pandas.jsonl"
    path.write_text('{"Unnamed: 0": 0, "index": 3, "id": "a", "answer": "3"}\n')
    with pytest.raises(DataError, match="numbers of rows") as error:
        list(read_rows(path))
    (row,) = convert(path, error)
    with pytest.raises(DataError) as error:
        row_to_answer(row, asking(form=AnswerForm.COUNT))
    (row,) = convert(path, error)
    assert row_to_answer(row, asking(form=AnswerForm.COUNT)).count == 3


@pytest.mark.parametrize(
    ("line", "kind", "value"),
    [
        # MindCube's evaluation keeps the ground truth under another name
        ({"id": "7", "gt_answer": "A", "answer": "B. two", "images": []}, "response", "B. two"),
        ({"id": "7", "answer": "A", "pred": "B. two"}, "response", "B. two"),
        # dense captions by video, as TimeChat and those after it write them
        ({"7": [{"timestamp": [1.0, 2.5], "caption": "x"}]}, "answer", [1.0, 2.5]),
        ({"7": "B. two", "8": "A"}, "response", "B. two"),
        (
            {"id": "7", "messages": [{"role": "assistant", "content": "B. two"}]},
            "response",
            "B. two",
        ),
    ],
)
def test_what_the_model_wrote_is_never_the_ground_truth(tmp_path, line, kind, value):
    path = tmp_path / "o.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    row = convert(path, error)[0]
    assert (row.id, row.kind, row.value) == ("7", kind, value)


@pytest.mark.parametrize(
    ("form", "given", "read"),
    [
        ("boxes", {"bboxes": [[3, 4, 7, 9]], "labels": ["cup"]}, [[3, 4, 7, 9]]),  # Florence-2
        ("count", 2.0, 2),
        ("interval", [7.0, 1.0], [1.0, 7.0]),
    ],
)
def test_values_in_nearly_the_form(tmp_path, form, given, read):
    path = tmp_path / "nearly.jsonl"
    kind = "boxes" if form == "boxes" else "answer"
    path.write_text(json.dumps({"id": "a", kind: given}) + "\n")
    (row,) = read_rows(path)
    with pytest.raises(DataError) as error:
        row_to_answer(row, asking("a", AnswerForm(form)))
    (row,) = convert(path, error)
    assert row.value == read


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        ("points", {"x": 3, "y": 4}, (3, 4)),
        ("points", ["3", "4"], (3, 4)),
        ("points", {"point_2d": [3, 4], "label": "cup"}, (3, 4)),
        ("boxes", {"bbox_2d": [3, 4, 7, 9], "label": "cup"}, (3, 4, 7, 9)),
        ("boxes", {"x1": 3, "y1": 4, "x2": 7, "y2": 9, "score": 0.5}, (3, 4, 7, 9)),
        ("boxes", {"x": 3, "y": 4, "width": 4, "height": 5}, (3, 4, 7, 9)),
        ("boxes", {"x": 5, "y": 7, "width": 4, "height": 6, "detection_id": "d0"}, (3, 4, 7, 10)),
    ],
)
def test_boxes_and_points_in_another_form(tmp_path, kind, given, read):
    media = pixels([np.zeros((20, 20, 3), np.uint8)], times=[0.0], is_video=False, id="i")
    query = Query(id=query_id("a"), text="?", media=(media,), forms=(AnswerForm(kind),))
    path = tmp_path / "places.jsonl"
    path.write_text(json.dumps({"id": "a", kind: [given]}) + "\n")
    (row,) = read_rows(path)
    with pytest.raises(DataError) as error:
        row_to_answer(row, query)
    (row,) = convert(path, error)
    answer = row_to_answer(row, query)
    assert tuple((answer.points or answer.boxes)[0]) == read


def test_boxes_of_several_classes_are_not_made_one(tmp_path):
    path = tmp_path / "mmdet.jsonl"
    row = {
        "id": "a",
        "labels": [0, 0],
        "scores": [0.9, 0.4],
        "bboxes": [[3, 4, 7, 9], [1, 1, 2, 2]],
    }
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r"\(labels is left out\)") as error:
        list(read_rows(path))
    (converted,) = convert(path, error)
    assert converted.value == row["bboxes"] and converted.box_scores == (0.9, 0.4)
    failed = {"id": "b", "labels": None, "scores": None, "bboxes": None}
    path.write_text(f"{json.dumps(row)}\n{json.dumps(failed)}\n")
    assert [line.id for line in convert(path, error)] == ["a", "b"]
    path.write_text(json.dumps({**row, "labels": [0, 56]}) + "\n")
    with pytest.raises(subprocess.CalledProcessError):
        convert(path, error)


def test_a_corner_and_a_centre_have_a_command_each(tmp_path):
    path = tmp_path / "places.jsonl"
    box = {"x": 5, "y": 7, "width": 4, "height": 6}
    path.write_text(json.dumps({"id": "a", "boxes": [box]}) + "\n")
    (row,) = read_rows(path)
    with pytest.raises(DataError, match=r"the left top corner.*the centre") as error:
        row_to_answer(row, asking("a", AnswerForm.BOXES))
    assert str(error.value).count("`jq") == 2


def test_answers_of_perception_test_are_read_where_the_options_agree(tmp_path):
    def sample(video, place, options):
        query = Query(
            id=query_id(f"{video}/{place}"),
            text="?",
            media=(),
            forms=(AnswerForm.CHOICE,),
            options=options,
        )
        return Sample(id=f"{video}/{place}", query=query, target=None, group=f"{video}.mp4")

    samples = [
        sample("video_10", 0, ("one", "two", "three")),
        sample("video_10", 1, ("yes", "no", "unknown")),
        sample("video_9", 2, ("left", "right", "behind")),
    ]
    path = tmp_path / "answers.json"
    plain = {
        "video_9": [{"id": 0, "answer_id": 2, "answer": "behind"}],
        "video_10": [
            {"id": 1, "answer_id": 0, "answer": "yes"},
            {"id": 0, "answer_id": 1, "answer": "two"},
        ],
        "video_11": [{"id": 0, "answer_id": 0, "answer": "yes"}],
    }
    path.write_text(json.dumps(plain))
    found = read_format("perception-test", path, samples)
    letters = {name: row.value for name, row in found.rows.items()}
    assert letters == {"video_9/2": "C", "video_10/1": "A", "video_10/0": "B"}
    assert len(found.unmatched) == 1 and "video_11" in found.unmatched[0]
    with pytest.raises(DataError, match="--format perception-test"):
        list(read_rows(path))
    plain["video_10"][0]["answer"] = "no"
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match="expected option 0 of 'video_10/1', 'yes', found 'no'"):
        read_format("perception-test", path, samples)


CHOSEN = {
    "a model's answer beside the right one": (
        {"question_id": 1, "answer": "A", "model_answer": "B"},
        ("response", "B"),
    ),
    "a model's answer behind an id": (
        {"id": "1", "correct_answer": "A", "pred_answer": "B"},
        ("response", "B"),
    ),
    "samples": ({"id": "1", "prompt": "p", "outputs": ["B", "A"]}, ("response", ["B", "A"])),
    "a count": ({"id": "1", "gt_count": 9, "pred_count": 3}, ("answer", 3)),
    "the text of a count": ({"image_id": "1", "pred_count": "3"}, ("answer", 3)),
    "a place": ({"qid": "1", "pred_idx": 0, "gt_idx": 2}, ("answer", 0)),
    "true for yes": ({"id": "1", "label": "no", "pred": True}, ("answer", "yes")),
    "probabilities": ({"id": "1", "probs": [0.1, 0.6, 0.3]}, ("answer", "B")),
    "equal probabilities": ({"id": "1", "probs": [0.4, 0.4, 0.2]}, ("answer", None)),
    "a start and an end": ({"id": "1", "pred_start": 2.5, "pred_end": 4}, ("answer", [2.5, 4])),
    "an interval": ({"id": "1", "pred": [2.5, 4], "gt": [1, 2]}, ("answer", [2.5, 4])),
    "a point by its names": (
        {"id": "1", "pred_point": {"x": 3, "y": 4}},
        ("points", [{"x": 3, "y": 4}]),
    ),
    "a sure answer": ({"id": "1", "answer": "B", "confidence": 0.9}, ("answer", "B")),
    "VLMEvalKit's columns": (
        {"index": "1", "A": "cat", "B": "dog", "answer": "A", "prediction": "B"},
        ("response", "B"),
    ),
    "a conversation": (
        {
            "id": "1",
            "conversations": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "B"}],
        },
        ("response", "B"),
    ),
    "EvalScope's choices": (
        {"index": 1, "model": "m", "choices": [{"message": {"content": "B"}}]},
        ("response", "B"),
    ),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_a_model_chose_is_not_the_right_answer(name, tmp_path):
    row, expected = CHOSEN[name]
    path = tmp_path / "p.jsonl"
    path.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")  # two: not a file of one object
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    command = COMMAND.findall(str(error.value))[0]
    done = subprocess.run(in_this_python(command), cwd=tmp_path, capture_output=True, check=True)
    first = json.loads(done.stdout.splitlines()[0])
    assert first == {"id": "1", expected[0]: expected[1]}


def test_several_lines_of_an_id_become_one(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "1", "response": "A"}\n{"id": "1", "response": "B"}\n')
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    typed = re.search(r"`(jq -cs .*?) > NEW`", str(error.value))[1]
    done = subprocess.run(shlex.split(typed), cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(done.stdout) == {"id": "1", "response": ["A", "B"]}


def test_boxes_of_several_phrases_are_not_one_answer(tmp_path):
    path = tmp_path / "p.jsonl"
    row = {"id": "1", "boxes": [[0, 0, 9, 9], [1, 1, 5, 5]], "phrases": ["cat", "dog"]}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    with pytest.raises(subprocess.CalledProcessError):
        convert(path, error)


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ({"id": "1", "pred_value": 350, "unit": "cm"}, "unit"),
        ({"id": "1", "outputs": ["A", "B"], "extracted_answer": "B"}, "extracted_answer"),
        ({"qid": "1", "old_prediction": "A", "prediction": "B", "pred_text": "x"}, "pred_text"),
        ({"id": "1", "box": [0, 0, 9, 9], "result_box": [1, 1, 5, 5]}, "result_box"),
    ],
)
def test_what_a_command_leaves_out_is_named(line, left_out, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert left_out in str(error.value).partition("If ")[2].partition("`")[0]


def test_boxes_of_kaggle_are_read_five_numbers_each(tmp_path):
    path = tmp_path / "p.jsonl"
    lines = [
        {"patientId": f"{n}", "PredictionString": text}
        for n, text in enumerate(("0.9 10 20 30 40 0.5 1 2 3 4", ""))
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    two, none = convert(path, error)
    assert (two.id, two.value) == ("0", [[10, 20, 40, 60], [1, 2, 4, 6]])
    assert (none.value, two.box_scores) == ([], (0.9, 0.5))
    for wrong in ("0.9 10 20 30", " ".join(["14 0.9 10 20 30 40"] * 5)):
        path.write_text(json.dumps({**lines[0], "PredictionString": wrong}) + "\n")
        with pytest.raises(subprocess.CalledProcessError):
            convert(path, error)


def test_the_bounds_of_a_clip_beside_an_answer_are_not_the_answer(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "1", "start": 1, "end": 4, "answer": "B"}\n')
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    assert "[.start, .end]" not in str(error.value)


def test_the_first_line_of_a_table_without_a_header_is_kept(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("q0,B\nq1,C\n")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    typed = re.search(r"`(\S+ -c .*?) > NEW`", str(error.value), re.DOTALL)[1]
    done = subprocess.run(in_this_python(typed), cwd=tmp_path, capture_output=True, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first, second["id"]) == ({"id": "q0", "response": "B"}, "q1")


@pytest.mark.parametrize(("value", "place"), [(0, 1), (False, 0)])
def test_numbers_and_truth_values_become_yes_and_no(value, place, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", "answer": value}))
    (row,) = read_rows(path)
    with pytest.raises(DataError) as error:
        row_to_answer(row, asking(form=AnswerForm.TEXT))
    (row,) = convert(path, error, place=place)
    assert row_to_answer(row, asking(form=AnswerForm.TEXT)).text == "no"
