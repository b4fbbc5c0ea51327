"""Every command, as a user types it: `--json` is one value, tables are readable, help is there."""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from harness import machine
from harness.cli.config import read_config
from harness.cli.main import build_parser, main
from harness.cli.tables import wrap_lines
from harness.errors import HarnessError, UsageError
from harness.spec import slug

FORMS = {"counting": "count", "mevis": "mask_track", "reason_seg": "mask"}
KEYS = {
    "headline",
    "metrics",
    "breakdowns",
    "protocol",
    "ceiling",
    "n_total",
    "n_scored",
    "n_failed",
}


def parsers(parser, name="harness"):
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for key, child in action.choices.items():
                yield from parsers(child, f"{name} {key}")


@pytest.mark.parametrize(("name", "parser"), list(parsers(build_parser())))
def test_every_command_has_help_for_itself_and_its_options(name, parser):
    text = parser.format_help()
    assert len(text.splitlines()) >= 4
    for action in parser._actions:
        assert action.help or action.metavar in ("COMMAND", "ACTION"), f"{name} {action.dest}"


def test_lists_are_arrays_of_objects_with_names(command):
    shown = {one["name"]: one for one in command.json("list", "tasks")}
    assert {name: shown[name]["forms"] for name in FORMS} == {
        name: [form] for name, form in FORMS.items()
    }
    for kind in ("models", "trainers", "segmenters", "propagators", "backends", "metrics"):
        assert all(one["name"] and one["module"] for one in command.json("list", kind))
    assert "  A task or group of lmms-eval, " in command("list", "tasks").stdout, "it has no card"


def test_models_are_listed_with_what_each_needs_and_one_with_its_settings(command):
    assert "random" in [reward["name"] for reward in command.json("list", "rewards")]
    needs = {one["name"]: one["needs"] for one in command.json("list", "models")}
    assert (needs["pocket"], needs["random"]) == (["torch", "transformers"], [])
    assert needs["qwen_vl"] == ["checkpoint", "torch", "transformers"]
    assert (needs["saliency"], needs["replay"]) == ([], ["file"])
    shown = command("list", "models").stdout
    assert "qwen_vl         checkpoint, torch, transformers  " in shown
    (one,) = command.json("list", "models", "qwen_vl")
    assert one["settings"]["max_new_tokens"].startswith("=1024 (")


def test_parts_are_listed_with_what_each_needs(command):
    needs = {
        one["name"]: ", ".join(one["needs"])
        for kind in ("backends", "segmenters", "propagators")
        for one in command.json("list", kind)
    }
    assert needs["vllm"] == "checkpoint, the package vllm (not run here)"
    assert (needs["lmms"], needs["openai"]) == ("name, lmms-eval", "a server")
    assert needs["sam2"] == "checkpoint, torch, transformers"
    assert needs["pocket_sam"] == "torch, transformers"
    assert needs["xmem"] == "repo, weights, torch"
    assert needs["grabcut"] == needs["flow"] == needs["stored"] == ""


def test_a_card_is_shown_by_name_and_a_typo_is_corrected(command, process):
    done = command("list", "tasks", "reason_seg")
    assert done.returncode == 0 and "arXiv 2308.00692" in done.stdout
    wrong = process("list", "tasks", "reasonseg")
    assert wrong.returncode == 2 and "reason_seg" in wrong.stderr


def test_eval_prints_one_json_object(process, command, shapes):
    shown = process.json(
        "eval",
        "--model",
        "whole_frame",
        "--tasks",
        "reason_seg,counting",
        "--data",
        shapes,
        "--out",
        "runs",
    )
    assert set(shown) == {"model", "tasks"} and set(shown["tasks"]) == {"reason_seg", "counting"}
    for one in shown["tasks"].values():
        assert set(one) >= KEYS
        assert one["n_scored"] + one["n_failed"] == one["n_total"] == 8
        assert isinstance(one["metrics"][one["headline"]], float)
    again = command.json(
        "eval",
        "--model",
        "whole_frame",
        "--tasks",
        "reason_seg,counting",
        "--data",
        shapes,
        "--out",
        "runs",
    )
    assert again == shown


