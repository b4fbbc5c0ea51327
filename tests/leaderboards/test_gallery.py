import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from harness import media, plugins
from harness.leaderboards.board import build
from harness.leaderboards.gallery import pick, unit_value
from harness.leaderboards.images import FRAME_WIDTH, WIDTH, describe_answer, shrink, views
from harness.masks import Rle, SoftMask
from harness.record import Run, finish
from harness.scores import Corpus, Mean, Metric, Ratio, UnitScore
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Interval,
    Point,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

GIOU = Metric("giou")


def unit(name, value, *, group="", failed=0):
    return UnitScore(
        unit=name,
        group=group or name,
        samples=(name,),
        categories={},
        failed=failed,
        scores={"giou": Mean(value)},
    )


def image(uri):
    header, _, data = uri.partition(",")
    assert header == "data:image/jpeg;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_the_best_median_and_worst_are_picked_once_each():
    units = [unit(f"s{i}", i / 8) for i in range(9)]
    picked = pick(units, (GIOU,), each=1)
    assert [(p.standing, p.sample) for p in picked] == [
        ("best", "s8"),
        ("median", "s4"),
        ("worst", "s0"),
    ]
    assert len({p.sample for p in pick(units, (GIOU,), each=3)}) == 9


def test_for_an_error_the_smallest_is_the_best():
    units = [unit(f"s{i}", i / 8) for i in range(9)]
    picked = pick(units, (Metric("giou", better="lower"),), each=1)
    assert [p.sample for p in picked] == ["s0", "s4", "s8"]


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 1), (2, 2), (3, 3), (5, 3), (6, 6)])
def test_few_units_are_not_shown_twice(count, shown):
    picked = pick([unit(f"s{i}", 0.5) for i in range(count)], (GIOU,), each=2)
    assert len(picked) == len({p.sample for p in picked}) == shown


def test_the_worst_are_the_worst_and_the_best_the_best_whatever_their_groups():
    units = [unit(f"x{i}", i / 100, group="x") for i in range(4)]
    units += [unit(f"y{i}", 0.5 + i / 100, group="y") for i in range(4)]
    picked = pick(units[::-1], (GIOU,), each=2)
    assert [p.sample for p in picked if p.standing == "worst"] == ["x0", "x1"]
    assert [p.sample for p in picked if p.standing == "best"] == ["y3", "y2"]


def test_equal_units_are_in_the_order_of_their_ids():
    units = [unit(name, value) for value in (0.0, 0.5, 1.0) for name in ("c", "b", "a")]
    units = [replace(one, unit=f"{one.unit}{i // 3}") for i, one in enumerate(units)]
    picked = pick(units, (GIOU,), each=2)
    assert [p.unit.unit for p in picked] == ["a2", "b2", "b1", "a1", "a0", "b0"]


def test_a_unit_where_the_headline_does_not_count_is_passed_over():
    empty = UnitScore(
        unit="e", group="e", samples=("e",), categories={}, failed=0, scores={"giou": Ratio(0, 0)}
    )
    assert unit_value((GIOU,), empty) is None
    assert [p.sample for p in pick([empty, unit("a", 1)], (GIOU,), each=1)] == ["a"]


def test_a_derived_value_of_one_unit_is_derived_from_its_parts():
    both = Metric("both", inputs=("giou", "ciou"), derived=lambda g, c: (g + c) / 2)
    member = UnitScore(
        unit="e",
        group="e",
        samples=("e",),
        categories={},
        failed=0,
        scores={"giou": Mean(1.0), "ciou": Ratio(1, 4)},
    )
    assert unit_value((GIOU, Metric("ciou"), both), member) == 0.625


def test_a_corpus_has_no_value_for_one_unit():
    member = UnitScore(
        unit="e",
        group="e",
        samples=("e",),
        categories={},
        failed=0,
        scores={"cider": Corpus(("a",))},
    )
    assert unit_value((Metric("cider", corpus=len),), member) is None


