"""What pocket misses, by whether things meet in an image token, is told of scenes as they are."""

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.record import Run, runs_below
from harness.trainers.pocket.views import View
from harness.world.families import draw_scene

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import pocket_misses


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("misses")
    data, out = str(folder / "data"), folder / "runs"
    main(
        [
            "data",
            "make",
            "shapes",
            "--out",
            data,
            "--seed",
            "8",
            "--size",
            "45",
            "--tasks",
            "shapes_referring",
        ]
    )
    main(
        [
            "eval",
            "--model",
            "pocket(segmenter=box)",
            "--tasks",
            pocket_misses.TASK,
            "--data",
            data,
            "--out",
            str(out),
        ]
    )
    [found] = runs_below(out)
    return Run.open(found)


def test_every_question_is_counted_once_in_each_part_of_the_table(run):
    right = defaultdict(list)
    for column, row, score in pocket_misses.told(run):
        right[row].append(score)
        assert column in pocket_misses.MEETS
    requested, boxes = run.results["n_total"], run.results["metrics"][pocket_misses.METRIC]
    assert sum(right["all"]) / len(right["all"]) == pytest.approx(boxes) and boxes > 0.5
    sizes = sum(len(right[size]) for size in ("small", "medium", "large"))
    grounds = sum(len(scores) for row, scores in right.items() if row.startswith("on "))
    assert requested == len(right["all"]) == sizes == grounds
    assert set(right) <= set(pocket_misses.ROWS)


def test_things_are_found_again_by_their_boxes_in_the_image():
    for index in range(6):
        scene = draw_scene(8, family="referring", split="val", index=index)
        view = View(scene, (0,))
        for thing in range(len(scene.things)):
            across, down = 168 / scene.width, 168 / scene.height
            left, top, right, bottom = view.boxes[0][thing]
            box = (left / across, top / down, right / across, bottom / down)
            assert pocket_misses.nearest(view, box) == thing


def test_things_meet_where_they_share_an_image_token():
    scene = draw_scene(8, family="referring", split="val", index=0)
    first, *_ = scene.things
    x, _ = first.centre(0)
    beside = replace(first, x=x + scene.unit // 10)
    other = replace(beside, colour="red" if first.colour != "red" else "blue")
    far = replace(first, x=(x + scene.width // 2) % scene.width)

    def met(*others):
        return pocket_misses.met(View(replace(scene, things=(first, *others)), (0,)), 0)

    assert (met(), met(far), met(other), met(beside), met(other, beside)) == (0, 0, 1, 2, 2)
