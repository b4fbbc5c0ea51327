"""What a dry run of `harness reproduce` says of data, numbers of samples and devices."""

from pathlib import Path
from shutil import copytree

from harness import plugins
from harness.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[2] / "tasks" / "coco_detection" / "example"
BOARD = """
paper = "mine"
table = "1"
title = "one network"
columns = [{task = "coco_detection", metrics = ["time"]}]
rows = [{row = "zero-shot", model = "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct)"}]
"""


def shown(capsys, *arguments):
    """The commands of a dry run, each with the lines above it."""
    assert main(["reproduce", *arguments, "--dry-run"]) == 0
    return capsys.readouterr().out.split("\n\n")


def test_a_device_that_is_too_small_is_given_the_method_s_configurations_that_fit_first(capsys):
    parts = shown(capsys, "dr2seg", "3", "--device", "RTX 4090")
    (first, second, *_) = [part.splitlines() for part in parts if part.startswith("# train")]
    ways = [line for line in first if line.startswith("#     ")]
    assert "--config qwen2_5_vl_3b_zero_shot_1x24gb_lora: 16 GB on 1 ×" in ways[0]
    (later,) = [line for line in second if "--config" in line and line.startswith("#")]
    assert "few_shot_1x24gb_lora with a 3B network in --model" in later
    parts = shown(capsys, "dr2seg", "3", "--device", "L40")
    ways = [line for line in parts[1].splitlines() if line.startswith("#     ")]
    assert "8x48gb_full" in ways[0] and "--set deepspeed" not in "".join(ways)


def test_a_dry_run_names_the_data_that_is_not_there_and_what_brings_it(tmp_path, capsys):
    (tmp_path / "reason_seg").mkdir()
    command = ("dr2seg", "3", "--device", "H100")
    heading = shown(capsys, *command)[0]
    assert "reason_seg: harness data fetch reason_seg --data ROOT" in heading
    there = shown(capsys, *command, "--data", str(tmp_path))[0]
    assert "reason_seg:" not in there and "visionreasoner_7k: " in there


def test_samples_of_a_real_folder_are_counted_where_no_number_is_published(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "1.toml").write_text(BOARD)
    data = tmp_path / "data"
    copytree(EXAMPLE, data)
    command = [str(tmp_path / "mine"), "1", "--device", "H100", "--data"]
    task = plugins.build("tasks", "coco_detection", data)
    assert f"#   samples: {len(list(task.samples()))} of coco" in "".join(
        shown(capsys, *command, str(data))
    )
    generated = tmp_path / "generated"
    copytree(data, generated)
    (generated / "shapes.json").write_text('{"size": 2}')
    for other in (generated, tmp_path / "nowhere"):
        assert "1,000 samples assumed of coco" in "".join(shown(capsys, *command, str(other)))
