"""Right texts in one cell, boxes in percent, times in parts of a video, points in thousandths."""

import io
import json
import re
import shutil
import subprocess

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness import load_task
from harness.dataset_facts import check_task
from harness.errors import DataError
from harness.foreign_lines import of_parts, renamed
from harness.formats.video_parts import in_seconds
from harness.interchange.rows import read_rows
from harness.models.signs import families_of
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table
from harness.types import Answer, Box, Interval

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")


def written(path, rows):
    """Write a table and the images that it names."""
    for row in rows:
        if str(row.get("image", "")).endswith(".png"):
            Image.new("RGB", (400, 200)).save(path.parent / row["image"])
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(json.dumps(rows) if path.suffix == ".json" else text, encoding="utf-8")
    return path


def samples(path, *replaced):
    """Return the samples of a table by its draft, in which texts were replaced."""
    text = re.sub(r"  # CHECK.*", "", draft(path).toml("mine"))
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    return list(table(path.parent, file=path).samples())


def notes(path):
    return check_task("mine", table(path.parent, file=path), path.parent, "none")["notes"]


def asked(answer, question="What is wrong?"):
    return [{"image": "a.png", "question": question, "answer": answer}]


SEVERAL = {
    "us - ultrasound#us": "#",
    "pulmonary embolism | pe": "|",
    "sofa||couch": "||",
    "grey && gray": "&&",
    "grey<sep>gray": "<sep>",
    "grey; gray": ";",
    "sofa / couch": " / ",
    "sofa/couch": "/",
    "two or 2": " or ",
    "grey\ngray": "\n",
    "The shoes are not visible in it; We cannot see what she wears": ";",
}


@pytest.mark.parametrize("text", SEVERAL)
def test_right_texts_between_marks_are_to_be_checked(text, tmp_path):
    path = written(tmp_path / "t.jsonl", asked("a cat") + asked(text))
    assert json.dumps(SEVERAL[text]) in draft(path).doubts["answer.separator"]
    with pytest.raises(DataError, match="which may be several") as error:
        samples(path, ('separator = ""\n', ""))
    assert f"separator = {json.dumps(SEVERAL[text])}" in str(error.value)
    stated = ('separator = ""', f"separator = {json.dumps(SEVERAL[text])}")
    first, second = samples(path, stated)
    assert (second.target.answer.text, *second.target.references) == tuple(
        part.strip() for part in text.split(SEVERAL[text])
    )
    assert first.target.answer == Answer(text="a cat")
    assert notes(path) == []


@pytest.mark.parametrize(
    ("texts", "is_doubted"),
    [
        (["its their character", "love is all"], True),
        (["Is it red?", "What is it?"], False),
        (["Count the cats.", "Name the tool."], False),
    ],
)
def test_words_of_an_image_are_not_taken_for_its_question(texts, is_doubted, tmp_path):
    rows = [{"image": f"{text[0]}.png", "text": text, "answer": "yes"} for text in texts]
    doubts = draft(written(tmp_path / "t.jsonl", rows)).doubts
    assert ("words of the image" in doubts.get("question.text", "")) == is_doubted


def test_corners_of_a_box_are_no_options(tmp_path):
    box = {"Roi.X1": 6, "Roi.Y1": 5, "Roi.X2": 48, "Roi.Y2": 49}
    path = written(tmp_path / "t.jsonl", [{"image": "a.png", "question": "Which?", **box}])
    assert "options" not in draft(path).question


def test_decisions_of_annotators_are_to_be_checked(tmp_path):
    path = written(tmp_path / "t.jsonl", asked("accept") + asked("reject"))
    assert "annotator" in draft(path).doubts["answer.field"]


def test_a_draft_looks_at_later_records_too(tmp_path):
    path = written(tmp_path / "t.jsonl", asked("a cat") * 200 + asked(["a cat", "a dog"]) * 200)
    assert "right alone" in draft(path).doubts["answer.field"]


@pytest.mark.parametrize(
    "text",
    [
        "lung, mediastinum, pleura",
        "cats and/or dogs",
        "60 km/h",
        "60 miles/hour",
        "https://example.org/a#b",
        "example.org/cats/dogs",
        "C# code",
        "room #5",
        "R&amp;B",
        "P(A|B)",
        "for (;;) { a || b; }",
        "x = a | b",
        "3/4",
        "24/7",
        "The man sits down on a chair; the dog runs away from him.",
    ],
)
def test_marks_that_part_no_texts_are_not_asked_about(text, tmp_path):
    path = written(tmp_path / "t.jsonl", asked(text))
    assert "answer.separator" not in draft(path).doubts
    samples(path)
    assert notes(path) == []


