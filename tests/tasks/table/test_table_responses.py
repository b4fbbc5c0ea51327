"""What own tables read from responses, and what of a table is refused before it is scored."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from harness.cli.main import main
from harness.errors import DataError
from harness.masks import Rle
from harness.metrics.point_readers import attribute_points, tuple_points
from harness.run.duplicates import same_questions
from harness.tasks.table.draft import draft
from harness.tasks.table.protocols import PROTOCOLS, yes_or_no
from harness.tasks.table.task import table
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Interval,
    Point,
    Prediction,
    Sample,
    Target,
)

WIDTH, HEIGHT = 64, 48


def images(root):
    """An image, and a video of three frames."""
    for name in ("images/red", "clip/0", "clip/1", "clip/2"):
        (root / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT), "red").save(root / f"{name}.png")


def bench(root, rows, answer, media=None, question=None):
    """A table of rows with images, and its description; returns the table's path."""
    images(root)
    sections = {
        "media": media or {"images": "image", "folder": "images"},
        "question": question or {"text": "question"},
        "answer": answer,
    }
    text = 'name = "mine"\n'
    for name, keys in sections.items():
        text += f"[{name}]\n" + "".join(f"{key} = {json.dumps(keys[key])}\n" for key in keys)
    (root / "mine.toml").write_text(text, encoding="utf-8")
    path = root / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(answer, **fields):
    return {"image": "red.png", "question": "Which?", "answer": answer, **fields}


def sample_of(path, **arguments):
    task = table(path.parent, file=path, **arguments)
    (sample,) = task.samples()
    return task, sample


def responds(sample, text, answer=None):
    failure = None if answer else Failure(FailureKind.PARSE, "no answer")
    return Prediction(query_id=sample.query.id, answer=answer, failure=failure, responses=(text,))


def intervals(tmp_path, value, **media):
    answer = {"form": "interval", "field": "answer", "written": "seconds"}
    media = {"video": "clip", "folder": ".", "frames_per_second": 0.02, **media}
    return bench(tmp_path, [{**row(value), "clip": "clip"}], media=media, answer=answer)


@pytest.mark.parametrize(
    ("response", "answer", "read"),
    [
        ('[{"start": "00:27.50", "end": "00:35.00"}]', None, Interval(27.5, 35)),
        ("<think>1 s to 2 s</think><answer>12 s to 16 s</answer>", None, Interval(12, 16)),
        ("From 00:14 to 00:19, and again from 01:02 to 01:08. So **01:02 - 01:08**.", None, None),
        ('{"time": [62, 68]}', Answer(interval=Interval(62, 68)), Interval(62, 68)),
        ("It is never shown.", None, None),
    ],
)
def test_an_interval_is_the_one_that_a_response_states(response, answer, read, tmp_path):
    task, sample = sample_of(intervals(tmp_path, [27.5, 35]))
    assert task.protocol.name == "interval/stated" and task.protocol.reads is not None
    prediction = responds(sample, response, answer)
    assert task.protocol.reads(sample, prediction) == read
    score = task.protocol.score([sample], [prediction])["mIoU"].value
    assert score == (1.0 if read == Interval(27.5, 35) else 0.0)


POINTS = {"form": "points", "field": "answer", "written": "xyxy"}


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ('<points x1="15" y1="50" alt="dogs">dogs</points>', None),
        ('[{"point_2d": [15, 30]}]', None),
        ('[{"point": [500, 150]}]', None),
        ("[(15, 30)]", None),
        ("[(0.15, 0.5)]", (Point(0.15 * WIDTH, 24.0),)),
    ],
)
def test_a_point_of_another_frame_is_no_point(response, read, tmp_path):
    task, sample = sample_of(bench(tmp_path, [row([0, 0, 40, 40])], answer=POINTS))
    assert task.protocol.reads(sample, responds(sample, response)) == read


def test_a_response_that_only_the_protocol_reads_is_told_as_read(tmp_path, capsys):
    path = bench(tmp_path, [row([0, 0, 40, 40])], answer=POINTS)
    (tmp_path / "said.jsonl").write_text('{"id": "0", "response": "[(0.15, 0.5)]"}\n')
    given = ["--model", "qwen_vl(backend=stored)", "--predictions", str(tmp_path / "said.jsonl")]
    typed = ["--tasks", f"table(file={path})", "--data", str(tmp_path), *given]
    assert main(["score", *typed, "--out", str(tmp_path / "runs")]) == 0
    assert "no response is read" not in capsys.readouterr().err
    (run,) = (tmp_path / "runs" / "said").iterdir()
    assert main(["explain", str(run), "0"]) == 0
    shown = capsys.readouterr().out
    assert "read by points/inside" in shown and "accuracy 1.0" in shown
    assert "cannot be read" not in shown and "failure" not in shown


