"""No part stands silently for another: SAM 2 is named with its weights, and a run with other parts
than those of its method's paper says so at its start, in its record and on boards.
"""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import UsageError
from harness.run.batching import samples_of
from harness.spec import parse

TASKS = Path(__file__).resolve().parents[2] / "tasks"
LARGE = "sam2(checkpoint=facebook/sam2-hiera-large)"


@pytest.mark.parametrize(
    ("kind", "name", "toy"),
    [
        ("segmenters", "sam2", "pocket_sam"),
        ("propagators", "sam2_video", "pocket_sam_video"),
    ],
)
def test_sam_2_without_weights_is_refused_and_says_which_to_give(kind, name, toy):
    for spec in (name, f"{name}(device=cpu)", f"{name}(checkpoint=none)"):
        with pytest.raises(UsageError) as refused:
            plugins.build(kind, parse(spec))
        for named in (
            f"{name}(checkpoint=facebook/sam2-hiera-large)",
            "facebook/sam2.1-hiera-large",
            f"is {toy}.",
        ):
            assert named in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "name", "toy"),
    [
        ("segmenters", "sam2", "pocket_sam"),
        ("propagators", "sam2_video", "pocket_sam_video"),
    ],
)
def test_a_network_that_harness_trained_has_a_name_of_its_own(kind, name, toy, tmp_path):
    """Whatever its folder is called."""
    large = tmp_path / "sam2-hiera-large"
    large.symlink_to(TASKS.parent / "models" / "pocket_sam", target_is_directory=True)
    with pytest.raises(UsageError, match=rf"Name it {toy}\(checkpoint="):
        plugins.build(kind, parse(f"{name}(checkpoint={large})"))
    assert plugins.build(kind, parse(f"{toy}(checkpoint={large})")).name == toy


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Stored responses to the images of reason_seg's example."""
    path = tmp_path_factory.mktemp("said") / "said.jsonl"
    with path.open("w") as file:
        for sample in samples_of(
            plugins.build("tasks", "reason_seg", TASKS / "reason_seg/example")
        ):
            answer = '<answer>[{"bbox_2d": [84, 84, 420, 420], "point_2d": [200, 200]}]</answer>'
            file.write(json.dumps({"key": sample.query.id, "response": answer}) + "\n")
    return path


def evaluated(said, out, *, parts=",segmenter=grabcut"):
    model = f"qwen_vl(backend=stored(file={said}){parts})"
    return main(
        [
            "eval",
            "--model",
            model,
            "--tasks",
            "reason_seg",
            "--quiet",
            "--data",
            str(TASKS / "reason_seg" / "example"),
            "--out",
            str(out),
        ]
    )


def test_a_run_with_grabcut_in_place_of_sam_2_says_so_everywhere(said, tmp_path, capsys):
    runs, board = tmp_path / "runs", tmp_path / "board"
    assert evaluated(said, runs) == 0
    info = capsys.readouterr().err
    assert "segmenter grabcut" in info and LARGE in info and "reason_seg" in info
    (path,) = runs.rglob("manifest.json")
    wanted = [{"setting": "segmenter", "used": "grabcut", "paper": LARGE, "of": "paper"}]
    assert json.loads(path.read_text())["deviations"] == wanted
    assert evaluated(said, runs) == 0  # and is the same run when it is resumed
    assert "segmenter grabcut" in capsys.readouterr().err
    assert main(["board", "build", "--runs", str(runs), "--out", str(board)]) == 0
    (table,) = json.loads((board / "board.json").read_text())["tables"]
    assert table["rows"][0]["deviations"] == wanted
    text = (board / "board.md").read_text()
    (line,) = [one for one in text.splitlines() if one.startswith("|") and "‡" in one]
    assert "qwen_vl/visionreasoner" in line and "segmenter grabcut" in text
    assert "sam2-hiera-large" in text


def test_predictions_that_are_read_with_grabcut_say_so_too(tmp_path, capsys):
    path, out = tmp_path / "mine.jsonl", tmp_path / "runs"
    root = TASKS / "reason_seg" / "example"
    with path.open("w") as file:
        for sample in samples_of(plugins.build("tasks", "reason_seg", root)):
            response = '<answer>[{"bbox_2d": [84, 84, 420, 420], "point_2d": [200, 200]}]</answer>'
            file.write(json.dumps({"id": sample.id, "response": response}) + "\n")
    assert (
        main(
            [
                "score",
                "--tasks",
                "reason_seg",
                "--data",
                str(root),
                "--predictions",
                str(path),
                "--model",
                "visionreasoner(backend=stored,segmenter=grabcut)",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    assert "segmenter grabcut" in capsys.readouterr().err
    (manifest,) = out.rglob("manifest.json")
    found = json.loads(manifest.read_text())["deviations"]
    assert [one["setting"] for one in found] == ["segmenter"]