def test_one_text_can_be_stated(tmp_path):
    path = written(tmp_path / "t.jsonl", asked("grey#gray"))
    (sample,) = samples(path)
    assert (sample.target.answer, sample.target.references) == (Answer(text="grey#gray"), ())
    assert notes(path) == []


def test_texts_alone_have_marks_between_them(tmp_path):
    path = written(tmp_path / "t.jsonl", asked(3, "How many?"))
    with pytest.raises(DataError, match="separator: expected the form 'text'"):
        samples(path, ('field = "answer"', 'field = "answer"\nseparator = "#"'))


def test_a_cell_of_marks_alone_is_refused(tmp_path):
    path = written(tmp_path / "t.jsonl", asked("a#b") + asked("#"))
    with pytest.raises(DataError, match="expected a text"):
        samples(path, ('separator = ""', 'separator = "#"'))


def test_boxes_in_percent(tmp_path):
    rows = [{"image": "a.png", "question": "a dog", "bbox": [25, 40, 60, 80]}]
    path = written(tmp_path / "t.jsonl", rows)
    assert "pixels, percent and thousandths" in draft(path).doubts["answer.coordinates"]
    (sample,) = samples(path, ('coordinates = "pixels"', 'coordinates = "percent"'))
    assert sample.target.answer.boxes == (Box(100, 80, 240, 160),)
    larger = [{**rows[0], "bbox": [25, 40, 160, 120]}]
    assert "percent" not in draft(written(path, larger)).doubts["answer.coordinates"]


def film(folder):
    """Write a video of 20 s as a folder of images."""
    folder.mkdir()
    for number in range(20):
        Image.new("RGB", (8, 8)).save(folder / f"{number:02}.png")


def moments(tmp_path):
    """A table of a moment in a video of 20 s, from 5 s to 10 s."""
    film(tmp_path / "v")
    row = {"id": "v/0", "video": "v", "question": "When?", "answer": [5, 10]}
    path = written(tmp_path / "times.jsonl", [row])
    assert samples(path)[0].target.answer == Answer(interval=Interval(5, 10))
    return path


def typed(error, table, name=""):
    """The commands of a message for a table's task; the last one writes to `name`."""
    commands = re.findall(r"`(.*?)`", str(error), re.DOTALL)
    filled = [c.replace("TASK", f"table(file={table})") for c in commands]
    filled = [command.replace("ROOT", str(table.parent)) for command in filled]
    return [*filled[:-1], filled[-1].rpartition(" > ")[0] + f" > {name}"] if name else filled


def shell(command, folder):
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)


@needs_jq
def test_hundredths_of_vtimellm_become_seconds_of_the_moments_of_its_own_data(tmp_path):
    film(tmp_path / "v")
    film(tmp_path / "w")
    moments = {"timestamps": [[5, 10], [12, 16]], "sentences": ["A man sits.", " He stands."]}
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"v": moments, "w": moments}), encoding="utf-8")
    with pytest.raises(DataError) as error:
        draft(data)
    new_table = obeyed(str(error.value), tmp_path, "moments.json", written="NEW.json")
    log = tmp_path / "log.txt"
    row = {"task": "grounding", "query_id": 0}
    answers = ["It is from 25 to 50.", "From 60 to 80."]
    rows = [
        {**row, "video_id": video, "answer": answer, "info": {"sentence_id": number, "iou": 1.0}}
        for video in "vw"
        for number, answer in enumerate(answers)
    ]
    log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    truths = {sample.id: sample.target.answer.interval for sample in samples(new_table)}
    with pytest.raises(DataError, match="hundredths of the video") as error:
        list(read_rows(log))
    for command in typed(error.value, new_table):
        assert shell(command, tmp_path).returncode == 0
    converted = {line.id: Interval(*line.value) for line in read_rows(tmp_path / "NEW2")}
    assert converted == truths