@pytest.mark.parametrize("form", ["boxes", "points"])
def test_the_model_that_reads_a_networks_own_boxes_and_points_is_named(form, tmp_path, capsys):
    path = bench(tmp_path, [row([0, 0, 40, 40])], answer={**POINTS, "form": form})
    said = [{"bbox_2d": [0, 0, 40, 40]}] if form == "boxes" else [{"point_2d": [15, 30]}]
    line = json.dumps({"id": "0", "response": json.dumps(said)})
    (tmp_path / "said.jsonl").write_text(line + "\n")
    given = ["--data", str(tmp_path), "--predictions", str(tmp_path / "said.jsonl")]
    typed = ["score", "--tasks", f"table(file={path})", *given]
    reader = "qwen_vl(backend=stored,prompt=locate)"
    assert main(typed) == 2 and f'--model "{reader}"' in capsys.readouterr().err
    assert main([*typed, "--model", "qwen_vl(backend=stored)"]) == 0
    assert f'--model "{reader}"' in capsys.readouterr().err
    assert main([*typed, "--model", reader]) == 0
    printed = capsys.readouterr()
    assert reader not in printed.err and "0 failed" in printed.out


@pytest.mark.parametrize(
    ("response", "is_told"), [("Two stand left, or three.", True), ('[{"box": 3}', False)]
)
def test_the_model_that_reads_counts_in_words_is_named(response, is_told, tmp_path, capsys):
    path = bench(tmp_path, [row(2)], answer={"form": "count", "field": "answer"})
    (tmp_path / "said.jsonl").write_text(json.dumps({"id": "0", "response": response}) + "\n")
    given = ["--model", "qwen_vl(backend=stored)", "--predictions", str(tmp_path / "said.jsonl")]
    typed = ["score", "--tasks", f"table(file={path})", "--data", str(tmp_path), *given]
    assert main(typed) == 0
    assert ("prompt=locate) reads counts in words" in capsys.readouterr().err) == is_told


def test_marks_of_the_draft_and_missing_ground_truth_are_told(tmp_path, capsys):
    path = bench(tmp_path, [row([0, 0, 40, 40])], answer=POINTS)
    description, typed = path.with_suffix(".toml"), ["--data", str(tmp_path), "--tasks"]
    typed.append(f"table(file={path})")
    assert main(["data", "check", *typed]) == 0 and "note:" not in capsys.readouterr().out
    text = description.read_text(encoding="utf-8").replace("field =", "# CHECK: field =")
    description.write_text(text, encoding="utf-8")
    assert main(["data", "check", *typed]) == 0
    shown = capsys.readouterr().out
    assert "1 line marked CHECK" in shown and "1 sample without ground truth" in shown
    (tmp_path / "said.jsonl").write_text('{"id": "0", "points": [[20, 20]]}\n')
    assert main(["score", *typed, "--predictions", str(tmp_path / "said.jsonl")]) == 3
    refused = capsys.readouterr().err
    assert "in [answer]" in refused and "server" not in refused


@pytest.mark.parametrize(
    ("written", "answers", "is_told"),
    [
        ("place_from_1", [1, 2, 3], True),
        ("place_from_1", [1, 2, 4], False),
        ("place", [1, 2, 3], True),
        ("place", [0, 2, 3], False),
    ],
)
def test_places_that_may_be_counted_from_0_or_1_are_told(
    written, answers, is_told, tmp_path, capsys
):
    rows = [row(value, options=["a", "b", "c", "d"]) for value in answers]
    answer = {"form": "choice", "field": "answer", "written": written}
    question = {"text": "question", "options": "options"}
    path = bench(tmp_path, rows, answer=answer, question=question)
    assert main(["data", "check", "--data", str(tmp_path), "--tasks", f"table(file={path})"]) == 0
    assert ("counted from" in capsys.readouterr().out) == is_told


