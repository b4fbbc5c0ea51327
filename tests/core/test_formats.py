"""Predictions as other evaluations leave them: whose sample each is, and what is refused."""

import csv
import datetime
import json
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from harness.cli.arguments.scores import FORMATS as OFFERED
from harness.cli.score import FOLDER_FORMATS
from harness.errors import DataError, MissingDependency
from harness.formats import FORMATS, ROWS, inspect_logs, read_format
from harness.interchange.answers import row_to_prediction
from harness.media import pixels
from harness.types import Answer, AnswerForm, FailureKind, Query, Sample, Target, query_id

IMAGE = pixels([np.zeros((4, 4, 3), np.uint8)], times=(0.0,), is_video=False, id="p")
QUESTIONS = {
    "001-1": "Which way does it move?",
    "001-2": "How many are there?",
    "002-1": "Which way does it move?",
    "002-2": "What colour is it?",
}


def sample(name, text):
    query = Query(
        id=query_id(name),
        text=text,
        media=(IMAGE,),
        forms=(AnswerForm.CHOICE,),
        options=("a", "b"),
    )
    return Sample(id=name, query=query, target=None, group=f"video_{name[:3]}")


SAMPLES = [sample(name, text) for name, text in QUESTIONS.items()]


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(matched):
    return {name: row.value for name, row in matched.rows.items()}


def lmms(number, response, **more):
    return {
        "doc_id": number,
        "filtered_resps": response,
        "target": "A",
        "input": f"Answer.\n{list(QUESTIONS.values())[number]}\nA. a\nB. b",
    } | more


def test_all_formats_can_be_asked_for():
    assert set(OFFERED) == {"jsonl", *FORMATS, *ROWS, *FOLDER_FORMATS}


def test_lmms_eval_by_the_id_in_the_document(tmp_path):
    rows = [lmms(0, [["B. b"]], doc={"question_id": "001-2", "question": "How many are there?"})]
    assert said(read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), SAMPLES)) == {
        "001-2": "B. b"
    }


def test_lmms_eval_by_the_id_in_a_metric_where_there_is_no_document(tmp_path):
    rows = [lmms(1, "B", videomme_score={"question_id": "001-2", "score": 1.0})]
    assert said(read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), SAMPLES)) == {
        "001-2": "B"
    }


def test_lmms_eval_by_a_question_that_one_sample_is_asked(tmp_path):
    path = lines(tmp_path / "x.jsonl", [lmms(k, f"response {k}") for k in (3, 0)])
    found = read_format("lmms-eval", path, SAMPLES)
    assert said(found) == {"002-2": "response 3"}
    assert len(found.unmatched) == 1 and "fits 2 samples" in found.unmatched[0]
    shifted = [lmms(3, "A") | {"doc_id": 0}, lmms(0, "B") | {"doc_id": 99}]
    found = read_format("lmms-eval", lines(tmp_path / "y.jsonl", shifted), SAMPLES)
    assert said(found) == {"002-2": "A"} and len(found.unmatched) == 1


def test_lmms_eval_by_video_and_question_in_what_a_metric_was_given(tmp_path):
    """As its TempCompass tasks log: no document, and the documents in another order than ours."""
    requested = QUESTIONS["001-1"]
    rows = [
        lmms(0, video, avg_accuracy={"video_id": video, "question": requested, "dim": "direction"})
        for video in ("video_002", "video_001")
    ]
    assert said(read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), SAMPLES)) == {
        "001-1": "video_001",
        "002-1": "video_002",
    }
    rows = [lmms(0, "A", avg_accuracy={"video_id": "video_009", "question": QUESTIONS["002-2"]})]
    found = read_format("lmms-eval", lines(tmp_path / "y.jsonl", rows), SAMPLES)
    assert said(found) == {} and len(found.unmatched) == 1


def test_what_is_told_apart_among_some_may_not_be_among_all(tmp_path):
    path = lines(tmp_path / "x.jsonl", [lmms(0, "A"), lmms(1, "B")])
    found = read_format("lmms-eval", path, SAMPLES, {"001-1", "001-2"})
    assert said(found) == {"001-2": "B"} and len(found.unmatched) == 1


def test_the_raw_response_counts_not_what_a_filter_left_of_it(tmp_path):
    rows = [lmms(0, "A", resps=[["The answer is A"]], doc={"id": "001-1"})]
    path = lines(tmp_path / "x.jsonl", rows)
    assert said(read_format("lmms-eval", path, SAMPLES)) == {"001-1": "The answer is A"}