def test_parts_of_videos_that_are_not_stated_are_failures(tmp_path):
    path = moments(tmp_path)
    log = tmp_path / "log.jsonl"
    task = load_task(f"table(file={path})")
    for plain, expected in (
        ({"response": "It is never."}, {"response": None}),
        ({"answer": [0.25, 0.5]}, {"answer": [5, 10]}),
    ):
        written(log, [{"id": "v/0", **plain}])
        assert list(in_seconds(log, task.samples(), 1)) == [{"id": "v/0", **expected}]
    shutil.rmtree(tmp_path / "v")
    with pytest.raises(DataError, match="a video of known length"):
        list(in_seconds(log, task.samples(), 1))


@needs_jq
@pytest.mark.parametrize("own", ["x/v/0", "one"])
def test_parts_of_videos_of_unknown_ids_are_refused_with_a_command(own, tmp_path):
    path = moments(tmp_path)
    log = written(tmp_path / "log.jsonl", [{"id": own, "answer": [25, 50]}])
    task = load_task(f"table(file={path})")
    lines = in_seconds(log, task.samples(), 100)
    with pytest.raises(DataError, match="1 of 1 lines") as error:
        next(lines)
    (command,) = typed(error.value, path, "renamed.jsonl")
    assert shell(command, tmp_path).returncode == 0
    renamed = in_seconds(tmp_path / "renamed.jsonl", task.samples(), 100)
    assert list(renamed) == [{"id": "v/0", "answer": [5, 10]}]


def test_a_line_of_no_sample_among_parts_of_videos_is_refused(tmp_path):
    path = moments(tmp_path)
    rows = [{"id": "v/0", "answer": [25, 50]}, {"id": "v/1", "answer": [25, 50]}]
    log = written(tmp_path / "log.jsonl", rows)
    command = of_parts(100, log.name).strip("`").replace("TASK", f"table(file={path})")
    result = shell(command.replace("ROOT", str(tmp_path)), tmp_path)
    assert result.returncode == 1 and "1 of 2 lines" in result.stderr
    assert (tmp_path / "NEW").read_text() == ""


def test_names_that_would_be_one_id_are_kept_apart():
    assert renamed(["v/0", "w/0", "v/1"], {"0", "1", "2"}) is None
    assert renamed(["v/0", "v/1"], {"0", "1", "2"}) == 'sub("^([^/]*/){1}"; "")'


def test_shares_in_percent_are_hundredths(tmp_path):
    task = load_task(f"table(file={moments(tmp_path)})")
    log = written(tmp_path / "log.jsonl", [{"id": "v/0", "response": "From 25% to 50%."}])
    assert list(in_seconds(log, task.samples(), 100)) == [{"id": "v/0", "answer": [5, 10]}]


@pytest.mark.parametrize(
    "row",
    [
        *({"id": "v/0", "answer": odd} for odd in ([[1, 2]], [1], 5, "1-2", ["1", "2"])),
        {"id": "v/0", "response": ["From 1 to 2."]},
        {"id": "v/0", "responses": ["From 1 to 2."]},
        {"id": "v/0", "answer": [1, 2], "response": "From 1 to 2."},
        [1],
    ],
)
def test_other_lines_of_parts_of_videos_are_refused(row, tmp_path):
    task = load_task(f"table(file={moments(tmp_path)})")
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(DataError, match="line 1"):
        list(in_seconds(log, task.samples(), 100))


@pytest.mark.parametrize(
    ("response", "family"),
    [
        ('<points x1="154" y1="104" x2="88" y2="4" alt="a dog">a dog</points>', "qwen3_vl"),
        ('<points x1="15" y1="10" x2="88" y2="1000" alt="a dog">a dog</points>', "qwen3_vl"),
        ('<points x1="15.4" y1="10.4" x2="100" y2="4" alt="154">154</points>', "molmo"),
    ],
)
def test_points_beyond_100_are_thousandths(response, family):
    assert families_of(response) == [family]


def obeyed(doubt, folder, name, written="NEW"):
    """Run the command that a doubt names; return the file that it writes, under a name."""
    command = re.search(r"`(.*?)`", doubt, re.DOTALL)[1]
    subprocess.run(command, shell=True, cwd=folder, check=True)
    return (folder / written).rename(folder / name)