def test_the_places_of_a_okvqa_are_found(tmp_path):
    choices = ["a", "b", "c", "d"]
    plain = {"choices": choices, "correct_choice_idx": 2, "direct_answers": ["c", "see"]}
    path = bench(tmp_path, [row("", **plain)], answer={})
    drafted = draft(path)
    assert (drafted.answer["field"], drafted.answer["form"]) == ("correct_choice_idx", "choice")
    assert "place_from_1" in drafted.doubts["answer.written"]


@pytest.mark.parametrize(
    ("answers", "doubt"),
    [([0, 2], '"place"'), ([3, 1], '"place_from_1"'), ([3, 2], ""), ([0, 9], ""), ([0.5, 1], "")],
)
def test_numbers_that_may_be_places_in_a_list_are_to_be_checked(answers, doubt, tmp_path):
    lists = [["start", "stir", "pour"], ["look", "lift"]]
    if doubt == '"place"':
        lists[1].append("put")
    rows = [row(n, actions=texts) for n, texts in zip(answers, lists, strict=True)]
    drafted = draft(bench(tmp_path, rows, answer={}))
    assert ("places in 'actions'" in drafted.doubts.get("answer.form", "")) == bool(doubt)
    assert doubt in drafted.doubts.get("answer.form", "")


@pytest.mark.parametrize("second", ["red", "clip"])
def test_questions_about_a_single_image_have_no_interval_and_say_so(second, tmp_path, capsys):
    rows = [{**row("yes"), "image": name} for name in ("images/red.png", f"images/{second}.png")]
    answer = {"form": "text", "field": "answer"}
    path = bench(tmp_path, rows, answer=answer, media={"images": "image"})
    Image.new("RGB", (WIDTH, HEIGHT), "blue").save(tmp_path / "images" / "clip.png")
    said = "".join(f'{{"id": "{number}", "answer": "yes"}}\n' for number in (0, 1))
    (tmp_path / "said.jsonl").write_text(said)
    given = ["--data", str(tmp_path), "--predictions", str(tmp_path / "said.jsonl")]
    assert main(["score", "--tasks", f"table(file={path})", *given]) == 0
    assert ("no 95 % interval" in capsys.readouterr().out) == (second == "red")


def test_official_protocols_of_points_keep_their_frames():
    assert attribute_points('<points x1="15" y1="50">dogs</points>', 40, 40) == [Point(6.0, 20.0)]
    assert tuple_points("[(15, 30)]", 40, 40, whole="shares") == [Point(600.0, 1200.0)]


@pytest.mark.parametrize(
    ("truth", "response", "score"),
    [
        ("Yes", "Yes – the red car passes the blue one, before the truck does.", 1.0),
        ("no", "No, it does not.", 1.0),
        ("no", "Yes.", 0.0),
        ("yes", "Yes or no?", 0.0),
    ],
)
def test_yes_and_no_are_read_in_sentences(truth, response, score, tmp_path):
    path = bench(tmp_path, [row(truth)], answer={"form": "text", "field": "answer"})
    task, sample = sample_of(path, protocol="text/yes_no")
    assert task.protocol.score([sample], [responds(sample, response)])["accuracy"].value == score


HELMET = "Is the person wearing a helmet?"