def test_saliency_beats_the_floors_on_shapes(evaluated):
    def headline(model, task):
        (path,) = (evaluated / model).glob(f"{task}*/results.json")
        results = json.loads(path.read_text())
        assert results["n_failed"] == 0
        return results["metrics"][results["headline"]]

    for task in ("reason_seg", "mevis"):
        floors = max(headline("random", task), headline("whole_frame", task))
        assert headline("saliency", task) > floors + 0.05


LONG = "saliency(segmenter=grabcut(iterations=5,margin=0.05),propagator=flow(preset=medium))"


def test_results_fit_a_narrow_terminal_and_say_what_to_do_next(
    shapes, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "80")
    requested = ["eval", "--model", "whole_frame,random", "--tasks", "reason_seg,counting"]
    assert main([*requested, "--data", str(shapes), "--out", str(tmp_path / "my runs")]) == 0
    info = capsys.readouterr()
    shown, _, after = info.out.partition("runs: ")
    assert max(map(len, shown.splitlines())) <= 80
    for metric in ("gIoU", "P@0.9", "accuracy"):
        assert shown.count(f"    {metric}") == 2, "every metric of every task is shown"
    folders = [
        line.removeprefix("runs: ")
        for line in f"runs: {after}".splitlines()
        if line.startswith("runs: ")
    ]
    assert len(folders) == 4 and all((Path(one) / "results.json").is_file() for one in folders)
    commands = [line.partition("harness ")[2] for line in after.splitlines() if "harness " in line]
    (build, explain) = (shlex.split(one) for one in commands)
    monkeypatch.chdir(tmp_path)
    assert main(build) == main(explain) == 0
    bars = [line for line in info.err.splitlines() if "8/8" in line]
    assert [len(line) <= 80 for line in bars] == [True] * 4
    for bar, words in zip(
        bars,
        [
            ("reason_seg", "whole_frame"),
            ("counting", "whole_frame"),
            ("reason_seg", "random"),
            ("counting", "random"),
        ],
        strict=True,
    ):
        assert all(word in bar for word in words)


@pytest.mark.parametrize("kind", [None, "tasks", "models", "trainers", "metrics", "segmenters"])
def test_lists_fit_a_narrow_terminal(kind, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", *([kind] if kind else [])]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_long_text_is_broken_at_commas_and_no_part_is_lost(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    for text in (LONG, "x" * 95, f"{'y' * 50},{LONG}", "one two"):
        lines = list(wrap_lines(text, indent=2))
        assert max(map(len, lines)) <= 40
        assert "".join(line.strip() for line in lines).replace(" ", "") == text.replace(" ", "")


def test_without_a_kind_the_kinds_are_listed(command):
    shown = {one["kind"]: one["installed"] for one in command.json("list")}
    assert shown["tasks"] == len(command.json("list", "tasks"))
    assert {"models", "trainers", "segmenters"} <= set(shown)


@pytest.mark.parametrize(
    ("typed", "missing"),
    [
        (["eval"], ["--model", "--tasks", "--data", "--out"]),
        (["eval", "--model", "random"], ["--tasks", "--data", "--out"]),
        (["sweep", "--vary", "seed=1,2"], ["--model", "--tasks", "--data", "--out"]),
        (["score"], ["--predictions", "--tasks", "--data"]),
        (["verify"], ["--tasks", "--data"]),
        (["data", "check"], ["--tasks", "--data"]),
        (["train"], ["--method", "--out"]),
        (["train", "--method", "dr2seg"], ["--model", "--train-tasks", "--data", "--out"]),
        (["train", "--method", "pocket"], ["--out"]),
    ],
)
def test_all_that_is_missing_is_named_at_once(typed, missing, capsys):
    assert main(typed) == 2
    info = capsys.readouterr().err
    assert re.findall(r"(--[a-z-]+) \(", info) == missing


@pytest.mark.parametrize(
    "command",
    [
        ["eval", "--tasks", "reason_seg", "--model"],
        ["train", "--method", "sft", "--train-tasks", "reason_seg", "--model"],
    ],
)
@pytest.mark.parametrize("model", ["qwen_vl", "dr2seg(backend=transformers)"])
def test_a_model_without_its_checkpoint_says_so_itself(command, model, shapes, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*command, model, "--data", str(shapes), "--out", str(out)]) == 2
    info = capsys.readouterr().err
    assert f"model {model}" in info and "checkpoint" in info and not out.exists()