@needs_jq
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_questions_in_a_list_of_each_record_have_a_command(suffix, tmp_path):
    own = [
        {"id": 7, "image_id": 1, "question": "How many?", "answer": "two"},
        {"id": 8, "image_id": 1, "question": "Who?", "answer": "a dog"},
    ]
    rows = [{"id": 1, "image_id": 1, "image": "a.png", "qa_pairs": own}]
    path = written(tmp_path / f"t{suffix}", rows)
    doubt = draft(path).doubts["question.text"]
    assert "'qa_pairs'" in doubt
    new_table = obeyed(doubt, tmp_path, "made.jsonl")
    records = [json.loads(line) for line in new_table.read_text("utf-8").splitlines()]
    assert records == [{**row, "record_id": 1, "image": "a.png"} for row in own]
    assert [s.target.answer.text for s in samples(new_table)] == ["two", "a dog"]


def test_turns_beside_a_question_are_no_questions_of_their_own(tmp_path):
    row = {"image": "a.png", "question": "Who?", "answer": "a dog"}
    path = written(tmp_path / "t.jsonl", [{**row, "turns": [{"question": "x", "answer": "y"}]}])
    assert "question.text" not in draft(path).doubts


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_options_without_the_right_one_have_a_command(suffix, tmp_path):
    rows = [
        {"image": "a.png", "question": f"{n}?", "answer": f"it {n}", "multiple_choices": ["x", "y"]}
        for n in range(4)
    ]
    path = written(tmp_path / f"t{suffix}", rows)
    doubt = draft(path).doubts["question.options"]
    assert "lack the answer" in doubt
    new_table = obeyed(doubt, tmp_path, "made.jsonl")
    assert [s.target.answer.choice for s in samples(new_table)] == ["A", "B", "C", "A"]


def test_options_in_another_spelling_do_not_lack_the_answer(tmp_path):
    row = {"image": "a.png", "question": "?", "answer": "the cat", "options": ["The cat.", "Dogs"]}
    described = draft(written(tmp_path / "t.jsonl", [row]))
    assert "question.options" not in described.doubts
    assert "is not the text of an option" in described.doubts["answer.written"]


@pytest.mark.parametrize("key", ["choice", "text", "value"])
def test_options_that_are_objects_are_read_by_their_texts(key, tmp_path):
    choices = [{"id": n, key: text, "program": []} for n, text in enumerate(("a cat", "a dog"))]
    row = {"image": "a.png", "question": "?", "answer": "a dog", "choices": choices}
    (sample,) = samples(written(tmp_path / "t.jsonl", [row]))
    assert sample.query.options == ("a cat", "a dog")
    assert sample.target.answer == Answer(choice="B")


@pytest.mark.parametrize("count", [7, 8])
def test_one_letter_that_is_right_in_all_questions_is_noted(count, tmp_path):
    rows = [
        {"image": "a.png", "question": f"{n}?", "answer": f"n{n}", "options": [f"n{n}", "x"]}
        for n in range(count)
    ]
    path = written(tmp_path / "t.jsonl", rows)
    samples(path)
    assert [note.startswith("A is the right option of all 8") for note in notes(path)] == [True] * (
        count == 8
    )


def test_a_question_that_all_records_ask(tmp_path):
    rows = [{"image": "a.png", "answer": "a cat"}, {"image": "b.png", "answer": "a dog"}]
    path = written(tmp_path / "t.jsonl", rows)
    assert "constant = " in draft(path).doubts["question.text"]
    said = samples(path, ('text = "CHECK"', 'constant = "What is {this}?"'))
    assert [sample.query.text for sample in said] == ["What is {this}?"] * 2
    with pytest.raises(DataError, match="found both"):
        samples(path, ('text = "CHECK"', 'constant = "What?"\ntext = "answer"'))


def test_corners_with_names_are_a_polygon(tmp_path):
    corners = [{"x": x, "y": y} for x, y in ((10, 20), (30, 20), (30, 40), (10, 40))]
    for value in (corners, [corners], [[corners]]):
        row = {"image": "a.png", "question": "a dog", "mask": value}
        path = written(tmp_path / "t.jsonl", [row])
        assert "corners of a polygon" in draft(path).doubts["answer.form"]
        (sample,) = samples(path)
        assert sample.target.answer.masks[0].area == 400


CAT = {"image": "a.png", "question": "Who is it?"}
MARKED = {
    "<answer> a cat </answer>": Answer(text="a cat"),
    "<think>It purrs.</think>\n<answer>a cat</answer>": Answer(text="a cat"),
    "$\\boxed{12}$": Answer(number=12.0),
    "<answer>12</answer>": Answer(number=12.0),
    "<answer>a</answer> or <answer>b</answer>": Answer(
        text="<answer>a</answer> or <answer>b</answer>"
    ),
}