@pytest.mark.parametrize(
    ("question", "response", "said"),
    [
        (HELMET, "The person is not wearing a helmet.", "no"),
        (HELMET, "The person isn't wearing any helmet", "no"),
        (HELMET, "The person is wearing a helmet.", "yes"),
        (HELMET, "The person is not wearing a red helmet.", None),
        (HELMET, "The person is not wearing a helmet, but a cap.", None),
        (HELMET, "The person could be wearing a helmet.", None),
        (HELMET, "The man is not wearing a helmet.", None),
        (HELMET, "Is the person wearing a helmet?", None),
        (HELMET, "Is the person wearing a helmet.", None),
        ("Is there a dog in the image?", "There is no dog in the image.", "no"),
        ("Isn't the light red?", "The light is not red.", None),
        ("Isn't the light red?", "<|begin_of_box|>No, the light is green.<|end_of_box|>", "no"),
        (HELMET, "Yes. <|begin_of_box|>No<|end_of_box|>", "no"),
        ("Are all people sitting?", "All people are not sitting.", None),
        ("Is it red or blue?", "It is red or blue.", None),
        ("Is the cup left of the pot?", "The pot is left of the cup.", None),
        ("¿Hay un perro?", "Sí, hay un perro.", "yes"),
        ("Ist da ein Hund?", "Nein.", "no"),
        ("Ist da ein Hund?", "Ja, da ist kein Hund.", None),
        ("Ist da ein Hund?", "Ja, aber er schläft.", None),
        ("有狗吗？", "是的，有一只狗。", "yes"),
        ("¿Hay un perro?", "Sí o no", None),
        ("¿Hay un perro?", "Sí, nunca.", None),
        ("Ist da ein Hund?", "Ja. Nein.", None),
        ("Ist da ein Hund?", "Nein. Doch.", None),
        ("Ist da ein Hund?", "Nein. Ja.", None),
        ("Ist da ein Hund?", "Nein, da ist kein Hund.", "no"),
        ("Y a-t-il un chien ?", "Oui, aucun chien.", None),
        ("犬はいますか？", "はい、いません。", None),
        ("犬はいますか？", "いいえ、いません。", "no"),
        ("危ないですか？", "はい、危ないです。", "yes"),
        ("犬ですか？", "はい、間違いないです。", "yes"),
        ("Y a-t-il un chien ?", "Oui, sans aucun doute.", "yes"),
        ("¿Hay un perro?", "Sí, sin ninguna duda.", "yes"),
        ("Ist da ein Hund?", "Ja, es ist doch ein Hund.", "yes"),
        ("Ist da ein Hund?", "Ja, doch nicht im Bild.", None),
        ("Is Will Smith in the picture?", "Will Smith is in the picture.", "yes"),
        ("Are there dogs?", "Is there a dog", None),
        ("Is there a dog?", "Was there a dog", None),
        (HELMET, "He rides. So yes, the person is wearing a helmet.", "yes"),
        (HELMET, 'The text reads "Safety first." So yes, he wears "a helmet."', "yes"),
        (HELMET, "A cap is on his head. So, no, according to the image, it is not a helmet.", "no"),
        (HELMET, "Therefore, yes", "yes"),
        (HELMET, "He rides.\n**Therefore, the answer is yes.**", "yes"),
        (HELMET, "So yes, but only at first.", None),
        (HELMET, "So yes, the person is not wearing a helmet.", None),
        (HELMET, "So no, the person is wearing a helmet.", None),
        (HELMET, "No, it is a cap. So yes, it is one.", None),
        (HELMET, "So yes. So no.", None),
        (HELMET, "So yes, it seems. I am not sure.", None),
        (HELMET, "So yes, it is one. Then he takes it off.", None),
        (HELMET, "So yes or no?", None),
        (HELMET, "So no helmets are there.", None),
        (HELMET, "So yes, if the cap counts.", None),
        (HELMET, "So yes, wait, no.", None),
    ],
)
def test_yes_and_no_without_the_word(question, response, said):
    assert yes_or_no(response, question) == said


@pytest.mark.parametrize(
    ("truth", "response", "accuracy", "contains"),
    [
        ("7KXR 219", "7kxr  219.", 1, 1),
        ("7KXR 219", 'The sign says "7KXR\n219".', 0, 1),
        ("红色", "答案是红色。", 1, 1),
        ("art", "a heart", 0, 0),
        ("caf", "a café", 0, 0),
        ("สีแดง", "มันคือสีแดง", 0, 1),
        ("5", "about 1.5 m", 0, 0),
        ("5", "It is -5.", 0, 0),
        ("500", "1,500", 0, 0),
        ("1", "1.5", 0, 0),
        ("5", "It is .5 m.", 0, 0),
        ("4", "It is 1e-4.", 0, 0),
        ("5", '{"answer": 5}', 1, 1),
        ("2019", "On 12-05-2019.", 0, 1),
        ("5", "See No.5.", 0, 1),
        ("dog", "The answer is _dog_.", 1, 1),
        ("5", "It is 5, or so.", 0, 1),
        ("-5", "It is -5.", 0, 1),
        ("C++", "It is C++.", 0, 1),
        (["cat", "a dog"], "I see a dog here", 0, 1),
        ("User: admin", "User: admin", 1, 1),
        (r"\sqrt{2} 1020", r"\sqrt{2} 10 20", 0, 0),
        ("$4.99", r"\boxed{\$4.99}", 1, 1),
        ("50%", r"$50\%$", 1, 1),
        ("90°", r"\boxed{90^\circ}", 1, 1),
        ("12,000", r"\boxed{12{,}000}", 1, 1),
        ("STOP", r"**\textbf{STOP}**", 1, 1),
        (r"2 \sqrt { 221 }", r"$2\sqrt{221}$", 1, 1),
        (r"$\frac{1}{2}$", r"\boxed{\frac{1}{2}}", 1, 1),
        ("$5", "5$", 0, 0),
        ("CT scan", "Assistant: CT scan.", 1, 1),
        ("CT scan", "USER: A CT scan or an MRI? ASSISTANT: MRI", 0, 0),
        ("CT scan", "CT scan\nUser: And now?\nAssistant: An MRI", 1, 1),
        ("CT scan", "[INST] What is it? [/INST] CT scan</s>", 1, 1),
        ("CT scan", "<|im_start|>assistant\nCT scan<|im_end|>", 1, 1),
        ("CT scan", "CT scan.<end_of_utterance>", 1, 1),
    ],
)
def test_a_sentence_around_the_right_text_is_told(truth, response, accuracy, contains, tmp_path):
    path = bench(tmp_path, [row(truth)], answer={"form": "text", "field": "answer"})
    task, sample = sample_of(path)
    scores = task.protocol.score([sample], [responds(sample, response)])
    assert [scores[name].value for name in ("accuracy", "contains")] == [accuracy, contains]
    assert task.protocol.beside == ("contains",)