@pytest.mark.parametrize("part", ["levl=3", "segmenter=grabcut(rouns=1)", "batch_size=many"])
def test_every_model_is_checked_before_the_first_is_evaluated(part, shapes, tmp_path, capsys):
    out = tmp_path / "out"
    where = ["--tasks", "reason_seg", "--data", str(shapes), "--out", str(out)]
    wrong = f"saliency({part})"
    assert main(["eval", "--model", f"whole_frame,{wrong}", *where]) == 2
    assert f"{part.rpartition('(')[2].partition('=')[0]}=…" in capsys.readouterr().err
    assert not out.exists()
    name, value = part.split("=", 1)
    assert main(["eval", "--model", "saliency", "--vary", f"{name}={value}", *where]) == 2
    assert not out.exists(), "a sweep that cannot be made would refuse the one that is meant"


def test_verify_reaches_every_ceiling(command, shapes):
    shown = command.json("verify", "--tasks", "reason_seg,mevis,counting", "--data", shapes)
    assert shown["passed"]
    ways = {(one["name"], one["way"]) for one in shown["verdicts"]}
    assert ways == {(name, way) for name in FORMS for way in ("answers", "responses")}
    text = command("verify", "--tasks", "reason_seg,where2place", "--data", shapes).stdout
    assert text.count("below the ceiling, because LISA") == 1
    assert text.endswith("where2place: up to 1e-12 below the ceiling\n")


def test_verify_reaches_every_ceiling_on_real_images(command, real):
    assert command.json("verify", "--tasks", "reason_seg,mevis", "--data", real)["passed"]


BY_BOXES = "qwen_vl(backend=stored,segmenter=box)"


def test_responses_of_a_file_are_read_by_the_model_that_is_named(command, shapes):
    sample = '{"id": "val_00000", "response": "<think>x</think><answer>%s</answer>"}\n'
    box = '[{\\"bbox_2d\\": [10, 100, 200, 210], \\"point_2d\\": [30, 110]}]'
    (command.folder / "p.jsonl").write_text(sample % box)
    arguments = ("score", "--tasks", "reason_seg", "--data", shapes, "--predictions", "p.jsonl")
    refused = command(*arguments)
    assert refused.returncode == 2 and "qwen_vl(backend=stored)" in refused.stderr
    shown = command.json(*arguments, "--model", BY_BOXES)["tasks"]["reason_seg"]
    assert (shown["n_scored"], shown["n_failed"]) == (1, 7)
    told = command(*arguments, "--model", BY_BOXES, "--out", "made").stdout
    assert "runs: made/p/reason_seg" in told and "harness explain made/p/reason_seg" in told


def test_a_run_is_scored_again_from_its_journal(command, evaluated):
    (run,) = (evaluated / "saliency").glob("mevis*")
    shown = command("score", run, "--json")
    assert shown.returncode == 0 and shown.stderr == ""
    stored = json.loads((run / "results.json").read_text())
    assert json.loads(shown.stdout)["tasks"]["mevis"]["metrics"] == stored["metrics"]


def test_explain_tells_everything_about_a_sample(command, evaluated):
    (run,) = (evaluated / "saliency").glob("reason_seg*")
    done = command("explain", run, "val_00001", "--image", "x.png")
    assert done.returncode == 0, done.stderr
    for word in ("question", "answer", "ground_truth", "score", "saliency"):
        assert word in done.stdout
    assert (command.folder / "x.png").read_bytes().startswith(b"\x89PNG")
    missing = command("explain", run, "val_99999")
    assert missing.returncode == 5 and "val_99999" in missing.stderr


