"""Fields of questions: ground truth as an option's text, clips, file names and numbers, macro
averages.
"""

import json
import tomllib
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness.errors import DataError, HarnessError, UsageError
from harness.run.scoring import score_unit
from harness.summary import values
from harness.tasks.qa.letters import Reading, Subtasks, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import QuestionFormat, Videos, question_task, wording_of
from harness.tasks.qa.videos import Clip
from harness.types import Answer, Prediction
from harness.world.mp4 import write_mp4

SUBTASKS = ("order", "state")
FIELDS = Fields(
    id="{_file}/{_index}",
    media="{video}",
    options="candidates",
    form="option",
    clip=("start", "end"),
    categories={"subtask": "_file"},
    allowed_values={"_file": SUBTASKS},
)
PROTOCOLS = letter_protocols(
    "clips",
    official=Reading(lambda response, _: response.strip()[:1] or None, "the first character"),
    subtasks=Subtasks("subtask", SUBTASKS),
)


def record(**changes):
    row = {"video": "a.mp4", "question": "What is it?", "candidates": ["red", "blue"]}
    return {**row, "answer": "blue", **changes}


def written(root, **files):
    frames = [np.full((48, 64, 3), 20 * number, np.uint8) for number in range(10)]
    write_mp4(root / "a.mp4", frames, times=range(10))
    for name, rows in files.items():
        (root / f"{name}.json").write_text(json.dumps(rows))
    return tuple(sorted(root.glob("*.json")))


def task_of(root, paths, *, frames=None, protocol="clips/official", **videos):
    shown = Videos((root,), frames, **videos)
    requested = QuestionFormat(
        files=paths,
        read=partial(FIELDS.questions, paths),
        open=shown.open,
        problems=shown.problems,
    )
    return question_task(requested, "clips", protocol=PROTOCOLS[protocol], arguments={})


def test_records_without_ids_are_named_by_file_and_number(tmp_path):
    paths = written(tmp_path, order=[record(), record()], state=[record(answer="red")])
    samples = list(task_of(tmp_path, paths).samples())
    assert [one.id for one in samples] == ["order/0", "order/1", "state/0"]
    assert [one.categories["subtask"] for one in samples] == ["order", "order", "state"]
    assert [one.target.answer.choice for one in samples] == ["B", "B", "A"]


def test_the_first_of_equal_options_is_right(tmp_path):
    """As in lmms-eval's `mvbench_process_results`."""
    paths = written(tmp_path, order=[record(candidates=["red", "blue", "blue"])])
    (sample,) = task_of(tmp_path, paths).samples()
    assert sample.target.answer.choice == "B" and len(sample.query.options) == 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"answer": "green"}, "'answer'"),
        ({"answer": 1}, "'answer'"),
        ({"answer": ["blue"]}, "'answer'"),
        ({"start": 4, "end": 3.9}, "'start'"),
        ({"start": -1, "end": 4}, "'start'"),
        ({"start": "4", "end": 6}, "'start'"),
        ({"end": 6}, "'start'"),
        ({"start": 1, "end": float("inf")}, "'end'"),
    ],
)
def test_a_wrong_record_is_named_in_the_check_and_in_a_run(tmp_path, changes, named):
    task = task_of(tmp_path, written(tmp_path, order=[record(), record(**changes)]))
    with pytest.raises(DataError) as info:
        list(task.samples())
    assert "order/1" in str(info.value) and named in str(info.value)
    (problem,) = task.check()
    assert named in problem.message


def test_a_subtask_that_nobody_knows_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"'_file'.*order, state.*colour"):
        list(task_of(tmp_path, written(tmp_path, colour=[record()])).samples())


def test_allowed_values_are_of_a_field_and_not_of_a_category():
    with pytest.raises(HarnessError, match=r"'subtask'.*_file.*the category of '_file'"):
        Fields(id="", media="", categories={"subtask": "_file"}, allowed_values={"subtask": ("a",)})


def test_a_problem_is_of_the_file_that_has_it(tmp_path):
    paths = written(tmp_path, order=[record()], state=[record(answer="green")])
    (problem,) = task_of(tmp_path, paths).check()
    assert problem.path == str(tmp_path / "state.json")


@pytest.mark.parametrize(
    ("more", "first"), [("", "A. red"), ("option = '({letter}) {text}'", "(A) red")]
)
def test_a_wording_writes_options_as_its_file_says(tmp_path, monkeypatch, more, first):
    monkeypatch.setattr(
        "harness.tasks.qa.task.templates",
        lambda package: tomllib.loads("official='{options}'\n" + more),
    )
    (question,) = FIELDS.questions(written(tmp_path, order=[record()]))
    assert wording_of("x", "official")(question, None).splitlines()[0] == first


@pytest.mark.parametrize(
    ("clip", "frames", "times"),
    [
        ({}, None, range(10)),
        ({"start": None, "end": None}, 2, (0, 9)),
        ({"start": 2, "end": 5}, None, (2, 3, 4, 5)),
        ({"start": 1.5, "end": 4.2}, None, (2, 3, 4)),
        ({"start": 2, "end": 8}, 3, (2, 5, 8)),
        ({"start": 7}, None, (7, 8, 9)),
        ({"start": 4, "end": 4}, None, (4,)),
        ({"start": 4.2, "end": 4.7}, 3, (4,)),
        ({"start": 7, "end": 60}, 1, (7,)),
    ],
)
def test_a_clip_shows_only_its_own_frames_at_their_own_times(tmp_path, clip, frames, times):
    paths = written(tmp_path, order=[record(**clip)])
    (sample,) = task_of(tmp_path, paths, frames=frames).samples()
    assert sample.query.media[0].times() == tuple(times)