@pytest.mark.parametrize(
    ("response", "score"), [("Yes – it passes.", 1.0), ("A", 1.0), ("No.", 0.0), ("It is.", 0.0)]
)
def test_an_option_is_read_by_letter_or_text(response, score, tmp_path):
    path = bench(
        tmp_path,
        [row("A", options=["Yes", "No"])],
        {"form": "choice", "field": "answer", "written": "letter"},
        question={"text": "question", "options": "options"},
    )
    task, sample = sample_of(path, protocol="choice/stated")
    assert task.protocol.score([sample], [responds(sample, response)])["accuracy"].value == score


NOTHING = Answer(no_target=True, boxes=(), count=0, masks=(Rle.empty(HEIGHT, WIDTH),) * 2)


@pytest.mark.parametrize("form", ["count", "boxes", "mask", "mask_track"])
def test_a_failed_sample_is_never_right(form, query, numbers):
    request = query(0, AnswerForm(form), size=(HEIGHT, WIDTH))
    sample = Sample(id="s", query=request, target=Target(answer=NOTHING))
    for name, protocol in PROTOCOLS[form].items():
        scores = numbers(protocol, [(sample, None)])
        is_official = name == "count/exact"  # VisionReasoner's script counts it as 0
        assert bool(scores[protocol.headline]) == is_official, name
        assert is_official or scores.get("MAE") != 0, name


def test_yes_or_no_asks_for_such_ground_truths(tmp_path):
    path = bench(tmp_path, [row("maybe")], answer={"form": "text", "field": "answer"})
    with pytest.raises(DataError, match="yes or no"):
        sample_of(path, protocol="text/yes_no")


@pytest.mark.parametrize(("value", "is_refused"), [([10, 150.9], False), ([25, 1750], True)])
def test_an_interval_beyond_its_video_is_refused(value, is_refused, tmp_path):
    path = intervals(tmp_path, value)  # three frames, one in 50 s
    problems = list(table(tmp_path, file=path).check())
    assert bool(problems) == is_refused
    assert all("milliseconds" in one.message and "150.00 s" in one.message for one in problems)


def test_a_clip_beyond_its_video_is_refused(tmp_path):
    path = bench(
        tmp_path,
        [{**row("a"), "clip": "clip", "from": 25, "to": 75}],
        media={"video": "clip", "folder": ".", "clip": ["from", "to"]},
        answer={"form": "text", "field": "answer"},
    )
    (problem,) = table(tmp_path, file=path).check()
    assert "'from' and 'to'" in problem.message and "3.00 s" in problem.message


def text_table(root, text, **answer):
    path = bench(root, [], answer={"form": "number", "field": "answer", **answer})
    csv = path.with_suffix(".csv")
    csv.write_text(text, encoding="utf-8")
    return csv


def test_a_table_with_semicolons_is_read(tmp_path):
    path = text_table(tmp_path, 'image;question;answer\nred.png;"How wide; in m?";2.5\n')
    _, sample = sample_of(path)
    assert sample.query.text == "How wide; in m?" and sample.target.answer.number == 2.5