@pytest.mark.parametrize("solution", MARKED)
def test_marks_around_a_solution_are_not_part_of_it(solution, tmp_path):
    row = {"image": "a.png", "problem": "Who is it?", "solution": solution}
    (sample,) = samples(written(tmp_path / "t.jsonl", [row]))
    assert sample.query.text == "Who is it?"
    assert sample.target.answer == MARKED[solution]


def test_the_reply_of_an_assistant_is_the_right_text(tmp_path):
    said = [{"role": "user", "content": "<image>Who?"}, {"role": "assistant", "content": "a cat"}]
    rows = [
        {"images": ["a.png"], "messages": said},
        {"images": ["a.png"], "messages": said[:1], "answer": "a dog"},
    ]
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    assert samples(written(tmp_path / "t.jsonl", rows[:1]))[0].target.answer.text == "a cat"
    assert samples(written(tmp_path / "own.jsonl", rows[1:]))[0].target.answer.text == "a dog"
    conversations = [{"image": "a.png", "conversations": said}]
    (sample,) = samples(written(tmp_path / "minicpm.json", conversations))
    assert (sample.query.text, sample.target.answer.text) == ("Who?", "a cat")


def test_a_system_before_a_conversation_is_to_be_checked(tmp_path):
    turns = [
        {"from": "system", "value": "Be short."},
        {"from": "human", "value": "<image>\nWho?"},
        {"from": "gpt", "value": "a cat"},
    ]
    path = written(tmp_path / "t.json", [{"image": "a.png", "conversations": turns}])
    assert "a system's" in draft(path).doubts["question.text"]
    (sample,) = samples(path)
    assert (sample.query.text, sample.target.answer.text) == ("Who?", "a cat")


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        ("conversations", [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "a cat"}]),
        (
            "messages",
            [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "a cat"}],
        ),
    ],
)
def test_images_beside_turns_in_parquet_are_read(name, turns, tmp_path):
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    images = [{"bytes": file.getvalue(), "path": None}]
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.Table.from_pylist([{"images": images, name: turns}]), path)
    (sample,) = samples(path)
    assert sample.query.media[0].size == (8, 8)
    assert sample.target.answer.text == "a cat"


@pytest.mark.parametrize(
    ("answers", "doubt"),
    [
        (["007", "0123"], "begins with 0"),
        (["1/2", "3/4"], "a fraction"),
        (["Yes, it is red.", "No, it is blue."], "yes or no with a sentence"),
        (["2021-03-04", "2020-11-30"], "a date"),
        (["a &lt;b&gt;", "R&amp;B"], "write 'a <b>'"),
    ],
)
def test_texts_that_are_scored_as_they_are_written_are_to_be_checked(answers, doubt, tmp_path):
    rows = [{**CAT, "answer": answer} for answer in answers]
    assert doubt in draft(written(tmp_path / "t.jsonl", rows)).doubts["answer.form"]


@pytest.mark.parametrize("question", ["Is it?", "Which is it?"])
def test_y_and_n_are_yes_and_no(question, tmp_path):
    rows = [{"image": "a.png", "question": question, "answer": answer} for answer in "YN"]
    path = written(tmp_path / "t.jsonl", rows)
    assert [sample.target.answer.text for sample in samples(path)] == ["yes", "no"]
    assert "y and n" in draft(path).doubts["answer.form"]


@pytest.mark.parametrize("text", ["From 5.0s to 10.0s", "5 sec - 10 sec.", "5.0 to 10.0"])
def test_times_with_their_unit_are_an_interval(text, tmp_path):
    film(tmp_path / "v")
    path = written(tmp_path / "t.jsonl", [{"video": "v", "question": "When?", "answer": text}])
    assert samples(path)[0].target.answer == Answer(interval=Interval(5, 10))


@pytest.mark.parametrize(
    ("answer", "key", "doubt"),
    [
        ("The given query happens in 3.0 - 9.0 seconds.", "form", "is the form interval"),
        ([0.1, 0.4], "written", "parts of the video"),
    ],
)
def test_times_that_are_not_read_are_to_be_checked(answer, key, doubt, tmp_path):
    film(tmp_path / "v")
    path = written(tmp_path / "t.jsonl", [{"video": "v", "question": "When?", "answer": answer}])
    assert doubt in draft(path).doubts[f"answer.{key}"]


