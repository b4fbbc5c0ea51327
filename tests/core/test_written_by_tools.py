"""Predictions that the code of other tools wrote, of masks and answers of ours, are read so."""

import base64
import csv
import json
from pathlib import Path

import numpy as np
import pytest

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.mask_tree import mask_tree
from harness.interchange.answers import row_to_answer
from harness.media import pixels
from harness.tasks.rvos.png_tree import png_tree
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

GOLDEN = Path(__file__).parents[1] / "golden"
SIZE, FRAMES = (6, 9), ("00000", "00005")


def unpacked(name, folder):
    """Write the files of a golden file; return what they were made of."""
    kept = json.loads((GOLDEN / name).read_text())
    for path, data in kept["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(base64.b64decode(data))
    return kept


def sample(name, form, **more):
    count = len(FRAMES) if form is AnswerForm.MASK_TRACK else 1
    frames = [np.zeros((*SIZE, 3), np.uint8)] * count
    media = pixels(frames, times=range(count), is_video=count > 1, id=name)
    query = Query(id=query_id(name), text="?", media=(media,), forms=(form,), **more)
    return Sample(id=name, query=query, target=None, frames=FRAMES if count > 1 else ())


def videos(kept):
    return [sample(name, AnswerForm.MASK_TRACK) for name in kept["masks"]]


def counts(masks):
    return [mask.counts for mask in masks]


@pytest.mark.parametrize(
    ("golden", "below"),
    [
        ("visa/masks.json", ""),
        ("visa/masks.json", "Annotations"),
        ("sa2va/results.json", "submit"),
        ("mevis/lmpm.json", "inference"),
    ],
)
def test_trees_of_png(tmp_path, golden, below):
    kept = unpacked(golden, tmp_path)
    found = png_tree(tmp_path / below, videos(kept))
    assert [counts(one.answer.masks) for one in found] == list(kept["masks"].values())


def answers(matched, samples):
    return {one.id: row_to_answer(matched.rows[one.id], one.query) for one in samples}


def test_sa2vas_results(tmp_path):
    kept = unpacked("sa2va/results.json", tmp_path)
    samples = videos(kept)
    matched = read_format("sa2va", tmp_path / "results.json", samples)
    found = answers(matched, samples)
    assert {name: counts(one.masks) for name, one in found.items()} == kept["masks"]
    assert len(read_format("sa2va", tmp_path / "results.json", samples[:1]).unmatched) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"frames": ["00005", "00000"]}, "'frames'.*their order"),
        ({"prediction_masks": None}, ".*png-tree"),
    ],
)
def test_sa2vas_results_of_other_frames_or_without_masks(tmp_path, change, says):
    kept = unpacked("sa2va/results.json", tmp_path)
    path = tmp_path / "results.json"
    plain = json.loads(path.read_text())
    plain["a1"]["1"] |= change
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match=f"'a1', expression '1': {says}"):
        read_format("sa2va", path, videos(kept))


def test_lisas_masks_of_png_are_united_and_its_jpegs_refused(tmp_path):
    kept = unpacked("lisa/chat.json", tmp_path)
    asked = [sample("x_1", AnswerForm.MASK)]
    (found,) = mask_tree(tmp_path / "png", asked)
    assert counts(found.answer.masks) == kept["masks"]
    with pytest.raises(DataError, match=r"x_1_mask_0\.jpg: .*a JPEG\. .*as PNG"):
        list(mask_tree(tmp_path / "jpeg", asked))


def test_detectron2s_boxes_and_masks(tmp_path):
    kept = unpacked("detectron2/results.json", tmp_path)
    path = tmp_path / "coco_instances_results.json"
    boxed = [sample(f"{image}/1", AnswerForm.BOXES) for image in kept["images"]]
    for one in answers(read_format("coco", path, boxed), boxed).values():
        assert [list(box) for box in one.boxes] == kept["boxes"]
    told = [sample(image, AnswerForm.MASK, instances=True) for image in kept["images"]]
    for name, one in answers(read_format("coco", path, told), told).items():
        expected = kept["images"][name]
        assert [mask.counts for (mask,) in one.instances] == expected["instances"]
        assert list(one.box_scores) == expected["scores"]
    single = [sample(image, AnswerForm.MASK) for image in kept["images"]]
    matched = read_format("coco", path, single, threshold=0.5)
    for name, one in answers(matched, single).items():
        assert counts(one.masks) == [kept["images"][name]["union"]]
    assert matched.notes == ("1 records whose score is not above 0.5, left out of the mask",)