def test_the_older_file_of_logs_is_read(tmp_path):
    for name in ("lmms-eval", "vsi"):
        path = tmp_path / "vsibench.json"
        path.write_text(json.dumps({"logs": [lmms(2, ["A"], doc={"id": "002-1"})]}))
        assert said(read_format(name, path, SAMPLES)) == {"002-1": "A"}


def test_an_id_that_shows_another_question_is_not_taken(tmp_path):
    rows = [lmms(0, "A", doc={"id": "001-1", "question": "Something else entirely?"})]
    rows[0]["input"] = ""
    found = read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), SAMPLES)
    assert said(found) == {} and "record 1" in found.unmatched[0]


def test_repeated_responses_count_once_and_are_named(tmp_path):
    rows = [lmms(0, "A", doc={"id": "001-1"})] * 3
    found = read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), SAMPLES)
    assert said(found) == {"001-1": "A"} and found.repeated == ("001-1", "001-1")


def test_two_different_responses_to_one_question_are_refused(tmp_path):
    rows = [lmms(0, "A", doc={"id": "001-1"}), lmms(0, "B", doc={"id": "001-1"})]
    with pytest.raises(DataError, match=r"record 2.*'001-1'.*record 1"):
        read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), SAMPLES)


def test_video_mmes_result_file(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps(
            [
                {
                    "video_id": "001",
                    "questions": [
                        {"question_id": "001-1", "response": "A"},
                        {"question_id": "009-9", "response": "B"},
                    ],
                }
            ]
        )
    )
    found = read_format("video-mme", path, SAMPLES)
    assert said(found) == {"001-1": "A"} and "009-9" in found.unmatched[0]


@pytest.mark.parametrize("key", ["videoID", "video_id"])
def test_a_video_mme_id_under_another_video_is_not_taken(tmp_path, key):
    path = tmp_path / "x.json"
    one = {"question_id": "001-1", "response": "A"}
    for video, found in (("video_001", {"001-1": "A"}), ("001", {"001-1": "A"}), ("video_002", {})):
        path.write_text(json.dumps([{key: video, "questions": [one]}]))
        assert said(read_format("video-mme", path, SAMPLES)) == found, video


def test_stis_results_are_told_apart_by_video_number_and_times(tmp_path):
    samples = [sample("a.mp4|3|0.0|12.0", "?")]
    path = tmp_path / "x.json"
    one = {"id": "a.mp4", "id_file": 3, "time_s": 0.0, "time_e": 12.0, "model_out": "(B) it"}
    path.write_text(json.dumps([one]))
    assert said(read_format("sti", path, samples)) == {"a.mp4|3|0.0|12.0": "(B) it"}


@pytest.mark.parametrize("key", ["prediction", "response"])
def test_tempcompass_predictions_by_video_aspect_and_question(tmp_path, key):
    samples = [
        replace(
            sample(f"yes_no/{video}/{aspect}/{number}", text),
            group=video,
            categories={"format": "yes_no", "aspect": aspect},
        )
        for video, aspect, number, text in (
            ("v", "action", 0, "Is it so?"),
            ("v", "action", 1, "Is it not?"),
            ("v", "order", 0, "Is it so?"),
            ("w", "action", 0, "Is it so?"),
        )
    ]
    path = tmp_path / "yes_no.json"
    info = [{"question": "Is it?", key: "no"}, {"question": "Is it so?", key: "yes"}]
    path.write_text(json.dumps({"v": {"action": info}}))
    found = read_format("tempcompass", path, samples)
    assert said(found) == {"yes_no/v/action/0": "yes"} and len(found.unmatched) == 1
    renamed = path.rename(tmp_path / "gemini, yes_no.json")
    assert said(read_format("tempcompass", renamed, samples)) == said(found)
    path.write_text(json.dumps({"v": {"action": [{key: "yes"}], "order": [{key: "no"}]}}))
    found = read_format("tempcompass", path, samples)
    assert said(found) == {"yes_no/v/order/0": "no"}, "the only question on that aspect"
    assert len(found.unmatched) == 1
    (tmp_path / "captioning.json").write_text(json.dumps({"v": {"action": info}}))
    assert said(read_format("tempcompass", tmp_path / "captioning.json", samples)) == {}


def test_a_prediction_and_another_response_are_refused(tmp_path):
    path = tmp_path / "yes_no.json"
    for other, refused in (("yes", False), ("no", True)):
        one = {"question": "Is it so?", "prediction": "yes", "response": other}
        path.write_text(json.dumps({"v": {"action": [one]}}))
        with pytest.raises(DataError, match="'v', action") if refused else nullcontext():
            read_format("tempcompass", path, SAMPLES)