def test_data_is_checked_and_described(command, shapes):
    for name in FORMS:
        assert command.json("data", "check", name, "--data", shapes)[0]["problems"] == []
        (info,) = command.json("data", "info", name, "--data", shapes)
        assert info["samples"] == 8 and info["answers"] == [FORMS[name]] and info["example"]["id"]


def test_board_and_gate_work_on_runs(command, evaluated):
    built = command("board", "build", "--runs", evaluated, "--out", "board")
    assert built.returncode == 0, built.stderr
    page = (command.folder / "board" / "board.md").read_text()
    assert "| saliency |" in page
    same = command(
        "board",
        "check",
        "--baseline",
        evaluated / "saliency",
        "--candidate",
        evaluated / "saliency",
    )
    assert same.returncode == 0, same.stdout
    worse = command(
        "board",
        "check",
        "--baseline",
        evaluated / "saliency",
        "--candidate",
        evaluated / "whole_frame",
        "--level",
        "0.5",
    )
    assert worse.returncode == 1 and "FAILED" in worse.stdout


def test_a_run_that_is_not_finished_is_named_beside_the_board(command, evaluated, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(evaluated, runs)
    manifest = min((runs / "saliency").rglob("manifest.json"))
    (runs / "killed").mkdir()
    shutil.copy(manifest, runs / "killed")
    (runs / "killed" / "samples.0.1.jsonl").touch()
    build = ("board", "build", "--runs", runs, "--out", tmp_path / "board")
    assert command.json(*build)["unfinished"] == [str(runs / "killed")]
    assert "killed" in command(*build).stderr


def test_a_config_file_takes_the_same_keys(command, shapes):
    (command.folder / "c.toml").write_text(
        f'model = "whole_frame"\ntasks = ["reason_seg"]\ndata = "{shapes}"\nout = "runs"\n'
        'subset = "first2"\n'
    )
    shown = command.json("eval", "--config", "c.toml")
    assert shown["tasks"]["reason_seg"]["n_total"] == 2
    typed = command.json("eval", "--config", "c.toml", "--subset", "first3")
    assert typed["tasks"]["reason_seg"]["n_total"] == 3
    (command.folder / "c.toml").write_text('modle = "whole_frame"\n')
    wrong = command("eval", "--config", "c.toml")
    assert wrong.returncode == 2 and " model?" in wrong.stderr


def test_what_actors_get_may_stand_in_a_config(tmp_path):
    (tmp_path / "c.toml").write_text("worker-gpus = 1\nworker-wait = 600\n")
    parser = build_parser().parse_args(["eval"]).parser
    assert read_config(tmp_path / "c.toml", parser) == {"worker_gpus": 1, "worker_wait": 600}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--worker-gpus", "-1"),
        ("--worker-wait", "0"),
        ("--worker-wait", "nan"),
    ],
)
def test_what_actors_cannot_get_is_refused(option, value, tmp_path, capsys):
    requested = ["eval", "--model", "whole_frame", "--tasks", "counting", "--data", str(tmp_path)]
    assert main([*requested, "--out", str(tmp_path / "runs"), f"{option}={value}"]) == 2
    assert option in capsys.readouterr().err


