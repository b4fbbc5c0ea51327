"""ReVOS, Ref-YouTube-VOS and Ref-DAVIS17 are read and scored as the official code does it."""

import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from harness.masks import Rle
from harness.media import frame_files
from harness.run.scoring import score_unit
from harness.summary import values
from harness.tasks.rvos.png_tree import label_tree, png_tree
from harness.types import Answer, Prediction
from harness.world.shapes import make

GOLDEN = Path(__file__).parents[1] / "golden"
MAKER = GOLDEN / "make_videos.py"
NAMES = ("revos", "ref_youtube_vos", "ref_davis17")
AGAIN = f"the generated world has changed: run {MAKER.name} again"


@pytest.fixture(scope="module")
def maker():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(GOLDEN))
        yield runpy.run_path(str(MAKER))


@pytest.fixture(scope="module")
def places(tmp_path_factory, maker, example):
    """The folders that the official readers read, by their names in the golden files."""
    world = tmp_path_factory.mktemp("golden") / "world"
    make(world, **maker["WORLD"], writers=maker["WRITERS"])
    return lambda name: {"example": example(name), "world": world}


def digest(array: Any) -> str:
    plain = np.ascontiguousarray(array, dtype=np.uint8).tobytes()
    return hashlib.blake2b(plain, digest_size=16).hexdigest()


def stacked(masks: Any) -> Any:
    return np.stack([mask.to_array() for mask in masks])


def track(masks: Any) -> list[Any]:
    pixels = stacked(masks)
    return [*pixels.shape, digest(pixels)]


def answered(sample, masks) -> Prediction:
    output = tuple(Rle.from_array(mask) for mask in masks)
    return Prediction(query_id=sample.query.id, answer=Answer(masks=output))


def wrong_tree(root: Path, samples, rows, maker, numbers=None) -> None:
    """Images of the wrong answers that the official scorers were given."""
    for place, (sample, row) in enumerate(zip(samples, rows, strict=True)):
        masks = maker["predicted"](stacked(sample.target.answer.masks), place)
        folder = root / sample.id
        folder.mkdir(parents=True)
        for frame, mask in zip(row["frames"], masks, strict=True):
            cv2.imwrite(str(folder / f"{frame}.png"), mask.astype(np.uint8) * 255)


def same_sample(sample, row, images) -> None:
    assert sample.query.text.lower() == row["text"]
    files = [images / f"{frame}.jpg" for frame in row["frames"]]
    assert sample.query.media[0].id == frame_files(files).id
    assert track(sample.target.answer.masks) == row["ground_truth"], sample.id


def test_the_golden_files_are_of_this_world(maker, golden):
    for name in NAMES:
        assert golden(name)["made"] == maker["WORLD"]
        assert golden(name)["tools"] == maker["COMMITS"]
        assert set(golden(name)) >= {"example", "world"}
    assert set(maker["WRITERS"]) == set(NAMES)
    assert set(golden("revos")["world"]) == {"train", "valid"}
    assert {row["type"] for row in golden("revos")["world"]["train"]} == {0, 1, 2}


@pytest.mark.parametrize("place", ["example", "world"])
def test_revos_agrees_with_the_data_set_and_the_scorer_of_visa(
    build, places, golden, maker, tmp_path, place
):
    root = places("revos")[place]
    for split, rows in golden("revos")[place].items():
        task = build(f"revos(split={split})", root)
        samples = list(task.samples())
        assert [sample.id for sample in samples] == [row["id"] for row in rows], AGAIN
        for sample, row in zip(samples, rows, strict=True):
            same_sample(sample, row, root / "revos" / "JPEGImages" / sample.group)
            assert track(sample.target.extra["foreground"]) == row["foreground"]
            types = ("referring", "reasoning", "hallucination")
            assert sample.categories["type"] == types[row["type"]]
        wrong_tree(tmp_path / split, samples, rows, maker)
        units = [
            score_unit(task, [sample], [output])
            for sample, output in zip(samples, png_tree(tmp_path / split, samples), strict=True)
        ]
        for unit, row in zip(units, rows, strict=True):
            scores = [statistic.value for statistic in unit.scores.values()]
            expected = [round(100 * score, 2) / 100 for score in row["scores"]]
            assert scores == pytest.approx(expected, abs=1e-12), unit.unit
        assert overall(task, units) == pytest.approx(official_overall(rows), abs=1e-12)


def overall(task, units) -> list[float]:
    found = values(task, units)
    return [found[name] for name in ("J", "F", "A", "R", "J&F")]


def official_overall(rows) -> list[float]:
    """The last lines of VISA's eval_revos.py, on its own scores."""
    percent = {row["id"]: [round(100 * score, 2) for score in row["scores"]] for row in rows}
    means = []
    for kind in (0, 1):
        of_kind = [percent[row["id"]] for row in rows if row["type"] == kind]
        means.append(np.mean(of_kind, axis=0))
    j, f, a, r = np.mean(means, axis=0) / 100
    return [j, f, a, r, (j + f) / 2]