def test_decimal_commas_are_refused_with_the_command(tmp_path):
    """The table is one that R's `write.csv2` writes."""
    path = text_table(tmp_path, '"image";"question";"answer"\n"red.png";"How wide?";2,5\n')
    with pytest.raises(DataError, match="sep=';', decimal=','"):
        sample_of(path)
    with pytest.raises(DataError, match="sep=';', decimal=','"):
        draft(path)


def test_german_headers_are_recognised(tmp_path):
    path = text_table(tmp_path, "Bild;Frage;Antwort\nred.png;Wie breit?;2.5\n")
    drafted = draft(path)
    fields = drafted.media["images"], drafted.question["text"], drafted.answer["field"]
    assert fields == ("Bild", "Frage", "Antwort")


@pytest.mark.parametrize("cells", [["1.250,5", "8,25"], ["12,5", "2.000"]])
def test_the_command_for_decimal_commas_reads_thousands(cells, tmp_path):
    head = "image;question;answer\n"
    path = text_table(tmp_path, head + "".join(f"red.png;How wide?;{cell}\n" for cell in cells))
    with pytest.raises(DataError) as refused:
        sample_of(path)
    command = str(refused.value).split('-c "')[1].split('"')[0]
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path, check=True)
    rows = (tmp_path / "points_mine.csv").read_text().splitlines()[1:]
    meant = [float(cell.replace(".", "").replace(",", ".")) for cell in cells]
    assert [float(line.split(",")[-1]) for line in rows] == meant


@pytest.mark.parametrize(
    ("answers", "mark", "question", "is_open"),
    [
        (["1.250", "980", "2.100"], ";", "Wie viele Zellen?", True),
        (["1.250", "980"], ";", "Area?", True),
        (["1.250", "980"], ",", "How many cells?", True),
        (["1.250", "0.980"], ";", "Area?", False),
        (["1.25", "980"], ";", "Wie viele Zellen?", False),
        (["1.250", "980"], ",", "Area?", False),
    ],
)
def test_points_that_may_part_thousands_are_to_be_checked(
    answers, mark, question, is_open, tmp_path
):
    rows = [["image", "question", "answer"], *(["red.png", question, text] for text in answers)]
    path = text_table(tmp_path, "".join(mark.join(cells) + "\n" for cells in rows))
    assert ("answer.form" in draft(path).doubts) == is_open


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        (["3.000"], "3000"),
        (["3.000", "5"], "3000"),
        (["3.000", "0.000"], ""),
        (["3.000", ".0"], ""),
        (["2.0"], ""),
        (["2"], ""),
    ],
)
def test_a_count_with_a_point_for_thousands_is_refused(texts, refused, tmp_path):
    lines = "".join(f"red.png;How many?;{text}\n" for text in texts)
    path = text_table(tmp_path, f"image;question;answer\n{lines}", form="count")
    problems = list(table(tmp_path, file=path).check())
    assert bool(problems) == bool(refused) and refused in "".join(map(str, problems))


