"""MeViS's hidden split: a zip for the organisers' server, and never a number."""

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError, StoreError
from harness.masks import Rle
from harness.model import Model
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.scoring import score_unit
from harness.run.verify import verify
from harness.summary import values
from harness.tasks.rvos.submission import write_submission
from harness.types import Answer, FailureKind, Prediction, failed_prediction


@dataclass(frozen=True)
class Rectangles(Model):
    """Says a rectangle that depends on query and frame; now and then nothing, or fails."""

    name: str = "rectangles"
    batch_size: int = 3

    def describe(self):
        return {"name": self.name}

    def predict(self, queries):
        return [self.one(query) for query in queries]

    def one(self, query):
        digest = hashlib.blake2b(query.id.encode(), digest_size=8).digest()
        if digest[0] % 5 == 0:
            return failed_prediction(query, FailureKind.PARSE, "unreadable")
        if digest[0] % 5 == 1:
            return Prediction(query_id=query.id, answer=Answer(no_target=True))
        rng = np.random.default_rng(list(digest))
        masks = []
        for _ in range(len(query.media[0])):
            width, height = query.size
            mask = np.zeros((height, width), bool)
            top, left = rng.integers(0, height), rng.integers(0, width)
            mask[top : top + rng.integers(0, height), left : left + rng.integers(0, width)] = True
            masks.append(Rle.from_array(mask))
        return Prediction(query_id=query.id, answer=Answer(masks=tuple(masks)))


def members(path: Path) -> dict[str, Image.Image]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: Image.open(io.BytesIO(archive.read(name))) for name in archive.namelist()}


@pytest.fixture(scope="module")
def valid(build, shapes):
    return build("mevis(split=valid)", shapes)


@pytest.fixture(scope="module")
def done(valid, tmp_path_factory):
    return evaluate(valid, Rectangles(), tmp_path_factory.mktemp("run") / "a", Options())


@pytest.fixture(scope="module")
def written(done):
    return members(done.folder / "submission.zip")


def masks_of(sample, prediction):
    """What an answer shows in each frame; no answer shows nothing."""
    shown = prediction.answer.masks if prediction.answer else None
    width, height = sample.query.size
    return [mask.to_array() for mask in shown or [Rle.empty(height, width)] * 8]


def test_the_zip_holds_every_frame_of_every_expression_and_no_more(written, shapes):
    plain = json.loads((shapes / "mevis" / "valid" / "meta_expressions.json").read_text())
    expected = [
        f"{video}/{expression}/{frame}.png"
        for video, entry in plain["videos"].items()
        for expression in entry["expressions"]
        for frame in entry["frames"]
    ]
    assert list(written) == expected and len(expected) == 8 * 8


def test_every_member_is_a_grey_png_of_the_size_of_its_video(written, shapes):
    for name, image in written.items():
        video, _, frame = name.split("/")
        path = shapes / "mevis" / "valid" / "JPEGImages" / video / frame
        assert (image.format, image.mode) == ("PNG", "L")
        assert image.size == Image.open(path.with_suffix(".jpg")).size
        assert set(np.unique(np.asarray(image))) <= {0, 255}


def test_every_member_shows_the_mask_that_was_predicted(written, valid, done):
    images = iter(written.values())
    kinds = set()
    for sample in valid.samples():
        prediction = done.prediction(sample.id)
        kinds.add(
            (
                prediction.failure is None,
                bool(prediction.answer) and prediction.answer.masks is not None,
            )
        )
        for mask in masks_of(sample, prediction):
            assert np.array_equal(np.asarray(next(images)) == 255, mask), sample.id
    assert next(images, None) is None
    assert kinds == {(True, True), (True, False), (False, False)}, "mask, no target and failure"


def test_equal_predictions_give_equal_bytes(valid, done, tmp_path):
    again = evaluate(valid, Rectangles(batch_size=1), tmp_path / "b", Options())
    first, second = (run.folder / "submission.zip" for run in (done, again))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        for member in archive.infolist():
            assert member.date_time == (1980, 1, 1, 0, 0, 0)
            assert (member.create_system, member.external_attr) == (3, 0o644 << 16)


def test_a_hidden_ground_truth_leaves_counts_and_no_number(valid, done):
    left = {path.name for path in done.folder.iterdir()}
    assert {"manifest.json", "submission.zip", "timing.json"} <= left
    assert "scores.jsonl" not in left
    assert not [name for name in left if name.endswith(".tmp")]
    assert all(sample.target is None and not sample.categories for sample in valid.samples())
    found = done.results
    assert set(found["metrics"].values()) == {None} and found["ceiling"] is None
    assert found["n_scored"] + found["n_failed"] == found["n_total"] == 8
    with pytest.raises(DataError, match=r"mevis, split valid: .*none"):
        list(verify(valid, None))


