"""What is read from the rollouts and responses that a study keeps."""

import json
import sys
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.data import writers
from harness.model import ChatResponse
from harness.run.batching import samples_of
from harness.spec import parse
from harness.types import AnswerForm
from harness.world.shapes import make

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import graphs_read
import maps_read

MAP = '<map>{"star": [[1, 2]]}</map>'


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("shapes") / "data"
    make(root, seed=5, size=6, writers={"shapes_qa": writers()["shapes_qa"]})
    return root


def rollout(text, accuracy, *, step=1, sample="a"):
    return {"step": step, "sample": sample, "text": text, "components": {"accuracy": accuracy}}


def cells(*rollouts, letters=None):
    line = maps_read.row("one", list(rollouts), letters or {"a": "B", "b": "C"})
    return dict(zip(maps_read.COLUMNS, line.strip("| ").split(" | "), strict=True))


def test_a_response_that_cannot_be_read_counts_as_wrong_in_its_group():
    output = cells(
        rollout(f"<think>{MAP}</think><answer>B</answer>", 1.5),
        rollout("<think></think><answer>B</answer>", 1.0),
        rollout("and so on", 0.0),
        rollout("<answer>", 0.0),
        rollout("<answer>C</answer>", 1.0, sample="b"),
        rollout("<answer>C</answer>", 1.0, step=2),
    )
    assert output["rollouts"] == "6" and output["with a map"] == "0.167"
    assert output["right"] == "0.500", "the last one is the letter of another question"
    assert (output["groups"], output["all right"]) == ("3", "0.333")


def test_a_right_answer_whose_map_is_worth_nothing_is_right_and_counts_in_the_mean():
    output = cells(
        rollout(f"{MAP}<answer>B</answer>", 1.8),
        rollout(f"{MAP}<answer>B</answer>", 0.0),
        rollout(f"{MAP}<answer>A</answer>", 0.0),
        rollout("<map><answer>B</answer>", 1.0),
    )
    assert (output["right"], output["map's score where right"]) == ("0.750", "0.400")


def test_where_nothing_is_right_or_kept_there_is_no_number():
    assert cells(rollout("no", 0.0))["map's score where right"] == "–"
    assert cells() == dict.fromkeys(maps_read.COLUMNS, "–") | {
        "training": "one",
        "rollouts": "0",
        "groups": "0",
    }


def test_questions_with_options_are_told_by_the_data_and_not_by_the_response(data, tmp_path):
    letters = maps_read.letters_of(data)
    every = list(samples_of(plugins.build("tasks", parse(maps_read.STUDIES["spacer"].tasks), data)))
    lettered = [one for one in every if one.query.form is AnswerForm.CHOICE]
    assert 0 < len(letters) == len(lettered) < len(every)
    assert letters[lettered[0].id] == lettered[0].target.answer.choice
    other = next(one.id for one in every if one.id not in letters)
    kept = [
        rollout("no letter", 0.0, sample=lettered[0].id),
        rollout("<answer>B</answer>", 1.0, sample=other),
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    assert list(maps_read.read(path, letters)) == kept[:1]


def test_a_mirrored_graph_is_another_and_twice_mirrored_the_same():
    graph = '<think><graph>{"star": [20, 160, 5], "red cross": [0, 168, 9]}</graph>'
    turned = graphs_read.mirrored(graph)
    assert turned == '<think><graph>{"star": [148, 8, 5], "red cross": [168, 0, 9]}</graph>'
    assert graphs_read.mirrored(turned) == graph


def test_a_place_beyond_the_canvas_is_mirrored_onto_its_edge():
    assert graphs_read.mirrored('{"star": [200, 3, 5]}') == '{"star": [0, 165, 5]}'


def test_a_response_is_begun_again_with_its_first_graph_alone():
    graph = '<think><graph>{"star": [2, 3, 5]}</graph>'
    found = graphs_read.BEGUN.match(f"{graph} and <graph>{{}}</graph></think>")
    assert found is not None and found.group() == graph
    assert graphs_read.BEGUN.match(f"<think>so: {graph}") is None


def test_what_is_right_is_the_part_of_letters_that_are_true(data):
    every = samples_of(plugins.build("tasks", parse("shapes_qa(split=train)"), data))
    lettered = [one for one in every if one.query.form is AnswerForm.CHOICE][:4]
    true = [one.target.answer.choice for one in lettered]
    other = "A" if true[3] != "A" else "B"
    output = [
        ChatResponse(text=f"<think></think><answer>{one}</answer>") for one in (*true[:3], other)
    ]
    assert graphs_read.right(lettered, output) == 0.75