@pytest.mark.parametrize("mark", [",", "\t"])
@pytest.mark.parametrize(
    "lines",
    [
        "a.png,How many?,2\na.png,Who is it?,3\n",
        "a.png,b.png,How many?\nc.png,d.png,Who is it?\n",
        "v_1,0902,0.077,0.151\nv_1,0903,0.077,0.161\n",
    ],
)
def test_a_table_without_a_header_has_a_command_that_adds_one(lines, mark, tmp_path):
    path = tmp_path / ("mine.csv" if mark == "," else "mine.tsv")
    path.write_text(lines.replace(",", mark))
    with pytest.raises(DataError, match="header") as error:
        draft(path)
    typed = re.search("`(.*?)`", str(error.value))[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    described = draft(tmp_path / f"NEW{path.suffix}")
    assert len(described.columns) == lines.split("\n")[0].count(",") + 1


@pytest.mark.parametrize("numbers", ["1,2,3", "0,1,2", "2023,2024", "5,10,20", "0.5,0.75"])
def test_numbers_may_be_names_of_columns(numbers, tmp_path):
    header = f"image,question,answer,{numbers}"
    path = tmp_path / "mine.csv"
    path.write_text(f"{header}\na.png,Who?,{','.join('7' * (header.count(',') - 1))}\n")
    assert draft(path).question["text"] == "question"


def test_a_header_in_the_middle_is_named(tmp_path):
    record = "image,question,answer\nred.png,How wide?,2\n"
    with pytest.raises(DataError, match=r"line 3.*header once more"):
        list(table(tmp_path, file=text_table(tmp_path, record * 2)).samples())


def test_a_message_names_the_field_of_the_table(tmp_path):
    options = {"options": ["left", "right"]}
    answer = {"form": "choice", "field": "answer", "written": "place"}
    question = {"text": "question", "options": "options"}
    path = bench(tmp_path, [row(5, **options)], question=question, answer=answer)
    with pytest.raises(DataError) as refused:
        sample_of(path)
    assert "answer" in str(refused.value) and "'_" not in str(refused.value)


def drafted(tmp_path, answers, **fields):
    images(tmp_path)
    path = tmp_path / "mine.csv"
    rows = [f'red.png,How wide?,"{answer}"\n' for answer in answers]
    path.write_text("image,question,answer\n" + "".join(rows), encoding="utf-8")
    return draft(path)


def test_a_draft_doubts_decimal_commas(tmp_path):
    written = drafted(tmp_path, ["2,5", "0,75", "1,250"])
    assert written.answer["form"] == "number" and "commas" in written.doubts["answer.form"]
    assert "answer.form" not in drafted(tmp_path, ["2.5", "3"]).doubts


@pytest.mark.parametrize("is_inverted", [False, True])
def test_a_draft_doubts_masks_that_are_mostly_white(is_inverted, tmp_path):
    images(tmp_path)
    mask = np.zeros((48, 64), np.uint8)
    mask[10:20, 10:20] = 255
    Image.fromarray(255 - mask if is_inverted else mask).save(tmp_path / "images" / "mask.png")
    written = drafted(tmp_path, ["mask.png"] * 3)
    assert written.answer["form"] == "mask"
    assert ("answer.field" in written.doubts) == is_inverted


@pytest.mark.parametrize(("answer", "told"), [("C", "different answers"), ("B", "same content")])
def test_one_question_with_two_answers_is_told(answer, told, tmp_path, capsys):
    rows = [{**row(letter), "options": ["red", "blue", "green"]} for letter in ("B", answer)]
    path = bench(
        tmp_path,
        rows,
        answer={"form": "choice", "field": "answer", "written": "letter"},
        question={"text": "question", "options": "options"},
    )
    assert main(["data", "check", "--tasks", f"table(file={path})"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.endswith(": 0, 1")]
    assert told in line


def test_right_texts_in_another_order_are_no_other_answer(tmp_path):
    rows = [row(["a cat", "a dog"]), row(["a dog", "a cat"]), row(["a dog", "a bird"])]
    path = bench(tmp_path, rows, answer={"form": "text", "field": "answer"})
    first, same, other = table(tmp_path, file=path).samples()
    hidden = replace(other, target=None)
    differing = [
        same_questions(lambda pair=pair: pair)[1] for pair in ((first, same), (first, hidden))
    ]
    assert differing == [[], []]
    assert same_questions(lambda: (first, other))[1] == [[first.id, other.id]]


@pytest.mark.parametrize("texts", [["STOP", "NO PARKING"], ["NO PARKING", "STOP"]])
@pytest.mark.parametrize("form", ["text", "choice"])
def test_of_several_texts_in_place_of_one_response_none_counts(form, texts, tmp_path, capsys):
    rows = [row("STOP", id=str(number), options=texts) for number in range(2)]
    answer = {"form": form, "field": "answer"}
    question = {"text": "question"}
    if form == "choice":
        answer |= {"written": "option"}
        question |= {"options": "options"}
    path = bench(tmp_path, rows, answer, question=question)
    said = texts if form == "text" else ["A", "B"]
    answers = tmp_path / "said.jsonl"
    answers.write_text(
        "".join(
            json.dumps({"id": id, "response": given}) + "\n"
            for id, given in (("0", said), ("1", said[texts.index("STOP")]))
        )
    )
    command = ["score", "--tasks", f"table(file={path})", "--data", str(tmp_path), "--json"]
    command += ["--model", "qwen_vl(backend=stored)", "--predictions", str(answers)]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert '"accuracy": 0.5' in shown.out and '"parse": 1' in shown.out