@pytest.mark.parametrize(("suffix", "comma"), [("tsv", "\t"), ("csv", ",")])
def test_vlmevalkits_tables_by_video_and_question(tmp_path, suffix, comma):
    path = tmp_path / f"x.{suffix}"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file, delimiter=comma)
        table.writerow(["index", "video", "question", "prediction"])
        table.writerow([7, "video_002", QUESTIONS["002-1"], "B,\nbecause"])
        table.writerow([1, "video_001", QUESTIONS["001-2"], ""])
        table.writerow([0, "video_009", "Something else?", "A"])
    found = read_format("vlmevalkit", path, SAMPLES)
    assert said(found) == {"002-1": "B,\nbecause", "001-2": ""}
    assert len(found.unmatched) == 1 and "row 4" in found.unmatched[0]


@pytest.mark.parametrize("cut", [3, 9, 14], ids=["in quotes", "a cell", "two cells"])
def test_a_table_that_was_cut_is_refused(tmp_path, cut):
    path = tmp_path / "x.tsv"
    whole = f'video\tquestion\tprediction\nvideo_002\t{QUESTIONS["002-1"]}\tA\na\tb b b\t"B, so"\n'
    path.write_text(whole)
    assert said(read_format("vlmevalkit", path, SAMPLES)) == {"002-1": "A"}
    path.write_text(whole[:-cut])
    with pytest.raises(DataError, match=r"x\.tsv"):
        read_format("vlmevalkit", path, SAMPLES)


@pytest.mark.parametrize("name", ["prediction", "question", "index"])
def test_a_table_with_two_columns_of_a_name_that_is_read_is_refused(tmp_path, name):
    names = ["index", "video", "question", "prediction"]
    cells = ["7", "video_002", QUESTIONS["002-1"], "A"]
    for path, more in [(tmp_path / "x.tsv", "\t"), (tmp_path / "x.csv", ",")]:
        for twice, is_refused in [(name, True), ("note", False)]:
            rows = [more.join([*names, "note", twice]), more.join([*cells, "x", "B"])]
            path.write_text("\n".join(rows) + "\n")
            with pytest.raises(DataError, match=name) if is_refused else nullcontext():
                assert said(read_format("vlmevalkit", path, SAMPLES)) == {"002-1": "A"}


def test_vlmevalkits_index_tells_nothing(tmp_path):
    """Two scenes with the same questions; the table begins with the second one."""
    samples = [
        replace(
            sample(str(number), f"These are frames of a video.\nQuestion {number % 2}?"),
            group=f"set/scene_{number // 2}",
        )
        for number in range(4)
    ]
    path = tmp_path / "x.csv"
    rows = [(index, f"scene_{1 - index // 2}", index % 2) for index in range(4)]
    path.write_text(
        "index,video,question,prediction\n"
        + "".join(
            f"{index},{video},Question {requested}?,{video} {requested}\n"
            for index, video, requested in rows
        )
    )
    found = read_format("vlmevalkit", path, samples)
    assert said(found) == {str(n): f"scene_{n // 2} {n % 2}" for n in range(4)}
    path.write_text(path.read_text().replace("scene_", "hall_"))
    found = read_format("vlmevalkit", path, samples)
    assert said(found) == {} and len(found.unmatched) == 4