def test_lmpms_instances_of_a_video(tmp_path):
    kept = unpacked("mevis/lmpm.json", tmp_path)
    asked = [sample("3", AnswerForm.MASK_TRACK, instances=True)]
    (found,) = answers(read_format("coco", tmp_path / "results.json", asked), asked).values()
    assert list(map(counts, found.instances)) == kept["instances"]
    assert found.box_scores == (0.9, 0.2)


def test_blinks_letters_are_compared_as_texts(tmp_path):
    kept = unpacked("blink/predictions.json", tmp_path)
    asked = [sample(name, AnswerForm.CHOICE) for name in kept["letters"]]
    matched = read_format("blink", tmp_path / "val_predictions/m.json", asked)
    expected = {**kept["letters"], "val_Jigsaw_1": None}
    assert {name: row.value for name, row in matched.rows.items()} == expected
    assert matched.notes == ("1 entries without a response, counted as failed",)
    task = read_format("blink", tmp_path / "outputs/m/Jigsaw.json", asked)
    assert set(task.rows) == {"val_Jigsaw_1"} and not task.unmatched, "a test's truth is hidden"


@pytest.mark.parametrize("suffix", ["xlsx", "tsv", "json"])
def test_vlmevalkits_tables(tmp_path, suffix):
    if suffix == "xlsx":
        pytest.importorskip("openpyxl")
    kept = unpacked("vlmevalkit/table.json", tmp_path)
    asked = [sample(name, AnswerForm.CHOICE) for name in kept["responses"]]
    matched = read_format("vlmevalkit", tmp_path / f"m_Video-MME.{suffix}", asked)
    assert {name: row.value for name, row in matched.rows.items()} == {
        name: text or "" for name, text in kept["responses"].items()
    }
    assert matched.notes == ("1 predictions that are empty",) and matched.scores["001-1"] == 1


def test_equal_questions_of_mvbench_are_told_apart_by_options_and_task(tmp_path):
    """VLMEvalKit's table of MVBench, as pandas writes it with its row numbers."""
    asked, rows = [], []
    for number, (task, options) in enumerate(
        [
            ("action_sequence", ("right", "left")),
            ("action_sequence", ("left", "right")),
            ("action_prediction", ("right", "left")),
        ]
    ):
        query = Query(
            id=query_id(f"{task}/{number}"),
            text="What happened?",
            media=(),
            forms=(AnswerForm.CHOICE,),
            options=options,
        )
        target = Target(answer=Answer(choice="AB"[options.index("right")]))
        asked.append(
            Sample(
                id=f"{task}/{number}",
                query=query,
                target=target,
                group="x.mp4",
                categories={"task": task},
            )
        )
        rows.append(
            {
                "": number,
                "task_type": task.replace("_", " ").title(),
                "video": "x.mp4",
                "question": "What happened?",
                "answer": "right",
                "candidates": str(list(options)),
                "index": 2 - number,
                "prediction": f"({number})",
            }
        )
    path = tmp_path / "m_MVBench.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows[::-1])
    matched = read_format("vlmevalkit", path, asked)
    found = {name: row.value for name, row in matched.rows.items()}
    assert found == {one.id: f"({number})" for number, one in enumerate(asked)}
    path.write_bytes(path.read_text().replace("What happened?", "café").encode("windows-1252"))
    with pytest.raises(DataError, match=r"iconv -f windows-1252 -t utf-8 m_MVBench\.csv"):
        read_format("vlmevalkit", path, asked)
