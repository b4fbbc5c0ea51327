"""Whole rewards of SpaceR and Video-R1, and where ground truth comes from."""

import doctest
import importlib
import json
from dataclasses import replace

import pytest

from harness.errors import DataError, UsageError
from harness.models.spacer.grammar import grid_map
from harness.trainers.grpo.method import TOTAL
from harness.trainers.grpo.rewards import numbers_of
from harness.trainers.sample_checks import with_extra
from harness.trainers.spacer.maps import maps_extra
from harness.trainers.spacer.rewards import SpacerAccuracy, map_score, with_map
from harness.trainers.video_r1.rewards import (
    TemporalReward,
    VideoR1Accuracy,
    length_rewards,
    temporal_reward,
)
from harness.trainers.video_str.answers import (
    ground_truth_of,
)
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import from_plain, graphs_of, to_plain
from harness.trainers.video_str.nodes import FrameGraph
from harness.types import Answer, AnswerForm

from .video_str_groups import NODES, graphs, group, said, spacer_reward


def test_a_perfect_map_doubles_a_right_answer_and_a_worthless_one_takes_it():
    ground_truth = {"table": [[0, 3], [5, 7]], "chair": [[9, 3]]}
    drawn = f"<think><map>{ground_truth}</map></think><answer>B</answer>"
    assert with_map(1.0, drawn, ground_truth) == pytest.approx(2)
    assert with_map(1.0, drawn.replace(str(ground_truth), "nowhere"), ground_truth) == 0
    assert with_map(1.0, said("B"), ground_truth) == 1
    assert map_score(
        grid_map("<map>{'chair': [[9, 3]]}</map>", ground_truth), ground_truth
    ) == pytest.approx(1 / 3)


def test_the_score_of_a_map_is_logged_where_the_accuracy_goes_by_it_and_counts_once():
    ground_truth = {"table": [[0, 3]], "chair": [[9, 3]]}
    right = "<think><map>{'table': [[0, 3]]}</map></think><answer>B</answer>"
    wrong, unread = right.replace(">B<", ">A<"), right.replace("[[0,", f"[[{'9' * 400},")
    made = group(right, wrong, unread, said("B"), extra={"map": ground_truth})
    found = spacer_reward()(made)
    assert [one.get("map") for one in found] == [0.5, None, 0, None]
    assert [one["accuracy"] for one in found] == [1.5, 0, 0, 1]
    assert numbers_of([made], [found])["rewards/map"] == [0.5, 0]
    plain = TemporalReward(accuracy=SpacerAccuracy())(made)
    without = [{name: one[name] for name in one if name != "map"} for one in found]
    assert without == plain, "the total among them"


def test_no_map_is_logged_where_none_counts():
    extra = {"map": {"table": [[0, 3]]}}
    drawn = "<think><map>{'table': [[0, 3]]}</map></think><answer>B</answer>"
    text = group(drawn, form=AnswerForm.TEXT, answer=Answer(text="B"), extra=extra)
    assert spacer_reward()(group(drawn, extra=extra))[0]["map"] == 1
    for reward, made in (
        (spacer_reward(maps=False), group(drawn, extra=extra)),
        (spacer_reward(), group(drawn)),
        (spacer_reward(), text),
    ):
        assert "map" not in reward(made)[0]


def test_the_contrast_pays_right_rollouts_of_a_group_that_uses_the_order():
    assert temporal_reward([1, 1, 0, 0], [1, 0, 0, 0]) == [0.3, 0.3, 0, 0]
    assert temporal_reward([1, 0, 0, 0], [1, 1, 0, 0]) == [0, 0, 0, 0]
    assert temporal_reward([1, 1, 1, 1, 0], [1]) == [0.3] * 4 + [0], "0.8 of it is enough"
    assert temporal_reward([1, 0], []) == [0, 0]


def test_a_length_is_only_paid_where_two_are_right():
    assert length_rewards([1, 1], [320, 513]) == [0.2, 0]
    assert length_rewards([1, 0.1], [400, 400]) == [0, 0]


def test_the_total_of_video_r1_is_the_sum_of_its_terms():
    reward = TemporalReward(accuracy=VideoR1Accuracy())
    terms = reward(group(said("B"), said("B"), said("A"), seconds=[said("A")] * 3))
    assert [one[TOTAL] for one in terms] == [pytest.approx(2.5), pytest.approx(2.5), 1]
    image = reward(group(said("B"), said("B"), seconds=[said("A")] * 2, frames=1))
    assert [one["temporal"] for one in image] == [0, 0]


def test_graphs_come_back_from_plain_data_and_from_a_file(tmp_path):
    made = (FrameGraph(frame=3, nodes=NODES),)
    assert from_plain(json.loads(json.dumps(to_plain(made))), "here") == made
    sample, path = group("").sample, tmp_path / "graphs.jsonl"
    path.write_text(json.dumps({"id": sample.id, "graphs": to_plain(made)}))
    assert graphs_of(with_extra(sample, extra_of(str(path))(None, sample))) == made
    assert graphs_of(group("", extra=graphs(3)).sample) == made


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"id": 3, "graphs": []}',
        '{"id": "s"}',
        '{"id": "s", "graphs": [{"frame": -1, "nodes": []}]}',
        '{"id": "s", "graphs": [{"frame": 0, "nodes": [{"category": "a", "centre": [0, 1]}]}]}',
        '{"id": "s", "graphs": [{"frame": 0, "nodes": [{"category": "", "centre": [0, 1, 2]}]}]}',
        '{"id": "s", "graphs": []}\n{"id": "s", "graphs": []}',
    ],
)
def test_a_damaged_file_of_graphs_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "graphs.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=r"graphs\.jsonl, line [12]"):
        extra_of(str(path))


def test_official_maps_are_found_by_video(tmp_path):
    path = tmp_path / "maps.jsonl"
    path.write_text('{"video_id": "scene1", "cognitive_map": {"table": [[0, 3]]}}')
    found = maps_extra(str(path))
    sample = replace(group("").sample, group="videos/scene1.mp4")
    assert found(None, sample) == {"map": {"table": [[0, 3]]}}


def test_a_sample_without_a_ground_truth_for_its_form_is_refused():
    with pytest.raises(UsageError, match="mask"):
        ground_truth_of(group("", form=AnswerForm.MASK).sample)
    with pytest.raises(DataError, match="number"):
        ground_truth_of(group("", form=AnswerForm.NUMBER).sample)


@pytest.mark.parametrize(
    "name", ["video_str.answers", "video_r1.rewards", "video_r1.shuffled", "spacer.rewards"]
)
def test_examples_in_docstrings_are_right(name):
    found = doctest.testmod(importlib.import_module(f"harness.trainers.{name}"))
    assert found.attempted
    assert not found.failed