def test_clips_of_one_video_are_different_media_of_one_group(tmp_path):
    rows = [record(start=0, end=3), record(start=4, end=7)]
    one, other = task_of(tmp_path, written(tmp_path, order=rows)).samples()
    assert one.query.media[0].id != other.query.media[0].id and one.group == other.group


def test_a_clip_outside_of_its_video_is_a_lost_medium_and_a_problem(tmp_path):
    paths = written(tmp_path, order=[record(), record(start=50, end=60)])
    task = task_of(tmp_path, paths)
    (problem,) = task.check()
    assert "50" in problem.message and "60" in problem.message
    assert [one.query.media[0].fault is None for one in task.samples()] == [True, False]


def test_a_clip_of_a_folder_goes_by_the_rate_of_its_frames(tmp_path):
    for number in range(9):
        (tmp_path / "film").mkdir(exist_ok=True)
        Image.new("RGB", (64, 48), (20 * number, 0, 0)).save(tmp_path / "film" / f"{number}.png")
    paths = written(tmp_path, order=[record(video="film", start=1, end=2)])
    (sample,) = task_of(tmp_path, paths, frames_per_second=3.0).samples()
    assert sample.query.media[0].times() == pytest.approx((1, 4 / 3, 5 / 3, 2))


def test_clips_in_parquet_are_read_where_the_table_has_them(tmp_path):
    written(tmp_path)
    rows = [record(start=2.0, end=5.0), record(start=None, end=None)]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "order.parquet")
    found = list(FIELDS.questions((tmp_path / "order.parquet",)))
    assert [one.clip for one in found] == [Clip(2.0, 5.0), None]


def test_a_rule_of_frames_that_is_none_is_told_before_a_question_is_read(tmp_path):
    with pytest.raises(UsageError):
        Videos((tmp_path,), 0)


def test_the_headline_is_the_mean_of_the_subtasks(tmp_path):
    paths = written(tmp_path, order=[record()] * 3, state=[record()])
    task = task_of(tmp_path, paths)
    responses = ("B", "A", "A", "B")
    done = [
        score_unit(task, [sample], [predicted(sample, response)])
        for sample, response in zip(task.samples(), responses, strict=True)
    ]
    assert task.protocol.headline == "macro_accuracy"
    assert values(task, done) == pytest.approx(
        {"accuracy": 0.5, "order": 1 / 3, "state": 1.0, "macro_accuracy": 2 / 3}
    )
    alone = values(task, done[:3])
    assert (alone["macro_accuracy"], alone["state"]) == (pytest.approx(1 / 3), None)
    assert values(task, [])["macro_accuracy"] is None


def predicted(sample, response):
    return Prediction(query_id=sample.query.id, answer=Answer(text=response), responses=(response,))


# Other forms of options and ground truth


def question_of(row, **fields):
    whole = {"id": "{_index}", "media": "{video}", "options": "candidates", **fields}
    return Fields(**whole).read_record({"_index": 0, **row}, "row 0")


@pytest.mark.parametrize("answer", ["B", "(B)", "B. blue"])
def test_a_marked_letter_is_the_first_of_its_text(answer):
    assert question_of(record(answer=answer), form="marked").answer == Answer(choice="B")


@pytest.mark.parametrize("answer", ["b) B", "Blue", "(C)", "", None])
def test_a_marked_letter_that_is_no_option_is_refused(answer):
    with pytest.raises(DataError, match="A, B"):
        question_of(record(answer=answer), form="marked")


@pytest.mark.parametrize("options", [None, []])
@pytest.mark.parametrize("form, answer", [("text", "2"), ("number", 2.0)])
def test_a_question_without_options_has_an_answer_of_another_form(options, form, answer):
    row = record(candidates=options, answer="2")
    assert question_of(row, otherwise=form).answer == Answer(**{form: answer})
    assert question_of(record(answer="A"), otherwise=form).answer == Answer(choice="A")
    with pytest.raises(DataError, match="'candidates'"):
        question_of(row)


def test_options_stand_in_fields_or_lines_or_in_the_question():
    fields = record(A="red", B="blue", C=None, answer="B")
    assert question_of(fields, options=("A", "B", "C")).options == ("red", "blue")
    lines = record(candidates="A. red\n\nB. blue\n", answer="B")
    assert question_of(lines, lettered=True).options == ("red", "blue")
    alone = question_of(record(answer="C"), options=(), letters="ABC")
    assert alone.options == () and alone.extra == {"letters": "ABC"}
    with pytest.raises(DataError, match="'D'"):
        question_of(record(answer="D"), options=(), letters="ABC")


def test_images_are_bytes_or_files_in_the_order_of_their_fields(tmp_path):
    row = record(answer="A", one={"bytes": b"1"}, two=None, more=["a.png", {"path": "b.png"}])
    row["question"] = "<image> What is it?"
    fields = Fields(id="{_index}", images=("one", "two", "more"), options="candidates")
    found = fields.read_record({"_index": 0, **row}, "row 0", tmp_path)
    assert found.media == (b"1", tmp_path / "a.png", tmp_path / "b.png")
    assert found.text == "What is it?" and not found.group
    with pytest.raises(DataError, match="one image"):
        fields.read_record({"_index": 0, **row, "one": None, "more": []}, "row 0", tmp_path)


@pytest.mark.parametrize("value, kind", [("order_first", "order"), ("x_order", "other")])
def test_a_breakdown_is_what_a_field_begins_with(value, kind):
    row = record(answer="A", task=value)
    assert question_of(row, kinds={"kind": ("task", SUBTASKS)}).categories == {"kind": kind}
