"""`harness score --format`: other evaluations' files score as our own lines do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.cli.main import main
from harness.errors import MediaError
from harness.masks import Rle
from harness.media import pixels
from harness.plugins import build
from harness.run import decoded_batch
from harness.world.encode import encode_png

TASKS = Path(__file__).resolve().parents[2] / "tasks"
EXAMPLE = TASKS / "long_video_bench" / "example"
RESPONSES = ("The best answer is {0}.", "({0}) it is", "I do not know")


def scored(capsys, path, *more, task="long_video_bench", root=EXAMPLE):
    code = main(
        [
            "score",
            "--tasks",
            task,
            "--data",
            str(root),
            "--predictions",
            str(path),
            "--json",
            *map(str, more),
        ]
    )
    output = capsys.readouterr()
    assert code == 0, output.err
    return json.loads(output.out)["tasks"][task.partition("(")[0]]


@pytest.fixture
def told():
    """(id, question, response) of the example's three samples."""
    samples = build("tasks", "long_video_bench", EXAMPLE).samples()
    return [
        (one.id, one.query.text, text.format(one.target.extra["letter"]))
        for one, text in zip(samples, RESPONSES, strict=True)
    ]


@pytest.fixture
def ours(tmp_path, told):
    path = tmp_path / "ours.jsonl"
    path.write_text(
        "".join(json.dumps({"id": name, "response": text}) + "\n" for name, _, text in told)
    )
    return path