def test_a_question_of_two_videos_needs_the_video(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(f"question,prediction\n{QUESTIONS['001-1']},A\n{QUESTIONS['001-2']},B\n")
    found = read_format("vlmevalkit", path, SAMPLES)
    assert said(found) == {"001-2": "B"} and len(found.unmatched) == 1


def test_a_pickle_is_never_opened(tmp_path):
    (tmp_path / "x.pkl").write_bytes(b"cos\nsystem\n(S'touch canary'\ntR.")
    with pytest.raises(DataError, match=r"x\.pkl: .*pickle"):
        read_format("vlmevalkit", tmp_path / "x.pkl", SAMPLES)


def sheet(path, rows, change=lambda sheet: None):
    """Write rows as a spreadsheet that a program changed."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    change(book.active)
    book.save(path)
    return path


def test_a_sheet_needs_its_package(tmp_path, monkeypatch):
    path = sheet(tmp_path / "x.xlsx", [("index", "prediction")])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependency, match="openpyxl"):
        read_format("vlmevalkit", path, SAMPLES)


COLUMNS = ("index", "question", "id", "prediction")


def test_cells_that_a_sheet_lacks_are_empty_and_texts_like_formulas_are_texts(tmp_path):
    rows = [
        COLUMNS,
        (0, QUESTIONS["001-1"], "001-1", None),
        (1, None, "001-2", "=B"),
        (None,) * 4,
        (2, None, "002-1", 3),
        (3, None, "002-2", "D_x000D_\nso"),
    ]
    path = sheet(tmp_path / "x.xlsx", rows)
    found = read_format("vlmevalkit", path, SAMPLES)
    texts = {"001-1": "", "001-2": "=B", "002-1": "3", "002-2": "D\r\nso"}
    assert said(found) == texts and found.notes == ("1 predictions that are empty",)


@pytest.mark.parametrize(
    ("cell", "value", "shown", "found"),
    [
        ("C2", datetime.date(2001, 1, 1), None, "2001-01-01"),
        ("D2", 0.5, "0%", "0.5"),
        ("D2", 5, '"$"#,##0', "5"),
        ("D2", "#NAME?", None, "#NAME"),
        ("D2", "########", None, "###"),
        ("B2", "#REF!", None, "#REF!"),
    ],
)
def test_a_cell_whose_text_is_lost_is_refused_by_name(tmp_path, cell, value, shown, found):
    def change(sheet):
        sheet[cell] = value
        if shown:
            sheet[cell].number_format = shown

    rows = [COLUMNS, (0, QUESTIONS["001-1"], "001-1", "B")]
    path = sheet(tmp_path / "x.xlsx", rows, change)
    with pytest.raises(DataError) as error:
        read_format("vlmevalkit", path, SAMPLES)
    column = COLUMNS["ABCD".index(cell[0])]
    assert all(word in str(error.value) for word in ("row 2", repr(column), found, "spreadsheet"))


def test_a_cell_that_is_full_may_have_been_cut(tmp_path):
    path = sheet(tmp_path / "x.xlsx", [COLUMNS, (0, None, "001-1", "B" * 32_767)])
    (note,) = read_format("vlmevalkit", path, SAMPLES).notes
    assert note.startswith("1 predictions of 32,767 characters")


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_text_tables_of_other_separators_short_rows_and_blank_lines(tmp_path, comma):
    lines = (["index", "id", "prediction", ""], ["0", "001-1", "B", "", ""], ["1", "001-2"])
    path = tmp_path / "x.CSV"
    path.write_text("\r\n".join(map(comma.join, (*lines, ["", "", ""], []))), newline="")
    found = read_format("vlmevalkit", path, SAMPLES)
    assert said(found) == {"001-1": "B", "001-2": ""}
    assert found.notes == ("1 predictions that are empty",)
    path.write_text("\n".join(map(comma.join, lines)))
    with pytest.raises(
        DataError, match=r"line 3: expected 4 cells, found 2\. Is the file complete"
    ):
        read_format("vlmevalkit", path, SAMPLES)


def test_a_row_with_more_cells_than_names_is_refused(tmp_path):
    path = sheet(tmp_path / "x.xlsx", [COLUMNS, (0, None, "001-1", "B", "C")])
    with pytest.raises(DataError, match="row 2: expected 4 cells, found 5"):
        read_format("vlmevalkit", path, SAMPLES)


def asked_of(video, *texts, wrap="{}", answers=()):
    """Samples of TempCompass: questions about the action in a video, by the place in its list."""
    for number, text in enumerate(texts):
        one = sample(f"yes_no/{video}/action/{number}", wrap.format(text))
        target = Target(answer=Answer(text=answers[number] if answers else "yes"))
        yield replace(
            one, group=video, target=target, categories={"format": "yes_no", "aspect": "action"}
        )


def predicted(path, *entries):
    """A file of TempCompass's predictions about one video: (question, prediction, answer)."""
    keys = ("question", "prediction", "answer")
    info = [dict(zip(keys, entry, strict=False)) for entry in entries]
    path.write_text(json.dumps({"v": {"action": info}}))
    return path


SHORT, LONG = "Is the car driving on the road?", "In the scene, is the car driving on the road?"


@pytest.mark.parametrize(
    ("wrap", "longer"),
    [
        ("{}", LONG),
        ("{}\nPlease answer yes or no:", LONG),
        ("Look at the video. {} Answer.", LONG),
        ("Look.\n{}\nAnswer.", f"A dog barks. {SHORT}"),
    ],
)
def test_a_question_that_another_one_holds_keeps_its_own_response(tmp_path, wrap, longer):
    samples = list(asked_of("v", SHORT, longer, wrap=wrap))
    path = predicted(tmp_path / "yes_no.json", (longer, "No"), (SHORT, "Yes"))
    found = said(read_format("tempcompass", path, samples))
    assert found == {"yes_no/v/action/0": "Yes", "yes_no/v/action/1": "No"}


def test_a_prompt_that_holds_two_questions_is_about_the_one_that_holds_the_other(tmp_path):
    samples = list(asked_of("v", SHORT, f"A dog barks. {SHORT}"))
    path = predicted(tmp_path / "yes_no.json", (f"Look.\n{samples[1].query.text}\nAnswer.", "No"))
    assert said(read_format("tempcompass", path, samples)) == {"yes_no/v/action/1": "No"}


def test_a_question_that_is_not_asked_is_not_taken_for_one_that_holds_it(tmp_path):
    samples = list(asked_of("v", LONG, wrap="{} Please answer yes or no:"))
    path = predicted(tmp_path / "yes_no.json", (SHORT, "Yes"))
    assert not said(read_format("tempcompass", path, samples))


def test_rows_in_another_order_are_not_believed_where_questions_hold_each_other(tmp_path):
    """Both rows fit the sample there, by words and by answer; only the order is wrong."""
    samples = list(asked_of("v", SHORT, f"A dog barks. {SHORT}"))
    rows = [
        {"doc_id": row, "input": one.query.text, "target": "yes", "resps": str(row)}
        for row, one in enumerate(reversed(samples))
    ]
    found = said(read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), samples))
    assert found.items() <= {"yes_no/v/action/1": "0", "yes_no/v/action/0": "1"}.items()