def test_the_gallery_shows_question_ground_truth_response_and_failure(world):
    entry = build(world.runs).tables[0].entries[2]
    assert entry.row.model == "clumsy"
    assert [e.standing for e in entry.gallery.exhibits] == [
        "best",
        "best",
        "median",
        "median",
        "worst",
        "worst",
    ]
    worst = entry.gallery.exhibits[-2]
    assert worst.failure.startswith("parse: no JSON <script>")
    assert worst.answer == ""
    assert worst.ground_truth.startswith("mask of ")
    assert worst.responses[0].startswith("I cannot")
    assert worst.value == 0
    best = entry.gallery.exhibits[0]
    assert best.answer.startswith("mask of ")
    assert best.question
    assert set(best.views) == {"image", "ground_truth", "prediction"}
    assert not best.wide
    assert entry.gallery.note == ""


def test_ground_truth_and_prediction_are_drawn_in_their_colours(make_run):
    exhibit = build(make_run("a", shift=14)).tables[0].entries[0].gallery.exhibits[0]
    plain, ground_truth, prediction = (
        image(exhibit.views[name]).astype(int) for name in ("image", "ground_truth", "prediction")
    )
    assert plain.shape == (72, 96, 3)
    assert np.abs(ground_truth - plain).max() > 40
    assert np.abs(prediction - ground_truth).max() > 40
    corner = (slice(0, 8), slice(0, 8))
    assert np.abs(prediction[corner] - plain[corner]).max() < 12  # no answer lies there


def test_a_video_is_a_strip_of_at_most_six_frames(world):
    exhibit = build(world.runs).tables[1].entries[0].gallery.exhibits[0]
    assert exhibit.wide
    assert image(exhibit.views["ground_truth"]).shape == (72, 6 * 96 + 5 * 3, 3)
    assert exhibit.ground_truth == "masks in 9 of 9 frames"


def test_without_the_data_the_gallery_says_so_and_keeps_ids_and_responses(world, tmp_path):
    entry = build(world.runs, data_root=tmp_path / "gone").tables[0].entries[0]
    assert str(tmp_path / "gone") in entry.gallery.note
    assert entry.gallery.exhibits[0].sample
    assert entry.gallery.exhibits[0].responses
    assert entry.gallery.exhibits[0].views == {}