@pytest.mark.parametrize("place", ["example", "world"])
def test_ref_youtube_vos_agrees_with_the_data_set_of_referformer(build, places, golden, place):
    root = places("ref_youtube_vos")[place]
    rows = {row["id"]: row for row in golden("ref_youtube_vos")[place]["train"]}
    seen = {}
    for split in ("train", "train_dev", "train_fit"):
        if place == "example" and split == "train_fit":
            continue  # it holds the videos of train_dev alone
        samples = list(build(f"ref_youtube_vos(split={split})", root).samples())
        seen[split] = [sample.id for sample in samples]
        for sample in samples:
            images = root / "ref_youtube_vos" / "train" / "JPEGImages" / sample.group
            same_sample(sample, rows[sample.id], images)
    assert seen["train"] == list(rows), AGAIN
    assert sorted(seen["train_dev"] + seen.get("train_fit", [])) == sorted(rows)


def test_valid_is_what_the_reader_of_visa_takes_of_the_published_files(
    build, golden, maker, tmp_path
):
    root = tmp_path / "ref_youtube_vos"
    for part, plain in zip(("valid", "test"), maker["published_valid"](), strict=True):
        path = root / "meta_expressions" / part / "meta_expressions.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(plain), encoding="utf-8")
    (root / "valid" / "JPEGImages").mkdir(parents=True)
    samples = list(build("ref_youtube_vos(split=valid)", tmp_path).samples())
    published = golden("ref_youtube_vos")["published"]
    ids = sorted(sample.id for sample in samples)
    assert len({sample.group for sample in samples}) == published["videos"] == 202
    assert len(ids) == published["expressions"]
    assert digest(np.frombuffer(json.dumps(ids).encode(), np.uint8)) == published["ids"]
    assert all(sample.target is None and sample.query.media[0].fault for sample in samples)


@pytest.mark.parametrize("place", ["example", "world"])
def test_ref_davis17_agrees_with_referformer_and_with_visa(
    build, places, golden, maker, tmp_path, place
):
    root = places("ref_davis17")[place]
    for split, found in golden("ref_davis17")[place].items():
        rows = found["rows"]
        order = {row["id"]: number for number, row in enumerate(rows)}
        for protocol in ("davis_unsup_4anno", "visa_davis"):
            task = build(f"ref_davis17(split={split},protocol=rvos/{protocol})", root)
            samples = list(task.samples())
            assert sorted(order) == sorted(sample.id for sample in samples), AGAIN
            output = {}
            for sample in samples:
                row = rows[order[sample.id]]
                images = root / "ref_davis17" / split / "JPEGImages" / sample.group
                same_sample(sample, row, images)
                masks = maker["predicted"](stacked(sample.target.answer.masks), order[sample.id])
                output[sample.id] = answered(sample, masks)
            if protocol == "visa_davis":
                alone = [score_unit(task, [sample], [output[sample.id]]) for sample in samples]
                for unit in alone:
                    scores = [unit.scores[name].value for name in ("J", "F")]
                    assert scores == pytest.approx(rows[order[unit.unit]]["visa"][1:], abs=1e-12)
            else:
                together(task, samples, output, found["annotators"])


def together(task, samples, said, annotators) -> None:
    """A video and annotator is a unit; the number is the mean of four runs of the DAVIS scorer."""
    members: dict[str, list] = {}
    for sample in samples:
        members.setdefault(sample.unit, []).append(sample)
    units = [score_unit(task, unit, [said[one.id] for one in unit]) for unit in members.values()]
    for number, official in enumerate(annotators):
        own = [unit for unit in units if unit.unit.endswith(f"annotator {number + 1}")]
        found = values(task, own)
        for name in ("J", "F"):
            assert found[name] == pytest.approx(np.mean(official[name]), abs=1e-12)
    found = values(task, units)
    for name in ("J", "F"):
        four = [np.mean(official[name]) for official in annotators]
        assert found[name] == pytest.approx(np.mean(four), abs=1e-12)


def test_images_of_numbers_score_as_the_masks_that_they_were_made_of(
    build, places, golden, maker, tmp_path
):
    """The layout in which ReferFormer leaves its answers to Ref-DAVIS17."""
    root = places("ref_davis17")["world"]
    rows = golden("ref_davis17")["world"]["valid"]["rows"]
    order = {row["id"]: number for number, row in enumerate(rows)}
    task = build("ref_davis17", root)
    samples = list(task.samples())
    members: dict[str, list] = {}
    for sample in samples:
        members.setdefault(sample.unit, []).append(sample)
    for unit in members.values():
        masks = [
            maker["predicted"](stacked(one.target.answer.masks), order[one.id]) for one in unit
        ]
        labels = np.argmax([np.full(masks[0].shape, 0.1), *masks], axis=0).astype(np.uint8)
        annotator = int(unit[0].unit[-1]) - 1
        place = tmp_path / f"anno_{annotator}" / unit[0].group
        place.mkdir(parents=True)
        for frame, image in zip(unit[0].frames, labels, strict=True):
            cv2.imwrite(str(place / f"{frame}.png"), image)
    output = {one.query_id: one for one in label_tree(tmp_path, samples)}
    scored = [
        score_unit(task, unit, [output[one.query.id] for one in unit]) for unit in members.values()
    ]
    found = values(task, scored)
    official = golden("ref_davis17")["world"]["valid"]["annotators"]
    assert found["J"] == pytest.approx(np.mean([np.mean(one["J"]) for one in official]), abs=1e-12)