def test_a_question_that_is_asked_twice_gets_both_responses_in_order(tmp_path):
    samples = list(asked_of("v", SHORT, SHORT, LONG))
    path = predicted(tmp_path / "yes_no.json", (LONG, "a"), (SHORT, "b"), (SHORT, "c"))
    found = read_format("tempcompass", path, samples)
    names = [f"yes_no/v/action/{number}" for number in range(3)]
    assert said(found) == dict(zip(names, "bca", strict=True)) and not found.repeated
    assert found.notes == (
        "2 responses to questions that the benchmark asks twice, assigned in their order",
    )
    one = read_format("tempcompass", predicted(path, (SHORT, "b")), samples)
    assert said(one) == {names[0]: "b"}, "the other one has none"
    again = predicted(path, (SHORT, "b"), (SHORT, "c"), (SHORT, "c"))
    assert read_format("tempcompass", again, samples).repeated == (names[1],)
    with pytest.raises(DataError, match="one response a question"):
        read_format("tempcompass", predicted(path, *((SHORT, one) for one in "bcd")), samples)


def test_a_question_that_is_asked_twice_with_other_answers_is_told_apart_by_them(tmp_path):
    samples = list(asked_of("v", SHORT, SHORT, answers=("yes", "no")))
    path = predicted(tmp_path / "yes_no.json", (SHORT, "b", "no"), (SHORT, "c", "yes"))
    found = read_format("tempcompass", path, samples)
    assert said(found) == {"yes_no/v/action/1": "b", "yes_no/v/action/0": "c"} and not found.notes
    assert len(read_format("tempcompass", predicted(path, (SHORT, "b")), samples).unmatched) == 1


@pytest.mark.parametrize(
    ("name", "suffix", "plain"),
    [
        ("tempcompass", "yes_no.json", {"v": {"action": [{"question": SHORT, "response": None}]}}),
        ("sti", "x.json", [{"id": "v", "id_file": 1, "time_s": 0, "time_e": 2, "model_out": None}]),
        (
            "sti",
            "x.json",
            [{"id": "v", "id_file": 1, "time_s": 0, "time_e": 2, "model_out": "ERROR_CALL_API"}],
        ),
        ("video-mme", "x.json", [{"questions": [{"question_id": "v|1|0|2", "response": None}]}]),
        ("vsi", "x.json", {"logs": [{"doc": {"id": "v|1|0|2"}, "resps": [[None]]}]}),
        ("blink", "x.json", {"v|1|0|2": None}),
    ],
)
def test_a_response_that_is_null_is_a_failure_that_is_counted(tmp_path, name, suffix, plain):
    path = tmp_path / suffix
    path.write_text(json.dumps(plain))
    named = sample("v|1|0|2", "?")
    found = read_format(name, path, [named] if name != "tempcompass" else [*asked_of("v", SHORT)])
    (row,) = found.rows.values()
    assert row.value is None
    assert found.notes == ("1 entries without a response, counted as failed",)
    made = row_to_prediction(row, named.query)
    assert made.failure.kind is FailureKind.MODEL and not made.responses


