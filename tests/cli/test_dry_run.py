"""What a dry run of `harness reproduce` says of data, numbers of samples and devices."""

import json
import re
from pathlib import Path
from shutil import copytree

from harness import plugins
from harness.cli.main import main
from harness.errors import UsageError

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


def hours(text):
    """The hours in a line that says `about 3.5 h` or `about 20.1 min`."""
    ((number, unit),) = re.findall(r"about ([\d,.]+) (h|min)\b", text)
    return float(number.replace(",", "")) / {"h": 1, "min": 60}[unit]


def test_hours_are_of_what_fits_and_the_sum_leaves_out_steps_that_do_not(capsys):
    command = ("vr_ttrl", "8", "--device", "L40S")
    parts = shown(capsys, *command)
    steps = [part.splitlines() for part in parts if part.startswith("# eval")]
    large = [lines for lines in steps if any("What fits:" in line for line in lines)]
    assert large and not any("about" in lines[0] for lines in large)
    ways = [line for lines in large for line in lines if line.startswith("#     ")]
    assert ways and all("about " in line for line in ways)
    fitting = sum(hours(lines[0]) for lines in steps if lines not in large)
    assert abs(hours(parts[-1]) - fitting) < 0.05 * len(steps)
    assert f"without {len(large)} step" in parts[-1]


def test_the_sum_leaves_out_what_starts_from_a_training_that_does_not_fit(capsys):
    def summed(*rows):
        given = [word for row in rows for word in ("--rows", row)]
        return shown(capsys, "dr2seg", "1", "--device", "RTX 4090", *given)[-1]

    assert "none of 2 steps can run" in summed("DR2Seg")
    both = summed("DR2Seg", "Seg-Zero")
    assert "without 2 steps" in both and hours(both) == hours(summed("Seg-Zero"))


def test_a_table_of_chosen_rows_has_their_steps_alone(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    two = BOARD.replace(
        "rows = [{", 'rows = [{row = "chance", model = "random"}, {row = "a", model = "random"}, {'
    )
    (tmp_path / "mine" / "1.toml").write_text(two)
    command = (str(tmp_path / "mine"), "1", "--device", "H100", "--rows")
    parts = shown(capsys, *command, "zero-shot")
    assert [part.split(":")[0] for part in parts[1:-2]] == ["# eval zero-shot"]
    assert main(["reproduce", *command, "none"]) == UsageError.exit_code
    assert "zero-shot" in capsys.readouterr().err
    data, out = tmp_path / "data", tmp_path / "out"
    copytree(EXAMPLE, data)
    given = ["--data", str(data), "--out", str(out)]
    assert main(["reproduce", str(tmp_path / "mine"), "1", *given, "--rows", "chance"]) == 0
    assert len([*out.glob("runs/*/*/results.json")]) == 1 and [*out.glob("mine-1/board.md")]


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


def test_an_evaluation_is_estimated_by_the_pilot_of_an_earlier_run(tmp_path, capsys):
    """Seconds of a sample times the samples, if it was measured on this device; it is said."""
    (tmp_path / "mine").mkdir()
    board = BOARD.replace("qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct)", "random")
    (tmp_path / "mine" / "1.toml").write_text(board)
    data, out = tmp_path / "data", tmp_path / "out"
    copytree(EXAMPLE, data)
    given = ["--data", str(data), "--out"]
    evaluation = ["eval", "--model", "random", "--tasks", "coco_detection", "--quiet", *given]
    assert main([*evaluation, str(out / "runs"), "--pilot", "1", "--batch-size", "1"]) == 0
    (path,) = out.rglob("pilot.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 1800.0, "samples": 2}))
    command = [str(tmp_path / "mine"), "1", *given, str(out)]
    count = len(list(plugins.build("tasks", "coco_detection", data).samples()))
    (step,) = [part for part in shown(capsys, *command) if part.startswith("# eval")]
    assert f"about {count / 2:.1f} h" in step
    assert "#   measured: coco_detection, by a pilot of 2 samples of an earlier run" in step
    elsewhere = shown(capsys, *command, "--device", "H100")
    assert not any("measured:" in part for part in elsewhere)
