"""Video-STR's R_n and R_e: places, directions and turns."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from harness.trainers.video_str.nodes import Node, edge_reward, node_reward

SMALL = st.floats(-20, 20, allow_nan=False)
PLACE = st.tuples(SMALL, SMALL, SMALL)
FEW = settings(max_examples=60, deadline=None)


@st.composite
def scenes(draw, least=1):
    """A true graph and a predicted one of the same categories, some of which are missing."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=least, max_size=6, unique=True))
    ground_truth = [
        Node(category=name, centre=draw(PLACE), count=draw(st.integers(1, 4))) for name in names
    ]
    output = {name: draw(PLACE) for name in names if draw(st.booleans())}
    return ground_truth, output


def perfect(ground_truth):
    return {node.category: node.centre for node in ground_truth}


def turned(places, rotation):
    return {name: tuple(rotation.apply(place)) for name, place in places.items()}


def moved(ground_truth, change):
    return [replace(node, centre=tuple(change(np.array(node.centre)))) for node in ground_truth]


@FEW
@given(scenes(least=2))
def test_a_perfect_graph_is_worth_one_by_nodes_and_by_edges(scene):
    ground_truth, _ = scene
    assert node_reward(perfect(ground_truth), ground_truth) == pytest.approx(1)
    assert edge_reward(perfect(ground_truth), ground_truth) == pytest.approx(1, abs=1e-9)
    assert edge_reward(perfect(ground_truth), ground_truth, literal=True) == pytest.approx(
        len(ground_truth) ** 2
    )


@FEW
@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_changes_nothing(scene, draws):
    ground_truth, output = scene
    other = draws.sample(ground_truth, len(ground_truth))
    items = draws.sample(list(output.items()), len(output))
    assert node_reward(dict(items), other) == pytest.approx(
        node_reward(output, ground_truth), abs=1e-12
    )
    assert edge_reward(dict(items), other) == pytest.approx(
        edge_reward(output, ground_truth), abs=1e-12
    )


@FEW
@given(scenes(), PLACE)
def test_moving_the_whole_prediction_leaves_edges_as_they_were(scene, shift):
    ground_truth, output = scene
    shifted = {name: tuple(np.add(place, shift)) for name, place in output.items()}
    for place, other in zip(output.values(), list(output.values())[1:], strict=False):
        assume(math.dist(place, other) > 1e-3)
    assume(len({tuple(np.round(place, 2)) for place in output.values()}) == len(output))
    assert edge_reward(shifted, ground_truth) == pytest.approx(
        edge_reward(output, ground_truth), abs=1e-9
    )


@FEW
@given(scenes(), st.integers(0, 10**6))
def test_turning_both_graphs_together_changes_nothing(scene, seed):
    ground_truth, output = scene
    places = [*output.values(), *(node.centre for node in ground_truth)]
    assume(len({tuple(np.round(place, 2)) for place in places}) == len(places))
    rotation = Rotation.random(rng=seed)
    both = moved(ground_truth, rotation.apply)
    assert edge_reward(turned(output, rotation), both) == pytest.approx(
        edge_reward(output, ground_truth), abs=1e-9
    )
    assert node_reward(turned(output, rotation), both) == pytest.approx(
        node_reward(output, ground_truth), abs=1e-9
    )


@FEW
@given(scenes(least=3), st.integers(0, 10**6))
def test_after_the_best_rotation_a_turned_prediction_is_perfect(scene, seed):
    ground_truth, _ = scene
    assume(len({tuple(np.round(node.centre, 1)) for node in ground_truth}) == len(ground_truth))
    output = turned(perfect(ground_truth), Rotation.random(rng=seed))
    assert edge_reward(output, ground_truth, angle="kabsch") == pytest.approx(1, abs=1e-6)


def test_the_best_rotation_never_mirrors():
    corners = {"a": (0.0, 0, 0), "b": (1.0, 0, 0), "c": (0.0, 2, 0), "d": (0.0, 0, 3)}
    ground_truth = [Node(category=name, centre=place) for name, place in corners.items()]
    output = {node.category: (-node.centre[0], *node.centre[1:]) for node in ground_truth}
    assert edge_reward(output, ground_truth, angle="kabsch") < 0.95


@given(st.floats(0, math.pi))
def test_turning_a_pair_in_its_plane_costs_the_angle(phi):
    ground_truth = [
        Node(category="a", centre=(0.0, 0.0, 0.0)),
        Node(category="b", centre=(3.0, 0.0, 0.0)),
    ]
    output = turned(perfect(ground_truth), Rotation.from_euler("z", phi))
    assert 2 * edge_reward(output, ground_truth) - 1 == pytest.approx(math.exp(-phi), abs=1e-9)


@given(st.floats(0, 5), st.floats(0.5, 5))
def test_a_wrong_distance_costs_its_error(delta, sigma):
    ground_truth = [
        Node(category="a", centre=(0.0, 0.0, 0.0)),
        Node(category="b", centre=(3.0, 0.0, 0.0)),
    ]
    output = {"a": (0.0, 0.0, 0.0), "b": (3.0 + delta, 0.0, 0.0)}
    assert edge_reward(output, ground_truth, sigma=sigma) == pytest.approx(
        (math.exp(-delta / sigma) + 1) / 2
    )


def test_nodes_are_weighted_by_their_instances_and_missing_ones_are_worth_nothing():
    ground_truth = [
        Node(category="a", centre=(0.0, 0.0, 1.0), count=3),
        Node(category="b", centre=(0.0, 0.0, 2.0)),
    ]
    assert node_reward({"a": (0.0, 0.0, 1.0)}, ground_truth) == 0.75
    assert node_reward({"b": (0.0, 0.0, 3.0), "z": (0.0, 0.0, 0.0)}, ground_truth) == pytest.approx(
        math.exp(-1) / 4
    )
    assert node_reward({}, ground_truth) == node_reward({"a": (0.0, 0.0, 1.0)}, []) == 0


def test_edges_need_a_pair_and_both_of_its_ends():
    one = Node(category="a", centre=(0.0, 0.0, 1.0))
    two = [
        one,
        Node(category="b", centre=(0.0, 0.0, 2.0)),
        Node(category="c", centre=(0.0, 1.0, 2.0)),
    ]
    assert edge_reward({"a": one.centre}, [one]) == 0
    assert edge_reward({"a": two[0].centre, "b": two[1].centre}, two) == pytest.approx(1 / 3)


def test_directions_without_length_agree_with_each_other_alone():
    ground_truth = [
        Node(category="a", centre=(1.0, 1.0, 1.0)),
        Node(category="b", centre=(1.0, 1.0, 1.0)),
    ]
    assert edge_reward(perfect(ground_truth), ground_truth) == 1
    apart = {"a": (1.0, 1.0, 1.0), "b": (1.0, 1.0, 3.0)}
    assert edge_reward(apart, ground_truth) == pytest.approx(math.exp(-2) / 2)


@FEW
@given(scenes(), st.sampled_from(["joint", "kabsch"]))
def test_graph_rewards_stay_between_their_bounds(scene, angle):
    ground_truth, output = scene
    assert 0 <= node_reward(output, ground_truth) <= 1 + 1e-12
    assert 0 <= edge_reward(output, ground_truth, angle=angle) <= 1 + 1e-9
    literal = edge_reward(output, ground_truth, angle=angle, literal=True)
    assert 0 <= literal <= len(ground_truth) ** 2 + 1e-9