def inspected(number, response, **more):
    """A sample as inspect_ai logs it."""
    message = {"role": "assistant", "content": response}
    return {
        "id": list(QUESTIONS)[number],
        "epoch": 1,
        "input": list(QUESTIONS.values())[number],
        "target": "A",
        "output": {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {"choice": {"value": "C"}},
    } | more


def inspect_file(path, rows, compress_type=zipfile.ZIP_DEFLATED):
    if path.suffix == ".json":
        path.write_text(json.dumps({"version": 2, "samples": rows}))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("header.json", "{}")
        for number, row in enumerate(rows):
            log.writestr(f"samples/{number}_epoch_1.json", json.dumps(row), compress_type)
    return path


@pytest.mark.parametrize("end", [".json", ".eval"])
def test_inspect_logs_by_id_with_the_values_of_their_scorer(tmp_path, end):
    parts = [{"type": "reasoning", "reasoning": "A?"}, {"type": "text", "text": "B. b"}]
    asked = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How many are"}]},
        {"role": "user", "content": "there?"},
    ]
    rows = [
        inspected(1, parts, input=asked),
        inspected(2, "", scores={"choice": {"value": "I"}}),
        inspected(3, "C", scores={"a": {"value": 1}, "b": {"value": 0}}),
        inspected(0, "", output={"choices": []}, error={"message": "a timeout"}),
    ]
    found = read_format("inspect", inspect_file(tmp_path / f"x{end}", rows), SAMPLES)
    assert said(found) == {"001-2": "B. b", "002-1": "", "002-2": "C"}
    assert found.scores == {"001-2": 1.0, "002-1": 0.0}


def test_choices_of_an_inspect_log_are_alternatives_and_its_last_messages_are_responses(tmp_path):
    def said(*texts):
        return [{"role": "assistant", "content": text} for text in texts]

    def output(*texts):
        return {"choices": [{"message": one, "stop_reason": "stop"} for one in said(*texts)]}

    asked = [{"role": "user", "content": "How many?"}]
    rows = [
        inspected(0, "", output=output("A", "B"), messages=asked + said("A")),
        inspected(1, "", output=output("B"), messages=asked + said("Hm.", "B")),
        inspected(2, "", output=output("C"), messages=said("B") + asked + said("C")),
        inspected(3, "", output=output("D"), messages=asked + said("Hm.", "shortened")),
    ]
    found = read_format("inspect", inspect_file(tmp_path / "x.json", rows), SAMPLES)
    assert found.rows.keys() == QUESTIONS.keys()
    assert [one.value for one in found.rows.values()] == ["A", ["Hm.", "B"], "C", "D"]


def test_no_completion_in_an_inspect_log_is_no_text(tmp_path):
    rows = [inspected(0, "", output={"choices": [], "completion": None})]
    assert said(read_format("inspect", inspect_file(tmp_path / "x.json", rows), SAMPLES)) == {
        "001-1": ""
    }


def test_a_folder_in_an_inspect_log_is_no_sample(tmp_path):
    path = inspect_file(tmp_path / "x.eval", [inspected(0, "A")])
    with zipfile.ZipFile(path, "a") as log:
        log.writestr("samples/", "")
    assert said(read_format("inspect", path, SAMPLES)) == {"001-1": "A"}


def test_of_an_inspect_log_that_was_appended_to_the_last_sample_counts(tmp_path):
    path = inspect_file(tmp_path / "x.eval", [inspected(0, "A")])
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "a") as log:
        log.writestr("samples/0_epoch_1.json", json.dumps(inspected(0, "B")))
    assert said(read_format("inspect", path, SAMPLES)) == {"001-1": "B"}


def test_an_inspect_log_in_zstandard_is_read_where_zipfile_cannot(tmp_path):
    import pyarrow as pa

    text = json.dumps(inspected(0, "A" * 5000)).encode()
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w") as log:  # stored, and then said to be packed
        log.writestr("samples/0_epoch_1.json", pa.compress(text, "zstd", asbytes=True))
    plain = bytearray(path.read_bytes())
    for start, field in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = plain.index(start) + field
        plain[place : place + 2] = (93).to_bytes(2, "little")
    path.write_bytes(plain)
    assert said(read_format("inspect", path, SAMPLES)) == {"001-1": "A" * 5000}
    plain[80:120] = bytes(40)
    path.write_bytes(plain)
    with pytest.raises(DataError, match=r"x\.eval"):
        read_format("inspect", path, SAMPLES)


