"""`harness explain` of a model that asks several times, and of one whose pictures are altered."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.cli.main import main
from harness.run.plan import samples_of
from harness.types import AnswerForm

ANSWER = ('<think>it moves</think><answer>[{"bbox_2d": [84, 84, 420, 420], "point_pos": '
          '[200, 200, 1], "point_neg": [600, 600, 0]}]</answer>')  # fmt: skip
VOTES = 5
ROOT = Path(__file__).resolve().parents[2] / "tasks" / "mevis" / "example"


@pytest.fixture(scope="module")
def mevis():
    return list(samples_of(plugins.build("tasks", "mevis", ROOT)))


@pytest.fixture(scope="module")
def replies(mevis, tmp_path_factory):
    """What a network says to every request of videoseg_r1 about these videos."""
    path = tmp_path_factory.mktemp("replies") / "said.jsonl"
    rows = []
    for sample in mevis:
        (media,) = sample.query.media
        times, key = media.times(), sample.query.id
        part = json.dumps({"start": times[2], "end": times[3]})
        rows += [(f"{key}:segment:0:{vote}", part) for vote in range(VOTES)]
        rows += [(f"{key}:frame:0:{vote}", '{"percent": 100}') for vote in range(VOTES)]
        rows.append((key, ANSWER))
    path.write_text("".join(json.dumps({"key": key, "reply": said}) + "\n" for key, said in rows))
    return path


@pytest.fixture
def explained(tmp_path, capsys):
    def told(model, sample):
        out = tmp_path / "runs"
        code = main(["eval", "--model", model, "--tasks", "mevis", "--data", str(ROOT), "--out",
                     str(out), "--subset", "first1", "--quiet"])  # fmt: skip
        assert code == 0
        (manifest,) = out.rglob("manifest.json")
        capsys.readouterr()
        picture = tmp_path / "look.png"
        code = main(["explain", str(manifest.parent), sample.id, "--image", str(picture),
                     "--json"])  # fmt: skip
        assert code == 0
        return json.loads(capsys.readouterr().out), np.asarray(Image.open(picture))

    return told


def perception(backend):
    return f"videoseg_r1(segmenter=box,propagator=still,backend={backend})"


def test_every_request_of_a_search_is_told_and_the_frames_that_it_found(
    explained, mevis, replies
):  # fmt: skip
    sample = mevis[0]
    assert sample.query.forms == (AnswerForm.MASK_TRACK,)
    times = sample.query.media[0].times()
    shown, _ = explained(perception(f"stored(file={replies})"), sample)
    assert [key for key in shown if key.startswith("prompt")] == [
        "prompt 1 to 5", "prompt 6 to 10", "prompt 11"
    ]  # fmt: skip
    assert "In which stretch of the video" in shown["prompt 1 to 5"]
    assert f"from {times[2]:.1f} s to {times[3]:.1f} s" in shown["prompt 6 to 10"]
    assert shown["prompt 11"].startswith(
        f"The first picture is the target frame, at {times[3]:.1f} s"
    )
    assert shown["reply 11"].startswith("<frame>3</frame>")
    target, references, key = shown["shown 11"].split("; ")
    assert (target, key) == ("frame 3 at 840 × 840", "frame 2 at 280 × 280")
    assert references.startswith("frames 0, 1, 4") and references.endswith("at 280 × 280")


def test_altered_pictures_are_told_and_drawn_as_the_network_saw_them(explained, mevis, replies):
    shown, picture = explained(
        perception(f"altered(pictures=grey,chat=stored(file={replies}))"), mevis[0]
    )
    assert shown["shown 11"].startswith("frame 3 at 840 × 840")
    assert np.unique(picture[-8 - 280 : -8, :280]).tolist() == [128]  # the last row: a key frame


def test_pictures_of_another_question_are_not_drawn_as_this_ones(explained, mevis, replies):
    shown, picture = explained(
        perception(f"altered(pictures=swapped,chat=stored(file={replies}))"), mevis[0]
    )
    assert shown["shown 11"] == "pictures of another question; the record does not say of which"
    assert shown["prompt 11"].startswith("The first picture is the target frame")
    height = sample_height(mevis[0])
    assert picture.shape[0] == 2 * (height + 8)  # truth and prediction, and no third row


def sample_height(sample):
    return sample.query.media[0].size[1]