def test_doctor_tells_what_is_there_and_what_to_do_about_what_is_not(monkeypatch, capsys):
    started = []
    monkeypatch.setattr(subprocess, "run", lambda line, **_: started.append(line))
    monkeypatch.setattr(
        machine, "installed_version", lambda name: "1.0" if name == "numpy" else None
    )
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["doctor", "--json"]) == 6
    shown = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert not started, "no other process is waited for"
    assert shown["numpy"]["fix"] == "" and "pillow>=" in shown["pillow"]["fix"]
    assert "[train]" in shown["trl"]["fix"] and "[torch]" in shown["torch"]["fix"]
    assert all(one["fix"] for one in shown.values() if one["state"] in ("absent", "MISSING"))
    assert "bwrap" not in shown, "there is no sandbox"
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 6
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_doctor_reports_an_installation_without_metadata(monkeypatch, capsys):
    def lacking(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(machine, "requires", lacking)
    assert main(["doctor", "--json"]) == 6
    shown = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert shown[machine.DISTRIBUTION]["needed"] and shown[machine.DISTRIBUTION]["fix"]


@pytest.mark.parametrize("evaluates", [True, False])
def test_doctor_understands_markers(evaluates, monkeypatch):
    markers = ("", "; extra == 'ocr'", "; python_version < '3'", "; extra == 'a' or extra == 'b'")
    always = "lacking1>=4; python_version >= '3'"
    listed = [*(f"lacking>={place}{one}" for place, one in enumerate(markers)), always]
    monkeypatch.setattr(machine, "requires", lambda name: listed)
    if not evaluates:
        monkeypatch.setitem(sys.modules, "packaging.markers", None)
    found = [one.fix for one in machine.core() if one.name.startswith("lacking")]
    assert found == [f'pip install "{one}"' for one in (listed[0], *[always] * evaluates)]


def test_doctor_does_not_wait_for_a_driver_that_hangs(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(machine, "DRIVER_SECONDS", 0.05)
    found = machine._accelerator()
    assert found.fix and "nvidia-smi" in found.fix


@pytest.mark.parametrize(("version", "right"), [("2.13.0+cpu", False), ("2.13.0", True)])
def test_doctor_names_a_gpu_and_a_torch_that_cannot_use_it(version, right, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA L40, 46068 MiB'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(machine, "installed_version", lambda name: version)
    found = machine._accelerator()
    assert found.state == "NVIDIA L40, 46068 MiB" and (found.fix == "") == right


def test_training_by_a_method_that_is_not_installed_names_those_that_are(command):
    done = command("train", "--method", "no_such", "--model", "pocket")
    assert done.returncode == 2 and "trainer 'no_such'" in done.stderr and "sft" in done.stderr


def test_folders_of_runs_are_readable_and_never_the_same_for_two_specs():
    texts = [
        "a",
        "a(b=1)",
        "a(b=2)",
        "a:b",
        "../a",
        ".",
        "a" * 200,
        "a" * 201,
        "a(b=c/d)",
        "a(b=c d)",
        "a(b=c+d)",
        "a-b",
        "a(b)",
        "a-b=1",
        "a@b=1",
        "a(b=1)@c",
        "a@c(b=1)",
        "a(b=1)@(c)",
    ]
    slugs = [slug(text) for text in texts]
    assert len(set(slugs)) == len(texts)
    assert all("/" not in one and not one.startswith(".") and len(one) <= 50 for one in slugs)


def test_a_world_of_some_benchmarks_has_only_those(command):
    made = command.json(
        "data", "make", "shapes", "--out", "some", "--size", "1", "--tasks", "counting,mevis"
    )
    assert made["tasks"] == ["counting", "mevis"]
    held = {path.name for path in (command.folder / "some").iterdir()}
    assert held == {"counting", "mevis", "shapes.json"}


def test_a_benchmark_that_cannot_be_written_is_named_before_anything_is(command):
    done = command("data", "make", "shapes", "--out", "none", "--tasks", "mevis,mewis")
    assert done.returncode == 2
    assert "mewis" in done.stderr and "ref_davis17" in done.stderr
    assert not (command.folder / "none").exists()


def test_a_pipe_that_is_not_our_output_is_a_fault(monkeypatch, capsys):
    def lose_a_child(arguments):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("harness.cli.doctor.doctor", lose_a_child)
    assert main(["doctor"]) == HarnessError.exit_code
    assert "Broken pipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        ("eval --limit 8", "--subset first<N>"),
        ("eval --model_args=pretrained=x", "--model NAME(key=value,…)"),
        ("eval --batch_size 8", "Use --batch-size."),
        ("train --learning_rate 1e-6", "--set learning_rate=VALUE"),
        ("board site --run runs --out s --titles x", "Use --title."),
        ("list --never-heard-of", "--never-heard-of"),
    ],
)
def test_an_unknown_option_is_answered_with_the_one_that_is_meant(typed, instead, capsys):
    assert main(typed.split()) == UsageError.exit_code
    assert instead in capsys.readouterr().err