@pytest.mark.parametrize("limit", ["MAX_LINE_BYTES", "MAX_LOG"])
def test_an_inspect_log_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch, limit):
    rows = [inspected(0, "A"), inspected(1, "B" * 50_000)]
    path = inspect_file(tmp_path / "x.eval", rows)
    assert len(read_format("inspect", path, SAMPLES).rows) == 2
    monkeypatch.setattr(inspect_logs, "EXPANSION", 0)
    monkeypatch.setattr(inspect_logs, limit, 20_000)
    with pytest.raises(DataError, match=r"x\.eval, samples/1_epoch_1.json.*20000"):
        read_format("inspect", path, SAMPLES)


def test_truth_values_are_no_places_in_the_dataset_of_an_inspect_log(tmp_path):
    rows = [inspected(0, "A") | {"id": True}]
    with pytest.raises(DataError, match="id"):
        read_format("inspect", inspect_file(tmp_path / "x.json", rows), SAMPLES)


def test_two_epochs_of_an_inspect_log_are_no_one_response(tmp_path):
    rows = [inspected(0, "A"), inspected(0, "A", epoch=2)]
    with pytest.raises(DataError, match=r"epoch 2.*001-1"):
        read_format("inspect", inspect_file(tmp_path / "x.json", rows), SAMPLES)


def with_choices(letters):
    answers = [Answer(choice=letter) for letter in letters]
    return [
        replace(one, target=Target(answer=answer))
        for one, answer in zip(SAMPLES, answers, strict=True)
    ]


@pytest.mark.parametrize("name", ["inspect", "vlmevalkit", "lmms-eval"])
def test_rows_count_if_all_questions_and_answers_are_those_of_the_samples(tmp_path, name):
    """Two samples have one question: only the row tells which is meant."""

    def matched(truths, responses="wxyz"):
        rows = list(enumerate(zip(QUESTIONS.values(), truths, responses, strict=True)))
        path = tmp_path / f"x{'.jsonl' if name == 'lmms-eval' else '.json'}"
        if name == "inspect":
            numbered = [inspected(n, said, id=n + 1, target=t) for n, (_, t, said) in rows]
            inspect_file(path, numbered[::-1])
        elif name == "lmms-eval":
            lines(path, [lmms(n, said, target=truth) for n, (_, truth, said) in rows])
        else:
            path = tmp_path / "x.tsv"
            cells = [f"{n}\t{asked}\t{truth}\t{said}" for n, (asked, truth, said) in rows]
            path.write_text("\n".join(["index\tquestion\tanswer\tprediction", *cells]) + "\n")
        return said(read_format(name, path, with_choices("ABBA")))

    assert matched("ABBA") == dict(zip(QUESTIONS, "wxyz", strict=True))
    assert matched(["a", "b", "b", "a"]) == matched("ABBA"), "the options' texts"
    assert set(matched("BBBA")) == {"001-2", "002-2"}, "a list in another order"


def instance(name, raw, **more):
    return {
        "sample_id": name,
        "evaluation_name": "m",
        "interaction_type": "single_turn",
        "input": {"raw": QUESTIONS[name], "reference": ["A"]},
        "output": {"raw": raw},
        "evaluation": {"score": 0.5, "is_correct": False},
    } | more


def test_instances_of_every_eval_ever_by_id(tmp_path):
    turns = [
        {"turn_idx": 0, "role": "user", "content": "?"},
        {"turn_idx": 1, "role": "assistant", "content": "I look."},
        {"turn_idx": 2, "role": "assistant", "content": "A"},
    ]
    rows = [
        instance("001-1", ["A", "B"]),
        instance("001-2", None, output=None, interaction_type="multi_turn", messages=turns),
        instance("002-1", [], error="a timeout"),
    ]
    path = lines(tmp_path / "x_samples.jsonl", rows)
    found = read_format("every-eval-ever", path, SAMPLES)
    assert said(found) == {"001-1": ["A", "B"], "001-2": "A"}
    assert found.scores == {"001-1": 0.5, "001-2": 0.5}
    second = [{**one, "evaluation_name": "n"} for one in rows]
    path = lines(tmp_path / "x_samples.jsonl", rows + second)
    found = read_format("every-eval-ever", path, SAMPLES)
    assert set(found.repeated) == {"001-1", "001-2"} and not found.scores, "of which metric?"


