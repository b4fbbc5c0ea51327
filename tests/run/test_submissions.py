"""Files of predictions are scored in memory that does not grow with them."""

import json
import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from harness.errors import DataError, StoreError
from harness.masks import Rle
from harness.media import pixels
from harness.record import Run
from harness.run.external_predictions import Submission
from harness.run.score import score_file
from harness.scores import Mean, Metric
from harness.task import Ceiling, Protocol, Task
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FRAMES, SIDE = 16, 160
VIDEO = pixels(
    [np.zeros((SIDE, SIDE, 3), np.uint8)] * FRAMES, times=range(FRAMES), is_video=True, id="v"
)
EMPTY = (Rle.empty(SIDE, SIDE),) * FRAMES


def area(unit, predictions):
    (output,) = predictions
    masks = output.answer.masks if output.answer else EMPTY
    return {"area": Mean(sum(mask.area for mask in masks) / (FRAMES * SIDE * SIDE))}


PROTOCOL = Protocol(
    name="area",
    score=area,
    metrics=(Metric("area", about="share of pixels"),),
    headline="area",
    ceiling=Ceiling(value=1.0),
    about="a toy's",
)


def tracks(count):
    """A task of so many tracks of masks."""

    def samples():
        for number in range(count):
            query = Query(
                id=query_id(str(number)), text="?", media=(VIDEO,), forms=(AnswerForm.MASK_TRACK,)
            )
            yield Sample(id=str(number), query=query, target=Target(answer=Answer(masks=EMPTY)))

    return Task(
        name="tracks",
        version=1,
        split="all",
        forms=(AnswerForm.MASK_TRACK,),
        protocol=PROTOCOL,
        samples=samples,
        annotations=(),
        check=lambda: (),
    )


@pytest.fixture(scope="module")
def noise():
    """Run-lengths of masks with as many runs as masks can have."""
    rng = np.random.default_rng(0)
    return [Rle.from_array(rng.random((SIDE, SIDE)) > 0.5).to_json() for _ in range(FRAMES)]


def lines(path, count, masks):
    path.write_text(
        "".join(json.dumps({"id": str(number), "masks": masks}) + "\n" for number in range(count))
    )
    return path


def peak(tmp_path, count, masks):
    """Bytes that scoring so many lines took at most, and bytes of the file."""
    path = lines(tmp_path / f"{count}.jsonl", count, masks)
    given = Submission(path=path, name="p")
    tracemalloc.start()
    try:
        found = score_file(tracks(count), given, folder=tmp_path / f"run{count}")
        limit = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found["n_scored"] == count and 0.4 < found["metrics"]["area"] < 0.6
    return limit, path.stat().st_size


def test_memory_does_not_grow_with_the_number_of_predictions(tmp_path, noise):
    (few, small), (many, large) = (peak(tmp_path, count, noise) for count in (4, 24))
    assert many - few < (large - small) / 2, "scores take some, predictions nothing"


def test_lines_of_no_sample_are_refused_unless_they_are_allowed(tmp_path):
    path = lines(tmp_path / "p.jsonl", 3, [EMPTY[0].to_json()] * FRAMES)
    given = Submission(path=path, name="p")
    with pytest.raises(DataError, match="'2'"):
        score_file(tracks(2), given, folder=None)
    assert score_file(tracks(2), replace(given, allow_extra=True), folder=None)["n_scored"] == 2


def test_a_refusal_leaves_no_run_folder(tmp_path, noise):
    path = lines(tmp_path / "p.jsonl", 3, noise)
    path.write_text(path.read_text() + json.dumps({"id": "3", "masks": noise[:2]}) + "\n")
    given = Submission(path=path, name="p")
    with pytest.raises(DataError, match=r"line 4.*'3'"):
        score_file(tracks(4), given, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    score_file(tracks(3), Submission(path=lines(path, 3, noise), name="p"), folder=tmp_path / "run")
    assert Run.open(tmp_path / "run").prediction("2").answer.masks[0].to_json() == noise[0]


def test_samples_without_a_prediction_are_named(tmp_path, noise):
    said = []
    path = lines(tmp_path / "p.jsonl", 3, noise)
    path.write_text("\n".join(path.read_text().splitlines()[::2]))
    score_file(tracks(3), Submission(path=path, name="p", note=said.append), folder=None)
    assert [f"{path}: 1 of 3 samples without a prediction count as failed: 1"] == said


def test_corrected_predictions_replace_a_run_only_if_that_is_asked(tmp_path, noise):
    folder, path = tmp_path / "run", tmp_path / "p.jsonl"
    score_file(tracks(3), Submission(path=lines(path, 3, noise), name="p"), folder=folder)
    old = Run.open(folder).results
    corrected = Submission(path=lines(path, 3, [EMPTY[0].to_json()] * FRAMES), name="p")
    with pytest.raises(StoreError, match="--restart"):
        score_file(tracks(3), corrected, folder=folder)
    assert Run.open(folder).results == old
    score_file(tracks(3), corrected, folder=folder, restart=True)
    assert Run.open(folder).results["metrics"]["area"] == 0.0
    assert Run.open(tmp_path / "run.old1").results == old


def test_what_a_killed_call_left_is_not_scored_with_a_corrected_file(tmp_path, noise, monkeypatch):
    folder, path = tmp_path / "run", tmp_path / "p.jsonl"
    given = Submission(path=lines(path, 3, noise), name="p")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr("harness.run.score.finish", lambda *_, **__: os._exit(9))
        score_file(tracks(3), given, folder=folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not (folder / "manifest.json").exists()
    whole = [EMPTY[0].to_json()] * FRAMES
    assert score_file(tracks(3), replace(given, path=lines(path, 3, whole)), folder=folder)
    done = Run.open(folder)
    assert done.results["metrics"]["area"] == 0.0
    done.journal.check(done.manifest["config_hash"])


def test_files_of_somebody_else_in_a_new_run_folder_stay(tmp_path, noise):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "results.json.txt").write_text("mine")
    (folder / "scores.jsonl").write_text("mine")
    path = lines(tmp_path / "p.jsonl", 3, noise[:2])
    with pytest.raises(DataError):
        score_file(tracks(3), Submission(path=path, name="p"), folder=folder)
    assert (folder / "results.json.txt").read_text() == "mine"


def test_a_folder_in_the_place_of_a_file_is_told_which_formats_read_folders(tmp_path):
    with pytest.raises(DataError, match="mask-tree") as refused:
        score_file(tracks(1), Submission(path=tmp_path, name="mine"), folder=None)
    assert str(tmp_path) in str(refused.value)
    with pytest.raises(DataError) as refused:
        score_file(tracks(1), Submission(path=tmp_path / "none", name="mine"), folder=None)
    assert "mask-tree" not in str(refused.value)
