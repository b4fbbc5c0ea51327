"""STV-205k's reader on the generated world: types, forms, graphs, and lines that are wrong."""

import json
import shutil
from collections import Counter

import pytest

from harness.errors import DataError
from harness.tasks.training.stv_205k.task import KINDS, stv_205k
from harness.tasks.training.stv_205k.writer import RL_QUESTIONS, write
from harness.trainers.video_str.extra import read_graphs
from harness.world.shapes import make_world


@pytest.fixture(scope="module")
def stv(tmp_path_factory):
    out = tmp_path_factory.mktemp("stv")
    write(make_world(seed=3, size=4), out)
    return out


@pytest.fixture(scope="module")
def samples(stv):
    return list(stv_205k(stv).samples())


@pytest.fixture
def copy(stv, tmp_path):
    return shutil.copytree(stv, tmp_path / "copy")


def test_all_eight_types_of_questions_are_asked_in_all_forms(samples):
    assert {sample.target.extra["task"] for sample in samples} == set(KINDS)
    assert {sample.target.extra["source"] for sample in samples} == {"tao", "kitti", "scannet"}
    forms = {str(sample.query.form) for sample in samples}
    assert forms == {"choice", "number", "boxes", "box_3d"}
    assert {sample.categories["medium"] for sample in samples} == {"image", "video"}
    for sample in samples:
        assert (len(sample.query.media[0]) > 1) == (sample.categories["medium"] == "video")


def test_the_task_has_no_problem_and_its_subset_is_uniform(stv):
    task = stv_205k(stv)
    assert not list(task.check())
    rl = Counter(sample.target.extra["task"] for sample in stv_205k(stv, split="rl").samples())
    there = Counter(sample.categories["task"] for sample in task.samples())
    assert rl.total() == RL_QUESTIONS
    free = [rl[kind] for kind in KINDS if rl[kind] < there[kind]]
    assert max(rl.values()) - min(free) <= 1
    only = stv_205k(stv, part="displacement").samples()
    assert {sample.target.extra["task"] for sample in only} == {"displacement"}


def test_numbers_in_metres_follow_from_the_graphs(samples):
    """A displacement lies between the first and the last place of one thing."""
    checked = 0
    for sample in samples:
        if sample.target.extra["task"] == "displacement":
            places = {}
            for frame in sample.target.extra["graphs"]:
                for node in frame["nodes"]:
                    places.setdefault(node["category"], []).append(node["centre"])
            (name,) = (words for words in places if f"the {words} move" in sample.query.text)
            first, last = places[name][0], places[name][-1]
            away = sum((a - b) ** 2 for a, b in zip(first, last, strict=True)) ** 0.5
            assert sample.target.answer.number == pytest.approx(away, abs=0.01)
            checked += 1
    assert checked >= 2


def test_questions_name_the_objects_of_their_graph(samples):
    for sample in samples:
        graphs = sample.target.extra.get("graphs", [])
        known = {node["category"] for frame in graphs for node in frame["nodes"]}
        assert set(sample.query.objects) == known
        assert all(frame["frame"] < len(sample.query.media[0]) for frame in graphs)
        assert (sample.target.extra["source"] != "tao") or not graphs


def test_the_trainer_reads_the_same_graphs_from_the_file(samples, stv):
    from_file = read_graphs(stv / "stv_205k" / "graphs.jsonl")
    with_graphs = [sample for sample in samples if "graphs" in sample.target.extra]
    assert set(from_file) == {sample.id for sample in with_graphs}
    for sample in with_graphs:
        assert from_file[sample.id] == sample.target.extra["graphs"]


def test_a_line_that_is_wrong_is_named_by_check(copy):
    path = copy / "stv_205k" / "questions.jsonl"
    rows = path.read_text("utf-8").splitlines()
    wrong = [json.loads(row) for row in rows[:3]]
    wrong[0]["task"] = "juggling"
    wrong[1]["rate"] = 0
    wrong[2]["size"] = [1, 1]
    text = "\n".join([*map(json.dumps, wrong), *rows[3:]])
    path.write_text(text, encoding="utf-8")
    problems = [sample.message for sample in stv_205k(copy).check()]
    assert len(problems) == 3
    for problem, word in zip(problems, ("task", "rate", "size"), strict=True):
        assert f"'{word}'" in problem
    with pytest.raises(DataError, match="task"):
        list(stv_205k(copy).samples())


def test_the_size_of_a_second_question_on_the_same_frames_is_checked(copy):
    path = copy / "stv_205k" / "questions.jsonl"
    rows = [json.loads(row) for row in path.read_text("utf-8").splitlines()]
    second = next(
        n for n, row in enumerate(rows) if row["frames"] in [r["frames"] for r in rows[:n]]
    )
    rows[second]["size"] = [1, 1]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (problem,) = stv_205k(copy).check()
    assert problem.path == f"question {rows[second]['problem_id']!r}"
    assert "'size': expected 1 × 1" in problem.message


def test_a_graph_of_no_question_is_found(copy):
    path = copy / "stv_205k" / "graphs.jsonl"
    path.write_text('{"id": "x", "graphs": []}\n' + path.read_text("utf-8"), encoding="utf-8")
    (problem,) = stv_205k(copy).check()
    assert "line 1" in problem.message and "graph" in problem.message


def test_without_the_set_the_error_says_where_the_builder_is(tmp_path):
    with pytest.raises(DataError, match=r"pip install \./examples/stv"):
        stv_205k(tmp_path)