def test_lmms_evals_log_scores_as_our_lines_do(capsys, tmp_path, told, ours):
    path = tmp_path / "x_samples_longvideobench_val_v.jsonl"
    rows = [
        {
            "doc_id": place,
            "input": f"{requested}\nA. …\nAnswer.",
            "target": "A",
            "filtered_resps": text,
        }
        for place, (_, requested, text) in enumerate(told)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = scored(capsys, ours, "--model", "qwen_vl(backend=stored)")
    assert scored(capsys, path, "--format", "lmms-eval") == expected
    assert expected["n_total"] == 3 and expected["metrics"]["accuracy"] >= 2 / 3


COUNTS = {  # of lmms-eval 0.7.3, whose tasks read responses in three ways
    "countbench": {"3": 3, " 3\n": 3, "Three": 3, "none": 0, "3.": None, "3 dogs": None},
    "pixmo_count": {"3": 3, "There are 3.": 3, "3 or 4": 3, "three": None},
    "countbenchqa": {"3": 3, "three": None, "3 dogs": None},
}


@pytest.mark.parametrize("log", COUNTS)
def test_lmms_evals_logs_of_counts_are_read_as_its_tasks_read_them(capsys, tmp_path, log):
    root = TASKS / "counting" / "example"
    samples = list(build("tasks", "counting", root).samples())
    path = tmp_path / f"20260101_samples_{log}.jsonl"
    for response, read in COUNTS[log].items():
        rows = [
            {
                "doc_id": row,
                "input": f"{one.query.text}\nAnswer with a single number.",
                "target": str(one.target.answer.count),
                "acc": 0.0,
                "filtered_resps": response,
            }
            for row, one in enumerate(samples)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
        found = scored(capsys, path, "--format", "lmms-eval", task="counting", root=root)
        right = sum(one.target.answer.count == read for one in samples) / len(samples)
        failed = len(samples) if read is None else 0
        assert (found["metrics"]["accuracy"], found["n_failed"]) == (right, failed), response


def test_vlmevalkits_table_scores_as_our_lines_do(capsys, tmp_path, told, ours):
    path = tmp_path / "x.tsv"
    lines = [f"{place}\t{requested}\t{text}" for place, (_, requested, text) in enumerate(told)]
    path.write_text("\n".join(["index\tquestion\tprediction", *lines]) + "\n")
    expected = scored(capsys, ours, "--model", "qwen_vl(backend=stored)")
    assert scored(capsys, path, "--format", "vlmevalkit") == expected


def test_what_is_accepted_is_noted_with_its_number_and_kept_in_the_record(capsys, tmp_path, told):
    path = tmp_path / "x.csv"
    names = [name for name, *_ in told]
    path.write_text(f"id,prediction\r\n{names[0]},A\r\n{names[1]}\r\n{names[2]},\r\n", newline="")
    arguments = [
        "--tasks",
        "long_video_bench",
        "--data",
        str(EXAMPLE),
        "--out",
        str(tmp_path / "o"),
    ]
    given = ["--predictions", str(path), "--format", "vlmevalkit", "--json"]
    assert main(["score", *arguments, *given]) == 0
    assert f"{path}: 2 predictions that are empty\n" in capsys.readouterr().err
    (manifest,) = (tmp_path / "o").rglob("manifest.json")
    described = json.loads(manifest.read_text())["model"]["description"]
    assert described["notes"] == ["2 predictions that are empty"]


def test_an_unknown_format_is_told_the_names_in_one_line(capsys):
    assert main(["score", "--format", "coco-json", "--tasks", "mevis"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "coco-json" in told and "label-tree, mask-tree" in told


def test_a_zip_in_the_place_of_a_folder_is_to_be_unpacked(capsys, tmp_path, shapes):
    (tmp_path / "submission.zip").write_bytes(b"PK\x03\x04")
    given = ["--predictions", str(tmp_path / "submission.zip"), "--format", "png-tree"]
    assert main(["score", "--tasks", "mevis", "--data", str(shapes), *given]) == 3
    assert "`unzip submission.zip`" in capsys.readouterr().err


def test_answers_in_words_are_scored_without_the_videos(capsys, tmp_path, ours):
    root = tmp_path / "data"
    shutil.copytree(EXAMPLE, root)
    for path in root.rglob("*.mp4"):
        path.unlink()
    arguments = ["--model", "qwen_vl(backend=stored)"]
    whole, found = (
        scored(capsys, ours, "--allow-missing", *arguments, root=one) for one in (EXAMPLE, root)
    )
    assert {**found, "usage": None} == {**whole, "usage": None} and whole["n_failed"] == 1
    assert (
        main(
            [
                "score",
                "--tasks",
                "long_video_bench",
                "--data",
                str(root),
                "--predictions",
                str(ours),
                *arguments,
            ]
        )
        == 3
    )


def test_a_tree_of_images_scores_as_run_lengths_do(capsys, tmp_path, shapes):
    task = build("tasks", "mevis", shapes)
    rows, tree = [], tmp_path / "tree"
    for number, sample in enumerate(task.samples()):
        masks = sample.target.answer.masks[:: 1 if number % 2 else -1]
        rows.append({"id": sample.id, "masks": [mask.to_json() for mask in masks]})
        folder = tree / sample.id
        folder.mkdir(parents=True)
        for frame, mask in enumerate(masks):
            (folder / f"{frame:05}.png").write_bytes(encode_png(mask.to_array() * 255))
    path = tmp_path / "ours.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = scored(capsys, path, task="mevis", root=shapes)
    found = scored(
        capsys, tree, "--format", "png-tree", "--out", tmp_path / "runs", task="mevis", root=shapes
    )
    assert found == expected and 0 < found["metrics"]["J&F"] < 1
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    assert json.loads(manifest.read_text())["model"]["description"]["format"] == "png-tree"


def test_masks_of_images_as_files_score_as_run_lengths_do(capsys, tmp_path, shapes):
    rng = np.random.default_rng(0)
    rows, tree = [], tmp_path / "tree"
    for number, sample in enumerate(build("tasks", "reason_seg", shapes).samples()):
        mask = sample.target.answer.masks[0].to_array()
        sure = np.clip(mask * 0.8 + rng.random(mask.shape) * 0.4, 0, 1)
        path = tree / sample.id
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 3 == 0:
            np.save(path.with_name(f"{path.name}.npy"), sure)
        elif number % 3 == 1:
            Image.fromarray((sure * 65_535).astype(np.uint16)).save(f"{path}.png")
            sure = (sure * 65_535).astype(np.uint16) / 65_535
        else:
            path.mkdir()
            for side, part in enumerate((mask & (rng.random(mask.shape) < 0.5), mask)):
                Image.fromarray(part).save(path / f"{side}.png")
            sure = mask
        rows.append({"id": sample.id, "masks": [Rle.from_array(sure > 0.3).to_json()]})
    path = tmp_path / "ours.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = scored(capsys, path, task="reason_seg", root=shapes)
    found = scored(
        capsys,
        tree,
        "--format",
        "mask-tree",
        "--threshold",
        "0.3",
        "--out",
        tmp_path / "runs",
        task="reason_seg",
        root=shapes,
    )
    assert found == expected and 0 < found["metrics"]["gIoU"] < 1
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    assert json.loads(manifest.read_text())["model"]["description"]["threshold"] == 0.3
    again = scored(capsys, tree, "--format", "mask-tree", task="reason_seg", root=shapes)
    assert again["metrics"] != found["metrics"]


@pytest.mark.parametrize(
    "more",
    [
        ["--format", "mask-tree", "--threshold", "1"],
        ["--format", "mask-tree", "--threshold", "nan"],
        ["--format", "png-tree", "--threshold", "0.5"],
        ["--threshold", "0.5"],
    ],
)
def test_a_threshold_is_one_of_probabilities(capsys, tmp_path, shapes, more):
    assert (
        main(
            [
                "score",
                "--tasks",
                "reason_seg",
                "--data",
                str(shapes),
                "--predictions",
                str(tmp_path),
                *more,
            ]
        )
        == 2
    )
    assert "--threshold" in capsys.readouterr().err


def test_a_format_has_no_place_beside_a_run(capsys, tmp_path):
    assert main(["score", str(tmp_path), "--format", "sti"]) == 2
    assert "--format beside RUN" in capsys.readouterr().err


def test_a_long_video_is_not_sent_to_a_process_without_files(monkeypatch):
    video = pixels([np.zeros((4, 4, 3), np.uint8)] * 9, times=range(9), is_video=True, id="v")
    assert decoded_batch._decode(video).frame(8).shape == (4, 4, 3)
    monkeypatch.setattr(decoded_batch, "MAX_CARRIED", 9 * 48 - 1)
    with pytest.raises(MediaError, match="frames=32"):
        decoded_batch._decode(video).frame(0)