def test_an_aggregate_of_every_eval_ever_has_no_responses(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"schema_version": "0.3.0"}')
    with pytest.raises(DataError, match="detailed_evaluation_results"):
        read_format("every-eval-ever", path, SAMPLES)


def test_vlmevalkits_table_in_json(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"index": 7, "id": "001-1", "prediction": "A", "hit": None}]))
    found = read_format("vlmevalkit", path, SAMPLES)
    assert said(found) == {"001-1": "A"} and not found.scores


def test_what_vlmevalkit_failed_to_obtain_is_no_response(tmp_path):
    path = tmp_path / "x.tsv"
    rows = [
        "001-1\tFailed to obtain answer via API.\t",
        '001-2\tB\t"[""A"", ""B""]"',
        '002-1\tC\t"[""search(cats)"", ""found none""]"',
    ]
    path.write_text("\n".join(["id\tprediction\textra_records", *rows]) + "\n")
    found = said(read_format("vlmevalkit", path, SAMPLES))
    assert found == {"001-2": ["A", "B"], "002-1": "C"}, "an agent's records are no responses"


BAD = {
    "inspect": (
        ".json",
        ["[]", "{}", '{"samples": [3]}', '{"samples": [{"id": "x"}]}', "not json"],
    ),
    "every-eval-ever": (
        ".jsonl",
        ["[]", "{}", '{"sample_id": "x"}', '{"sample_id": "x", "input": {}, "evaluation": {}}'],
    ),
    "lmms-eval": (".jsonl", ["[]", "{}", "not json", '{"filtered_resps": [3]}']),
    "vsi": (".json", ["[]", "{}", '{"logs": [{}]}', "not json"]),
    "video-mme": (".json", ["{}", '[{"questions": 3}]', '[{"questions": [{"response": 3}]}]']),
    "sti": (".json", ["{}", "[{}]", '[{"id": 1, "id_file": 2, "time_s": 3, "time_e": 4}]']),
    "tempcompass": (
        ".json",
        [
            "[]",
            '{"v": []}',
            '{"v": {"action": [3]}}',
            '{"v": {"action": [{"answer": "A"}]}}',
            '{"v": {"action": [{"prediction": 3}]}}',
        ],
    ),
    "vlmevalkit": (".tsv", ["question\nx\n"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_in_another_format_is_refused_by_name(tmp_path, name):
    suffix, texts = BAD[name]
    path = tmp_path / f"x{suffix}"
    for text in texts:
        path.write_text(text)
        with pytest.raises(DataError, match=rf"x\{suffix}"):
            read_format(name, path, SAMPLES)
    path.write_bytes(b"\x1f\x8b\xff\xfe")
    with pytest.raises(DataError, match=rf"x\{suffix}"):
        read_format(name, path, SAMPLES)


def test_half_a_character_in_a_response_does_no_harm(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"doc": {"id": "001-1"}, "resps": ["A \\ud83d"]}\n')
    ((_, text),) = said(read_format("lmms-eval", path, SAMPLES)).items()
    assert text.encode() and text.startswith("A ")


def test_ours_are_read_as_before(tmp_path):
    path = lines(tmp_path / "x.jsonl", [{"id": "001-1", "answer": "A"}, {"id": "?", "answer": "B"}])
    found = read_format("jsonl", path, SAMPLES)
    assert set(found.rows) == {"001-1", "?"} and len(found.unmatched) == 1


def test_options_in_the_question_do_not_hide_it(tmp_path):
    whole = [
        replace(one, query=replace(one.query, text=f"{one.query.text}\nA. a\nB. b"))
        for one in SAMPLES
    ]
    rows = [lmms(1, "B", doc={"id": "001-2", "question": QUESTIONS["001-2"]})]
    assert said(read_format("lmms-eval", lines(tmp_path / "x.jsonl", rows), whole)) == {
        "001-2": "B"
    }


def test_what_is_no_object_is_said_to_be_none(tmp_path):
    (tmp_path / "log.json").write_text('{"logs": [["A"]]}')
    with pytest.raises(DataError, match=r"log 1.*found \['A'\]"):
        read_format("lmms-eval", tmp_path / "log.json", SAMPLES)
    (tmp_path / "log.json").write_text('["A"]')
    with pytest.raises(DataError, match=r"a file that ends in \.jsonl"):
        read_format("lmms-eval", tmp_path / "log.json", SAMPLES)
