"""`harness explain` of a model that asks several times, and of one whose pictures are altered."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.cli.main import main
from harness.models.grammar import ParseResult
from harness.models.qwen_vl import locate
from harness.run.plan import samples_of
from harness.types import AnswerForm

ANSWER = (
    '<think>it moves</think><answer>[{"bbox_2d": [84, 84, 420, 420], "point_pos": '
    '[200, 200, 1], "point_neg": [600, 600, 0]}]</answer>'
)
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
        code = main(
            [
                "eval",
                "--model",
                model,
                "--tasks",
                "mevis",
                "--data",
                str(ROOT),
                "--out",
                str(out),
                "--subset",
                "first1",
                "--quiet",
            ]
        )
        assert code == 0
        (manifest,) = out.rglob("manifest.json")
        capsys.readouterr()
        picture = tmp_path / "look.png"
        code = main(["explain", str(manifest.parent), sample.id, "--image", str(picture), "--json"])
        assert code == 0
        return json.loads(capsys.readouterr().out), np.asarray(Image.open(picture))

    return told


def perception(backend):
    return f"videoseg_r1(segmenter=box,propagator=still,backend={backend})"


def test_every_request_of_a_search_is_told_and_the_frames_that_it_found(explained, mevis, replies):
    sample = mevis[0]
    assert sample.query.forms == (AnswerForm.MASK_TRACK,)
    times = sample.query.media[0].times()
    shown, _ = explained(perception(f"stored(file={replies})"), sample)
    assert [key for key in shown if key.startswith("prompt")] == [
        "prompt 1 to 5",
        "prompt 6 to 10",
        "prompt 11",
    ]
    assert "In which stretch of the video" in shown["prompt 1 to 5"]
    assert f"from {times[2]:.1f} s to {times[3]:.1f} s" in shown["prompt 6 to 10"]
    assert shown["prompt 11"].startswith(
        f"The first picture is the target frame, at {times[3]:.1f} s"
    )
    assert shown["reply 11"].startswith("<frame>3</frame>")
    target, *beside = shown["shown 11"].split("; ")
    assert target == "frame 3 at 840 × 840"
    assert beside[:3] == [f"frame {number} at 280 × 280" for number in (0, 1, 4)]
    assert beside[-1] == "frame 2 at 280 × 280", "the key segment's, after the references"


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


PICTURES = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"


@pytest.fixture(scope="module")
def pictures():
    return list(samples_of(plugins.build("tasks", "reason_seg", PICTURES)))


@pytest.fixture
def of_picture(tmp_path, capsys, pictures):
    """What is told of a run in which a network said `reply` to every question about pictures."""

    def told(
        reply,
        *,
        model="qwen_vl(prompt=locate,segmenter=box,backend=stored(file={}))",
        between=lambda said: None,
        json_=True,
        image=None,
        number=0,
    ):
        said, out = tmp_path / "said.jsonl", tmp_path / "runs"
        said.write_text(
            "".join(json.dumps({"id": one.id, "reply": reply}) + "\n" for one in pictures)
        )
        assert (
            main(
                [
                    "eval",
                    "--model",
                    model.format(said),
                    "--tasks",
                    "reason_seg",
                    "--data",
                    str(PICTURES),
                    "--out",
                    str(out),
                    "--quiet",
                ]
            )
            == 0
        )
        (manifest,) = out.rglob("manifest.json")
        between(said)
        capsys.readouterr()
        more = [] if image is None else ["--image", str(image)]
        assert (
            main(
                [
                    "explain",
                    str(manifest.parent),
                    pictures[number].id,
                    *more,
                    *(["--json"] if json_ else []),
                ]
            )
            == 0
        )
        text = capsys.readouterr().out
        return json.loads(text) if json_ else text

    return told


def fenced(box):
    return f'```json\n[{{"bbox_2d": {list(box)}, "label": "target"}},]\n```'


def test_votes_objects_and_what_the_segmenter_is_told_are_read_again(explained, mevis, replies):
    shown, _ = explained(perception(f"stored(file={replies})"), mevis[0])
    *votes, said = shown["parse"]
    assert {(one["form"], one["error"]) for one in votes} == {
        ("a stretch of time", None),
        ("the place of a frame", None),
    }
    assert {one["answer"] for one in votes[VOTES:]} == {"percent 100"}
    assert (said["form"], said["frame"], said["think"], said["error"]) == (
        "mask_track",
        3,
        "it moves",
        None,
    )
    (one,) = said["objects"]
    assert one["said"] == {
        "box": [84, 84, 420, 420],
        "positive": [[200, 200]],
        "negative": [[600, 600]],
    }
    width, height = mevis[0].query.size
    assert one["picture"]["box"] == [
        int(edge * side / 840 + 0.5)
        for edge, side in zip((84, 84, 420, 420), (width, height) * 2, strict=True)
    ]
    assert len(one["picture"]["positive"]) == len(one["picture"]["negative"]) == 1
    assert shown["read_as_recorded"] and shown["reread"].startswith("as recorded")


def test_a_cue_that_the_segmenter_was_not_shown_is_not_told(explained, mevis, replies):
    model = perception(f"stored(file={replies})").replace("(seg", "(negative=false,seg")
    shown, _ = explained(model, mevis[0])
    (one,) = shown["parse"][-1]["objects"]
    assert one["said"]["negative"] and not one["picture"]["negative"]


def test_the_canvas_of_the_processors_own_rule_is_told_and_drawn(of_picture, pictures, tmp_path):
    width, height = pictures[1].query.size
    canvas = tuple(max(28, round(side / 28) * 28) for side in (width, height))
    assert canvas != (width, height), "the example has changed: this tests nothing"
    shown = of_picture(fenced([10, 10, 60, 60]), image=tmp_path / "look.png", number=1)
    assert shown["shown 1"] == (
        f"frame 0 at {canvas[0]} × {canvas[1]}, which the processor makes of {width} × {height}"
    )
    picture = np.asarray(Image.open(tmp_path / "look.png"))
    assert picture.shape[0] == 2 * (height + 8) + canvas[1] + 8


def test_repairs_that_a_reply_needed_are_told(of_picture):
    shown = of_picture(fenced([10, 10, 60, 60]))
    (part,) = shown["parse"]
    assert part["error"] is None and part["repairs"] == ["trailing comma"]
    assert part["objects"][0]["said"]["box"] == [10, 10, 60, 60]


def test_why_a_reply_cannot_be_read_is_told(of_picture):
    text = of_picture("I see nothing.", json_=False)
    assert "cannot be read: reply: expected a JSON list, found 'I see nothing.'" in text
    assert "as recorded: there is no answer" in text


def test_masks_stand_beside_the_truths(of_picture, pictures):
    shown = of_picture(fenced([10, 10, 60, 60]))
    table = shown["masks"]
    truth = pictures[0].target.answer.masks[0].to_array()
    assert table["size"] == [truth.shape[1], truth.shape[0]] and table["of_frames"] == 1
    (row,) = table["frames"]
    assert row["truth"]["area"] == truth.sum() and row["prediction"]["pieces"] == 1
    left, top, right, bottom = row["prediction"]["box"]
    assert row["prediction"]["area"] == (right - left) * (bottom - top)
    said = np.zeros_like(truth)
    said[top:bottom, left:right] = True
    assert row["iou"] == pytest.approx((said & truth).sum() / (said | truth).sum())


def test_a_run_is_told_where_its_networks_files_are_gone(of_picture):
    shown = of_picture(fenced([10, 10, 60, 60]), between=Path.unlink)
    assert shown["prompt"].startswith("made again without the model's own networks")
    assert "Locate" in shown["prompt 1"]
    assert shown["parse"][0]["objects"][0]["said"]["box"] == [10, 10, 60, 60]
    assert shown["read_as_recorded"]


def test_a_reading_that_has_changed_since_the_run_is_told(of_picture, monkeypatch):
    def nothing(reply, *, strict=False):
        return ParseResult()

    shown = of_picture(
        fenced([10, 10, 60, 60]), between=lambda _: monkeypatch.setattr(locate, "parse", nothing)
    )
    assert not shown["read_as_recorded"] and shown["reread"].startswith("DIFFERS")
    assert "no_target: recorded False, now True" in shown["reread"]


def test_replayed_replies_are_read_by_the_reader_that_the_run_had(of_picture):
    reader = "qwen_vl(prompt=locate,backend=stored,segmenter=box)"
    shown = of_picture(fenced([10, 10, 60, 60]), model=f"replay(file={{}},model={reader})")
    assert "said.jsonl, which does not say what was asked" in shown["prompt"]
    assert shown["parse"][0]["repairs"] and shown["read_as_recorded"]


def test_of_a_model_without_a_network_it_is_said_that_nothing_was_asked(of_picture):
    text = of_picture("", model="whole_frame", json_=False)
    assert "prompt     none: this model asks no network" in text
    assert "nothing to read: no reply is recorded" in text
    assert "IoU is of all pixels" in text and "frame 0: prediction " in text