def test_a_segment_is_the_answer_or_a_part_of_the_video(tmp_path):
    film(tmp_path / "v")
    row = {"video": "v", "question": "Who?", "segment": [4.0, 7.5]}
    path = written(tmp_path / "t.jsonl", [row])
    assert "clip = " in draft(path).doubts["answer.field"]
    assert samples(path)[0].target.answer == Answer(interval=Interval(4, 7.5))
    path = written(tmp_path / "choice.jsonl", [{**row, "answer": "a cat"}])
    assert draft(path).media["clip"] == ["segment.0", "segment.1"]
    (sample,) = samples(path)
    assert len(sample.query.media[0].times()) < 20


def test_options_in_columns_lose_their_letters(tmp_path):
    row = {**CAT, "Choice A": "A: a cat", "Choice B": "B: a dog", "answer": "B"}
    (sample,) = samples(written(tmp_path / "t.jsonl", [row]))
    assert sample.query.options == ("a cat", "a dog")


@needs_jq
def test_captions_of_coco_have_a_command(tmp_path):
    rows = {
        "images": [{"id": 7, "file_name": "a.png"}],
        "annotations": [{"id": n, "image_id": 7, "caption": text} for n, text in enumerate("xy")],
    }
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(DataError, match="COCO's captions") as error:
        draft(path)
    typed = re.search(r"`(.*?)` makes", str(error.value), re.DOTALL)[1]
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "NEW.json").read_text("utf-8")) == [
        {"id": 7, "image": "a.png", "answers": ["x", "y"]}
    ]


@pytest.mark.parametrize("text", ["['a cat' 'kitten']", "['a cat'\n 'kitten']"])
def test_the_text_of_an_array_of_texts_has_them_apart(text, tmp_path):
    (sample,) = samples(written(tmp_path / "t.jsonl", [{**CAT, "answer": text}]))
    assert (sample.target.answer.text, sample.target.references) == ("a cat", ("kitten",))


def test_quotation_marks_in_a_text_part_nothing(tmp_path):
    rows = [{**CAT, "answer": "['say \" \" twice']"}]
    (sample,) = samples(written(tmp_path / "t.jsonl", rows))
    assert (sample.target.answer.text, sample.target.references) == ('say " " twice', ())


@pytest.mark.parametrize(
    ("splits", "kept"),
    [
        (["train", "val", "test"], "test"),
        (["train", "validation"], "validation"),
        (["test", "test"], None),
        (["test", "indoor"], None),
    ],
)
def test_one_of_several_splits_in_a_table_is_kept(splits, kept, tmp_path):
    rows = [{**CAT, "answer": f"it is {split}", "split": split} for split in splits]
    path = written(tmp_path / "t.jsonl", rows)
    assert draft(path).question.get("where") == (kept and {"split": kept})
    assert len(samples(path)) == (1 if kept else len(splits))


@pytest.mark.parametrize("numbers", [(1, 2, 10), ("1", "2", "10")])
def test_zeros_stand_before_the_numbers_of_images_in_any_table(numbers, tmp_path):
    for number in (1, 2, 10, 1000, 2000):
        Image.new("RGB", (8, 8), (number % 256, 0, 0)).save(tmp_path / f"{number:04}.png")
    rows = [{"frame": number, "question": "What?", "answer": "a"} for number in numbers]
    path = written(tmp_path / "a.jsonl", rows)
    path.with_suffix(".toml").write_text(
        'name = "a"\n[media]\nimages = "{frame:04}.png"\n[question]\ntext = "question"\n'
        '[answer]\nform = "text"\nfield = "answer"\n'
    )
    shown = [
        sample.query.media[0].frame(0)[0, 0, 0] for sample in table(tmp_path, file=path).samples()
    ]
    assert shown == [1, 2, 10]


def test_parts_of_videos_are_read_from_csv(tmp_path):
    film(tmp_path / "v")
    path = tmp_path / "a.csv"
    path.write_text("video,question,start,end,answer\nv,What?,5,9.5,a\n")
    path.with_suffix(".toml").write_text(
        'name = "a"\n[media]\nvideo = "video"\nclip = ["start", "end"]\n[question]\n'
        'text = "question"\n[answer]\nform = "text"\nfield = "answer"\n'
    )
    (sample,) = table(tmp_path, file=path).samples()
    assert len(sample.query.media[0]) == 5