def test_commands_write_the_zip_and_refuse_a_score(command, shapes):
    task = "mevis(split=valid)"
    shown = command.json(
        "eval", "--model", "whole_frame", "--tasks", task, "--data", shapes, "--out", "runs"
    )["tasks"]["mevis"]
    assert shown["metrics"] == {"J": None, "F": None, "J&F": None} and shown["n_total"] == 8
    images = members(command.folder / shown["submission"])
    assert len(images) == 64
    assert all(np.asarray(image).min() == 255 for image in images.values())
    lines = [{"id": "/".join(name.split("/")[:2]), "no_target": True} for name in images]
    rows = {line["id"]: json.dumps(line) for line in lines}
    (command.folder / "mine.jsonl").write_text("\n".join(rows.values()))
    for arguments in (  # a file of predictions, and the run itself
        ["score", "--tasks", task, "--data", shapes, "--predictions", "mine.jsonl"],
        ["score", Path(shown["submission"]).parent],
    ):
        refused = command(*arguments)
        assert refused.returncode == 3 and "Traceback" not in refused.stderr
        assert "none" in refused.stderr and "harness eval" in refused.stderr
    assert command("verify", "--tasks", task, "--data", shapes).returncode == 3


# The organisers' side: read the images back, and score them by the definitions of J and F.


def outline(mask):
    """Pixels that differ from the one to their right, below, or below right."""
    padded = np.pad(mask, ((0, 1), (0, 1)), mode="edge")
    differs = (padded[:-1, 1:] != mask) | (padded[1:, :-1] != mask) | (padded[1:, 1:] != mask)
    differs[-1, -1] = False
    return differs


def near(edges, reach):
    """Pixels within `reach` of an outline, by distance from centre to centre."""
    rows, columns = edges.nonzero()
    found = np.zeros(edges.shape, bool)
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            if down**2 + right**2 <= reach**2:
                y, x = rows + down, columns + right
                inside = (y >= 0) & (y < edges.shape[0]) & (x >= 0) & (x < edges.shape[1])
                found[y[inside], x[inside]] = True
    return found


def region(ground_truth, said):
    either = (ground_truth | said).sum()
    return (ground_truth & said).sum() / either if either else 1.0


def boundary(ground_truth, said):
    reach = int(np.ceil(0.008 * np.hypot(*ground_truth.shape)))
    ours, theirs = outline(said), outline(ground_truth)
    if not ours.any() or not theirs.any():
        return float(ours.any() == theirs.any())
    precision = (ours & near(theirs, reach)).sum() / ours.sum()
    recall = (theirs & near(ours, reach)).sum() / theirs.sum()
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def test_the_images_score_as_the_same_predictions_do_here(build, shapes, tmp_path):
    task = build("mevis(split=valid_u)", shapes)
    place = shapes / "mevis" / "valid_u"
    videos = json.loads((place / "meta_expressions.json").read_text())["videos"]
    samples = list(task.samples())
    model = Rectangles()
    pairs = [(sample, model.one(sample.query)) for sample in samples]
    pairs = [pair for pair in pairs if pair[1].answer is not None]
    pairs.append((samples[0], prediction := SimpleNamespace(answer=near_ground_truth(samples[0]))))
    assert len({sample.id for sample, _ in pairs}) >= 4 and prediction.answer is not None
    scores: dict[str, list[float]] = {"J": [], "F": []}
    for sample, output in pairs:
        answer = Prediction(query_id=sample.query.id, answer=output.answer)
        images = members(write_submission(videos, [(sample, answer)], tmp_path))
        ground_truth = [mask.to_array() for mask in sample.target.answer.masks]
        shown = [np.asarray(image) > 0 for image in images.values()]
        for name, measure in (("J", region), ("F", boundary)):
            frames = [measure(*both) for both in zip(ground_truth, shown, strict=True)]
            scores[name].append(float(np.mean(frames)))
        here = values(task, [score_unit(task, [sample], [answer])])
        assert here["J"] == pytest.approx(scores["J"][-1], abs=1e-12)
        assert here["F"] == pytest.approx(scores["F"][-1], abs=1e-12)
    assert len(set(scores["F"])) > 2 and 0.05 < scores["F"][-1] < 0.95


def near_ground_truth(sample):
    """The ground truth with its lower part cut off, so that some of the outline is right."""
    masks = []
    for mask in sample.target.answer.masks:
        array = mask.to_array().copy()
        rows = array.any(axis=1).nonzero()[0]
        if rows.size:
            array[int(rows.mean()) :] = False
        masks.append(Rle.from_array(array))
    return Answer(masks=tuple(masks))


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(valid, tmp_path):
    sample = next(iter(valid.samples()))
    prediction = Rectangles().one(sample.query)
    video = sample.id.split("/")[0]
    with pytest.raises(StoreError, match=r"submission\.zip"):
        write_submission({video: {"frames": []}}, [], tmp_path / "missing")
    with pytest.raises(ValueError, match="zip"):
        write_submission({video: {"frames": ["00000"]}}, [(sample, prediction)], tmp_path)
    assert not list(tmp_path.iterdir())
