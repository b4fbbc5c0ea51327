"""Runs as FiftyOne's datasets."""

import base64
import io
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.cli.main import main
from harness.leaderboards.export.fiftyone import _detections
from harness.masks import Rle
from harness.plugins import build
from harness.types import Answer, Box

TASKS = Path(__file__).resolve().parents[2] / "tasks"


@pytest.fixture
def export(tmp_path):
    """Evaluate a baseline on a task's example; return the samples and the dataset's folder."""

    def exported(task, model="whole_frame"):
        root = TASKS / task / "example"
        arguments = ["--model", model, "--tasks", task, "--data", str(root)]
        assert main(["eval", *arguments, "--out", str(tmp_path / "runs"), "--quiet"]) == 0
        out = ["--to", "fiftyone", "--out", str(tmp_path / "out")]
        assert main(["runs", "export", str(tmp_path / "runs"), *out]) == 0
        (folder,) = (tmp_path / "out").iterdir()
        return {sample.id: sample for sample in build("tasks", task, root).samples()}, folder

    return exported


def full(detection, size):
    """The mask of a whole image (height × width) whose part a detection holds."""
    whole = np.zeros(size[::-1], dtype=bool)
    left, top, width, height = detection["bounding_box"]
    part = np.load(io.BytesIO(zlib.decompress(base64.b64decode(detection["mask"]))))
    left, top = round(left * size[0]), round(top * size[1])
    assert part.shape == (round(height * size[1]), round(width * size[0]))
    whole[top : top + part.shape[0], left : left + part.shape[1]] = part
    return whole


def samples_of(folder):
    return json.loads((folder / "samples.json").read_text("utf-8"))["samples"]


def test_an_image_has_its_question_its_masks_and_its_score(export):
    samples, folder = export("reason_seg")
    assert json.loads((folder / "metadata.json").read_text("utf-8"))["media_type"] == "image"
    written = samples_of(folder)
    assert [sample["question_id"] for sample in written] == list(samples)
    for plain in written:
        sample = samples[plain["question_id"]]
        size = sample.query.size
        assert Image.open(plain["filepath"]).size == size
        assert plain["question"] == sample.query.text and 0 <= plain["score"] <= 1
        (truth,) = plain["ground_truth"]["detections"]
        assert (full(truth, size) == sample.target.answer.masks[0].to_array()).all()
        (prediction,) = plain["prediction"]["detections"]
        assert full(prediction, size).all()


def test_each_frame_of_a_folder_is_an_image(export):
    samples, folder = export("mevis")
    written = iter(samples_of(folder))
    for name, sample in samples.items():
        for index, mask in enumerate(sample.target.answer.masks):
            plain = next(written)
            assert (plain["question_id"], plain["frame_number"]) == (name, index + 1)
            objects = plain.get("ground_truth", {"detections": []})["detections"]
            assert bool(objects) == bool(mask.area)
            if objects:
                masks = [full(drawn, sample.query.size) for drawn in objects]
                assert (np.logical_or.reduce(masks) == mask.to_array()).all()
    assert next(written, None) is None


def test_a_video_file_has_its_answers_as_texts(export):
    samples, folder = export("long_video_bench", "random")
    assert json.loads((folder / "metadata.json").read_text("utf-8"))["media_type"] == "video"
    written = samples_of(folder)
    assert [sample["question_id"] for sample in written] == list(samples)
    for plain in written:
        assert Path(plain["filepath"]).suffix == ".mp4" and Path(plain["filepath"]).is_file()
        assert json.loads((folder / plain["frames"]).read_text("utf-8")) == {"frames": {}}
        truth = samples[plain["question_id"]].target.answer
        assert plain["ground_truth_answer"]["label"] == f"choice {truth.choice}"
        assert plain["score"] == (plain["prediction_answer"] == plain["ground_truth_answer"])


def test_objects_keep_their_scores_and_what_is_not_visible_is_left_out():
    mask = np.zeros((4, 8), dtype=bool)
    mask[1:3, 2:6] = True
    seen, hidden = Rle.from_array(mask), Rle.empty(4, 8)
    answer = Answer(
        instances=((hidden,), (seen,)),
        masks=(seen,),
        boxes=(Box(0, 0, 1, 1), Box(2, 1, 6, 3)),
        box_scores=(0.25, 0.75),
    )
    (detection,) = _detections(answer, 0, (8, 4))
    assert detection["bounding_box"] == [0.25, 0.25, 0.5, 0.5] and detection["confidence"] == 0.75
    assert (full(detection, (8, 4)) == mask).all()
    boxes = Answer(boxes=answer.boxes, box_scores=answer.box_scores)
    assert [box["confidence"] for box in _detections(boxes, 0, (8, 4))] == [0.25, 0.75]
    assert _detections(boxes, 1, (8, 4)) == []
    track = Answer(box_track=(None, Box(4, 0, 8, 4)))
    assert _detections(track, 0, (8, 4)) == []
    assert _detections(track, 1, (8, 4))[0]["bounding_box"] == [0.5, 0.0, 0.5, 1.0]


def test_fiftyones_own_importer_reads_it(export, monkeypatch):
    """It reads samples without a database, which it needs only for the dataset."""
    monkeypatch.setenv("FIFTYONE_DISABLE_SERVICES", "1")
    pytest.importorskip("fiftyone", reason="fiftyone is not installed")
    from fiftyone.types import FiftyOneDataset
    from fiftyone.utils.data.importers import _handle_legacy_formats, build_dataset_importer

    samples, folder = export("reason_seg")
    importer, _ = build_dataset_importer(FiftyOneDataset, dataset_dir=str(folder))
    with _handle_legacy_formats(importer) as legacy:
        read = list(legacy)
    assert [sample.question_id for sample in read] == list(samples)
    for sample in read:
        mask = samples[sample.question_id].target.answer.masks[0].to_array()
        (detection,) = sample.ground_truth.detections
        drawn = detection.to_segmentation(frame_size=mask.shape[::-1], target=1)
        assert (drawn.get_mask() == mask).all()