def test_a_plugin_that_breaks_does_not_break_the_board(world, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("their mistake")

    monkeypatch.setattr(plugins, "build", broken)
    board = build(world.runs)
    assert "ZeroDivisionError: their mistake" in board.tables[0].entries[0].gallery.note


def test_samples_that_break_while_they_are_read_do_not_break_the_board(world, monkeypatch):
    import dataclasses

    def samples():
        raise KeyError("annotation")
        yield

    task = dataclasses.replace(world.task(), samples=samples)
    monkeypatch.setattr(plugins, "build", lambda *_, **__: task)
    assert "KeyError" in build(world.runs).tables[0].entries[0].gallery.note


def test_a_task_of_another_version_is_not_used_for_images(make_run):
    folder = make_run(
        "a",
        changes={
            "manifest": {
                "task": {
                    "spec": "disc_seg",
                    "name": "disc_seg",
                    "version": 7,
                    "split": "val",
                    "protocol": "seg/lisa",
                }
            }
        },
    )
    assert "version 1" in build(folder).tables[0].entries[0].gallery.note


def test_a_damaged_image_is_named_and_the_rest_is_shown(world, make_run, tmp_path):
    import shutil

    folder = make_run("a")
    shutil.copytree(world.data, tmp_path / "data")
    for path in (tmp_path / "data" / "disc_seg").glob("*.png"):
        path.write_bytes(path.read_bytes()[:200])
    gallery = build(folder, data_root=tmp_path / "data").tables[0].entries[0].gallery
    assert str(tmp_path / "data") in gallery.note
    assert gallery.exhibits[0].question
    assert gallery.exhibits[0].views == {}


def test_a_journal_that_is_gone_is_said(make_run):
    folder = make_run("a")
    (folder / "samples.0.1.jsonl").unlink()
    run = Run.open(folder)
    finish(folder, list(run.units()), run.results, journal=False)  # as in a copy that was kept
    gallery = build(folder).tables[0].entries[0].gallery
    assert "journal" in gallery.note
    assert gallery.exhibits[0].ground_truth


def test_no_picks_give_no_gallery(world):
    gallery = build(world.runs, picks=0).tables[0].entries[0].gallery
    assert gallery.exhibits == ()


def sample(frames, answer, forms=(AnswerForm.BOXES,)):
    shown = media.pixels(frames, times=range(len(frames)), is_video=len(frames) > 1, id="x" * 32)
    query = Query(id=query_id("s"), text="?", media=(shown,), forms=forms)
    return Sample(id="s", query=query, target=Target(answer=answer) if answer else None)


def grey(height, width):
    return np.full((height, width, 3), 128, dtype=np.uint8)


def test_large_images_become_thumbnails_and_coordinates_follow():
    made = sample([grey(520, 1040)], Answer(boxes=(Box(520, 0, 1040, 520),)))
    ground_truth = image(views(made, None)["ground_truth"]).astype(int)
    assert ground_truth.shape == (130, WIDTH, 3)
    changed = np.abs(ground_truth - 128).max(axis=2) > 30
    assert changed[:, 128:132].any()
    assert not changed[:, :120].any()


def test_points_tracks_and_soft_masks_are_drawn():
    frames = [grey(40, 400)] * 2
    track = Answer(box_track=(None, Box(0, 0, 400, 40)))
    drawn = image(views(sample(frames, track), None)["ground_truth"]).astype(int)
    changed = np.abs(drawn - 128).max(axis=2) > 30
    assert not changed[:, :FRAME_WIDTH].any()
    assert changed[:, FRAME_WIDTH + 3 :].any()
    point = Answer(points=(Point(200, 20),))
    assert "ground_truth" in views(sample([grey(40, 400)], point), None)
    soft = SoftMask.from_array(np.eye(40, 400, dtype=np.float32))
    answered = Prediction(query_id="q", answer=Answer(soft_masks=(soft,)))
    assert "prediction" in views(sample([grey(40, 400)], None), answered)


def test_words_have_only_the_plain_image():
    made = sample([grey(40, 40)], Answer(choice="B"), forms=(AnswerForm.CHOICE,))
    answered = Prediction(query_id="q", answer=Answer(choice="A"))
    assert set(views(made, answered)) == {"image"}


def test_a_mask_of_one_pixel_stays_visible_in_a_thumbnail():
    mask = np.zeros((1000, 1000), dtype=bool)
    mask[500, 500] = True
    assert shrink(mask, (100, 100)).sum() == 1
    assert shrink(~mask, (100, 100)).all()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(masks=(Rle.full(2, 4),)), "mask of 100.0 % of the image"),
        (Answer(masks=(Rle.empty(2, 4),)), "empty mask"),
        (Answer(masks=(Rle.empty(2, 4), Rle.full(2, 4))), "masks in 1 of 2 frames"),
        (Answer(boxes=(Box(0, 0, 1, 1),)), "1 box"),
        (Answer(points=()), "0 points"),
        (Answer(count=3), "count 3"),
        (Answer(choice="B"), "choice B"),
        (Answer(number=2.5), "number 2.5"),
        (Answer(text="a cat", interval=Interval(1, 3.5)), "1.0 s to 3.5 s, “a cat”"),
        (Answer(no_target=True), "no target"),
        (Answer(box_track=(None, Box(0, 0, 1, 1))), "a box in 1 of 2 frames"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_in_words(answer, words):
    assert describe_answer(answer) == words
