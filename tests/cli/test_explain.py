"""`harness explain` tells of a run what its record holds, whatever model made it."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.cli.main import main
from harness.run.batching import samples_of
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
def responses(mevis, tmp_path_factory):
    """What a network says to every request of videoseg_r1 about these videos."""
    path = tmp_path_factory.mktemp("responses") / "said.jsonl"
    rows = []
    for sample in mevis:
        (media,) = sample.query.media
        times, key = media.times(), sample.query.id
        part = json.dumps({"start": times[2], "end": times[3]})
        rows += [(f"{key}:segment:0:{vote}", part) for vote in range(VOTES)]
        rows += [(f"{key}:frame:0:{vote}", '{"percent": 100}') for vote in range(VOTES)]
        rows.append((key, ANSWER))
    path.write_text(
        "".join(json.dumps({"key": key, "response": output}) + "\n" for key, output in rows)
    )
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
        image = tmp_path / "look.png"
        code = main(["explain", str(manifest.parent), sample.id, "--image", str(image), "--json"])
        assert code == 0
        return json.loads(capsys.readouterr().out), np.asarray(Image.open(image))

    return told


def perception(backend):
    return f"videoseg_r1(segmenter=box,propagator=still,backend={backend})"


def test_every_request_of_a_search_is_told_and_the_frames_that_it_found(
    explained, mevis, responses
):
    sample = mevis[0]
    assert sample.query.forms == (AnswerForm.MASK_TRACK,)
    times = sample.query.media[0].times()
    shown, _ = explained(perception(f"stored(file={responses})"), sample)
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
    assert shown["response 11"] == ANSWER and shown["parse"][0]["frame"] == 3
    target, *beside = shown["shown 11"].split("; ")
    assert target == f"frame 3 ({times[3]:g} s) at 840 × 840"
    assert [one.split(" (")[0] for one in beside[:3]] == ["frame 0", "frame 1", "frame 4"]
    assert beside[-1].startswith("frame 2 "), "the key segment's, after the references"


def test_media_that_are_not_the_samples_own_are_named_and_not_drawn(explained, mevis, responses):
    shown, image = explained(
        perception(f"ablation(images=grey,chat=stored(file={responses}))"), mevis[0]
    )
    assert "of another medium, grey/" in shown["shown 11"]
    assert shown["prompt 11"].startswith("The first picture is the target frame")
    height = sample_height(mevis[0])
    assert image.shape[0] == 2 * (height + 8)  # ground truth and prediction, and no third row


def sample_height(sample):
    return sample.query.media[0].size[1]


IMAGES = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"


@pytest.fixture(scope="module")
def images():
    return list(samples_of(plugins.build("tasks", "reason_seg", IMAGES)))


@pytest.fixture
def of_image(tmp_path, capsys, images):
    """What is told of a run in which a network said `response` to every question about images."""

    def told(
        response,
        *,
        model="qwen_vl(prompt=locate,segmenter=box,backend=stored(file={}))",
        between=lambda said: None,
        json_=True,
        image=None,
        number=0,
    ):
        output, out = tmp_path / "said.jsonl", tmp_path / "runs"
        output.write_text(
            "".join(json.dumps({"id": one.id, "response": response}) + "\n" for one in images)
        )
        assert (
            main(
                [
                    "eval",
                    "--model",
                    model.format(output),
                    "--tasks",
                    "reason_seg",
                    "--data",
                    str(IMAGES),
                    "--out",
                    str(out),
                    "--quiet",
                ]
            )
            <= 1  # 1: none of the responses is read
        )
        (manifest,) = out.rglob("manifest.json")
        between(output)
        capsys.readouterr()
        more = [] if image is None else ["--image", str(image)]
        assert (
            main(
                [
                    "explain",
                    str(manifest.parent),
                    images[number].id,
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


def test_objects_are_told_as_they_were_parsed_in_pixels_of_the_image(explained, mevis, responses):
    shown, _ = explained(perception(f"stored(file={responses})"), mevis[0])
    (parsed,) = shown["parse"]
    assert (parsed["form"], parsed["frame"], parsed["think"], parsed["error"]) == (
        "mask_track",
        3,
        "it moves",
        None,
    )
    (one,) = parsed["objects"]
    width, height = mevis[0].query.size
    assert one["box"] == [
        int(edge * side / 840 + 0.5)
        for edge, side in zip((84, 84, 420, 420), (width, height) * 2, strict=True)
    ]
    assert len(one["positive"]) == len(one["negative"]) == 1


def test_the_canvas_of_the_processors_own_rule_is_told_and_drawn(of_image, images, tmp_path):
    width, height = images[1].query.size
    canvas = tuple(max(28, round(side / 28) * 28) for side in (width, height))
    assert canvas != (width, height), "the example has changed: this tests nothing"
    shown = of_image(fenced([10, 10, 60, 60]), image=tmp_path / "look.png", number=1)
    assert shown["shown 1"] == (
        f"frame 0 at {canvas[0]} × {canvas[1]}, which the processor makes of {width} × {height}"
    )
    image = np.asarray(Image.open(tmp_path / "look.png"))
    assert image.shape[0] == 2 * (height + 8) + canvas[1] + 8


def test_repairs_that_a_response_needed_are_told(of_image):
    shown = of_image(fenced([10, 10, 60, 60]))
    (part,) = shown["parse"]
    assert part["error"] is None and "comma" in shown["notes"]
    assert part["objects"]


def test_why_a_response_cannot_be_read_is_told(of_image):
    text = of_image("I see nothing.", json_=False)
    assert "found 'I see nothing.'" in text


def test_a_response_that_the_protocol_does_not_read_is_told_as_a_failure(tmp_path, capsys):
    said = {"id": "0", "response": "There are three of them."}
    (tmp_path / "said.jsonl").write_text(json.dumps(said) + "\n")
    reader = "qwen_vl(prompt=locate,backend=stored,segmenter=box,propagator=still)"
    root = IMAGES.parents[1] / "vsi_bench" / "example"
    vsi, data = (
        plugins.build("tasks", "vsi_bench", root),
        ["--tasks", "vsi_bench", "--data", str(root)],
    )
    given = ["--predictions", str(tmp_path / "said.jsonl"), "--model", reader]
    assert main(["score", *data, *given, "--out", str(tmp_path / "runs")]) == 0
    capsys.readouterr()
    assert main(["explain", str(tmp_path / "runs" / "said" / "vsi_bench"), "0", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["prediction"]["answer"] and "failure" not in shown["prediction"]
    assert shown["failure"] == f"parse: {vsi.protocol.unread}"


def test_masks_stand_beside_the_ground_truths(of_image, images):
    shown = of_image(fenced([10, 10, 60, 60]))
    table = shown["masks"]
    ground_truth = images[0].target.answer.masks[0].to_array()
    assert (
        table["size"] == [ground_truth.shape[1], ground_truth.shape[0]] and table["of_frames"] == 1
    )
    (row,) = table["frames"]
    assert row["ground_truth"]["area"] == ground_truth.sum() and row["prediction"]["pieces"] == 1
    left, top, right, bottom = row["prediction"]["box"]
    assert row["prediction"]["area"] == (right - left) * (bottom - top)
    output = np.zeros_like(ground_truth)
    output[top:bottom, left:right] = True
    assert row["iou"] == pytest.approx(
        (output & ground_truth).sum() / (output | ground_truth).sum()
    )


def test_nothing_of_the_model_is_needed_to_explain_its_run(of_image, monkeypatch):
    build = plugins.build

    def no_models(kind, *given, **named):
        assert kind == "tasks", f"{kind} were built"
        return build(kind, *given, **named)

    def later(file):
        file.unlink()
        monkeypatch.setattr(plugins, "build", no_models)

    shown = of_image(fenced([10, 10, 60, 60]), between=later)
    assert "Locate" in shown["prompt 1"] and shown["response 1"] == fenced([10, 10, 60, 60])
    assert shown["parse"][0]["objects"]


def test_without_a_sample_the_first_one_is_named(tmp_path, capsys):
    data = str(Path(__file__).parents[2] / "tasks" / "reason_seg" / "example")
    given = ["--model", "whole_frame", "--tasks", "reason_seg", "--data", data]
    assert main(["eval", *given, "--out", str(tmp_path), "--quiet"]) == 0
    assert main(["explain", str(tmp_path / "whole_frame" / "reason_seg")]) == 2
    assert "the first is val_00000" in capsys.readouterr().err


def test_of_responses_from_a_file_no_request_is_known(of_image):
    reader = "qwen_vl(prompt=locate,backend=stored,segmenter=box)"
    shown = of_image(fenced([10, 10, 60, 60]), model=f"replay(file={{}},model={reader})")
    assert shown["prompt"].startswith("none in the record")
    assert shown["response 1"] == fenced([10, 10, 60, 60]) and shown["parse"][0]["objects"]


def test_of_a_model_without_a_network_it_is_said_that_nothing_was_asked(of_image):
    text = of_image("", model="whole_frame", json_=False)
    assert "prompt     none in the record" in text and "response" not in text
    assert "IoU is of all pixels" in text and "frame 0: prediction " in text
