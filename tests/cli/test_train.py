"""`harness train` as a user types it."""

import importlib.util
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.chosen.checkpoints import with_checkpoint
from harness.cli import judge as judges
from harness.cli.main import build_parser, main
from harness.errors import ModelError, UsageError
from harness.judging import rubric as find_rubric
from harness.run.checkpoint_provenance import read_origins
from harness.run.training_record import Training
from harness.spec import parse
from harness.trainer import Curve

pytest.importorskip("trl")

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tasks" / "reason_seg" / "example"
WATCHED = ("--eval-tasks", "reason_seg")


def _fixtures():
    """The tiny network of the tests of models, which pytest shares only with tests below them."""
    path = REPOSITORY / "tests" / "models" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tests_models_conftest", path)
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    if not hasattr(module, "tiny_qwen"):
        spec.loader.exec_module(module)
    return module


tiny_qwen = _fixtures().tiny_qwen
networks_are_read_once = _fixtures().networks_are_read_once


@pytest.fixture
def line(tiny_qwen, tmp_path):
    """The arguments of a training of three steps."""
    return [
        "train",
        "--method",
        "sft",
        "--model",
        f"qwen_vl(checkpoint={tiny_qwen},max_new_tokens=8,segmenter=box)",
        "--train-tasks",
        "reason_seg",
        "--data",
        str(DATA),
        "--out",
        str(tmp_path / "out"),
        "--set",
        "max_steps=3",
        "--set",
        "save_steps=1,per_device_train_batch_size=2,report_to=none",
        "--quiet",
    ]


def said(capsys):
    return json.loads(capsys.readouterr().out)


def test_a_training_that_cannot_begin_leaves_its_folder_to_another(line, tmp_path, capsys):
    out = Path(line[line.index("--out") + 1])
    wrong = [*line]
    wrong[line.index("--model") + 1] = "saliency"
    assert main(wrong) == 2 and "found Saliency" in capsys.readouterr().err
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == []
    assert main(line) == 0 and (out / "checkpoint").is_dir()


def test_a_dry_run_is_refused_as_a_start_is_and_writes_nothing(line, tmp_path, capsys):
    out = tmp_path / "out"
    dry = [*line, *WATCHED, "--dry-run", "--json"]
    assert main(dry) == 0
    plan = said(capsys)
    assert plan["train_tasks"] == {"reason_seg": 3} and plan["eval_tasks"] == {"reason_seg": 3}
    assert plan["estimate"]["steps"] == plan["method"]["settings"]["max_steps"] == 3
    assert plan["start"] == "a new training"
    wrong = [*line]
    wrong[line.index("--model") + 1] = "saliency"
    assert main([*wrong, "--dry-run"]) == 2 and "found Saliency" in capsys.readouterr().err
    assert main([*line, "--set", "metric_for_best_model=eval/x", "--dry-run"]) == 2
    assert main([*line, "--device", "H100"]) == 2
    assert not out.exists()
    assert main(line) == 0
    before = sorted(out.rglob("*"))
    capsys.readouterr()
    assert main(dry) == 0 and said(capsys)["start"] == "a finished training"
    assert main([*dry, "--seed", "7"]) == main([*line, "--seed", "7"]) != 0
    assert sorted(out.rglob("*")) == before


def test_a_dry_run_without_the_networks_files_ends_with_its_estimate(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    line = ["train", "--method", "dr2seg", "--config", "qwen2_5_vl_7b_zero_shot_8x48gb_full"]
    line += ["--train-tasks", "reason_seg", "--data", str(DATA), "--out", str(tmp_path / "out")]
    line += ["--dry-run", "--device", "L40S"]
    model = ["--model", "dr2seg(checkpoint=Nobody/Absent-7B,segmenter=box)"]
    assert main([*line, *model, "--json"]) == 0
    plan = said(capsys)
    estimate = plan["estimate"]
    assert (estimate["processes"], estimate["fits"]) == (8, True)  # as the configuration states
    assert "Nobody/Absent-7B" in plan["lacking"] and "start" not in plan
    assert main([*line, *model]) == 0
    assert "on 8 × L40S" in (shown := capsys.readouterr().out) and "was not checked" in shown
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([*line, *model, "--json"]) == 0
    assert said(capsys)["estimate"]["processes"] == 2  # as it is started
    wrong = ["--model", f"dr2seg(checkpoint={tmp_path / 'gone'},segmenter=box)"]
    assert main([*line, *wrong]) == ModelError.exit_code  # a folder that is not there


def test_a_training_is_evaluated_and_says_what_it_was_trained_on(line, capsys, tmp_path):
    code = main([*line, "--eval-tasks", "reason_seg", "--every", "2", "--seed", "7", "--json"])
    assert code == 0
    shown = said(capsys)
    assert (
        shown["result"]["steps"] == 3
        and shown["method"]["settings"]["per_device_train_batch_size"] == 2
    )
    assert shown["tasks"]["reason_seg"]["n_total"] == 3
    assert shown["trained_on"]["reason_seg"]["samples"] == 3
    kept = json.loads((tmp_path / "out" / "eval" / "reason_seg" / "trained_on.json").read_text())
    assert kept == shown["trained_on"]["reason_seg"]
    out = tmp_path / "out"
    names = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    assert names == ["checkpoint", "curve.jsonl", "eval", "manifest.json", "samples.jsonl"]
    rows = Training.open(out).curve.read()
    assert ["eval/reason_seg/gIoU" in row for row in rows] == [False, True, False]
    assert Training.open(out).manifest["base_is_folder"] is True
    card = (out / "checkpoint" / "README.md").read_text()
    scored = card.partition("## Scores")[2]
    assert f"| {shown['tasks']['reason_seg']['metrics']['gIoU']:.3f} |" in scored
    assert "3 of 3 samples" in scored, "which were trained on"
    assert "eval/reason_seg/gIoU" in (out / "checkpoint" / "curves.svg").read_text()
    run = json.loads((out / "eval" / "reason_seg" / "manifest.json").read_text())
    assert run["model"]["description"]["chat"]["trained"]["seed"] == 7
    (origin,) = read_origins(out / "eval" / "reason_seg")
    assert (origin.name, origin.folder, origin.steps, origin.seed) == ("out", "../..", 3, 7)

    code = main(
        [
            "eval",
            "--model",
            f"qwen_vl(checkpoint={out},max_new_tokens=8,segmenter=box)",
            "--tasks",
            "reason_seg",
            "--data",
            str(DATA),
            "--out",
            str(tmp_path / "runs"),
            "--json",
            "--seed",
            "7",
        ]
    )
    again = said(capsys)["tasks"]["reason_seg"]
    assert code == (again["n_scored"] == 0)
    assert again["trained_on"] == kept
    assert again["metrics"] == shown["tasks"]["reason_seg"]["metrics"]
    (run,) = (path.parent for path in (tmp_path / "runs").rglob("results.json"))
    assert [one.folder for one in read_origins(run)] == ["../../../out"]

    board = tmp_path / "board"
    assert (
        main(
            [
                "board",
                "build",
                "--runs",
                str(tmp_path / "runs"),
                "--runs",
                str(out / "eval"),
                "--out",
                str(board),
                "--json",
            ]
        )
        == 0
    )
    rows = json.loads((board / "board.json").read_text())["tables"][0]["rows"]
    assert [row["training"]["link"] for row in rows] == ["../out/manifest.json"] * 2


def test_further_metrics_are_evaluated_after_and_while_training(line, capsys, tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text('eval_metrics = ["reasoning_tokens"]\n')
    requested = [*line, "--config", str(config), *WATCHED, "--every", "2", "--json"]
    assert main(requested) == 0
    assert said(capsys)["tasks"]["reason_seg"]["metrics"]["reasoning tokens"] >= 0
    rows = Training.open(tmp_path / "out").curve.read()
    columns = ("eval/reason_seg/gIoU", "eval/reason_seg/reasoning tokens")
    assert [[name in row for name in columns] for row in rows] == [
        [False, False],
        [True, True],
        [False, False],
    ]


def test_further_metrics_without_a_task_are_refused(line, capsys, tmp_path):
    assert main([*line, "--eval-metrics", "reasoning_tokens"]) == 2
    assert "--eval-metrics" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_checkpoint_is_evaluated_by_the_model_that_is_named_for_it(line, capsys, tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text(
        'eval_model = "qwen_vl(checkpoint={checkpoint},max_new_tokens=5,segmenter=box)"\n'
    )
    requested = [*line, "--config", str(config), "--eval-tasks", "reason_seg"]
    assert main([*requested, "--json"]) == 0
    out = tmp_path / "out"
    info = Training.open(out).manifest
    assert info["eval_model"] == "qwen_vl(checkpoint={checkpoint},max_new_tokens=5,segmenter=box)"
    assert "max_new_tokens=8" in info["model"]["spec"]
    run = json.loads((out / "eval" / "reason_seg" / "manifest.json").read_text())
    assert run["model"]["spec"] == f"qwen_vl(checkpoint={out},max_new_tokens=5,segmenter=box)"
    assert info["tasks"][0]["faults"] == {"found": 0, "left_out": 0}
    capsys.readouterr()
    assert main([*line, "--resume", "--json"]) == 0, "it is no part of what was trained"


def test_a_part_of_the_evaluation_that_is_missing_is_told_before_training(line, capsys, tmp_path):
    requested = "qwen_vl(checkpoint={checkpoint},propagator=xmem(repo=/no,weights=/w))"
    assert main([*line, *WATCHED, "--eval-model", requested]) == 6
    assert "xmem" in capsys.readouterr().err.lower() and not (tmp_path / "out").exists()


def test_a_strict_split_is_refused_before_anything_is_trained(line, capsys, tmp_path):
    assert main([*line, "--eval-tasks", "reason_seg", "--strict-split"]) == 2
    info = capsys.readouterr().err
    assert "--strict-split: reason_seg" in info and "3 of 3 samples" in info
    assert not (tmp_path / "out").exists()
    assert main([*line, "--strict-split"]) == 2
    assert "--eval-tasks" in capsys.readouterr().err


class Grader:
    """A judge that takes every answer for right, and counts how often it is asked."""

    name = "grader(v=1)"

    def __init__(self):
        self.asked = 0

    def judge(self, rubric, question, answer, ground_truth):
        self.asked += 1
        return find_rubric(rubric).verdict("3")


@pytest.fixture
def judged(line, tmp_path, monkeypatch):
    """A training that is evaluated on a task with free answers, and its judge."""
    root = tmp_path / "root"
    root.mkdir()
    for name in ("reason_seg", "v_star"):
        (root / name).symlink_to(REPOSITORY / "tasks" / name / "example" / name)
    line[line.index("--data") + 1] = str(root)
    made = Grader()
    build = judges.build_judge
    monkeypatch.setattr(
        judges, "build_judge", lambda text: made if text == "grader" else build(text)
    )
    return [*line, "--eval-tasks", "v_star(where=text,prompt=official)"], made


def test_free_answers_are_graded_by_the_judge_that_is_named(judged, capsys, tmp_path):
    line, grader = judged
    assert main([*line, "--judge", "grader", "--json"]) == 0
    (results,) = said(capsys)["tasks"].values()
    assert results["metrics"]["Acc"] is not None and results["n_total"] == 15
    (run,) = (path.parent for path in (tmp_path / "out" / "eval").rglob("results.json"))
    info = json.loads((run / "manifest.json").read_text())["task"]["arguments"]
    assert info["judge"] == grader.name
    verdicts = (run / "verdicts.jsonl").read_text().splitlines()
    assert len(verdicts) == grader.asked > 0
    assert (
        main(["score", str(run), "--json"]) == 0 and not said(capsys)["tasks"]["v_star"]["differs"]
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], "expected --judge SPEC"),
        (["--judge", "no_such_judge"], "no_such_judge"),
        (["--judge", "stored(file=/nowhere/verdicts.jsonl)"], "/nowhere/verdicts.jsonl"),
    ],
)
def test_a_judge_that_is_absent_or_cannot_be_had_is_told_before_training(
    judged, capsys, tmp_path, more, expected
):
    line, _ = judged
    assert main([*line, *more]) == 2
    assert expected in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_judge_may_stand_in_the_configuration_and_is_refused_where_nothing_needs_it(
    judged, capsys, tmp_path
):
    line, _ = judged
    config = tmp_path / "mine.toml"
    config.write_text('judge = "stored(file=/nowhere/verdicts.jsonl)"\n')
    assert main([*line, "--config", str(config)]) == 2
    assert "/nowhere/verdicts.jsonl" in capsys.readouterr().err
    assert main([*line[: line.index("--eval-tasks")], "--judge", "grader"]) == 2
    assert "judged" in capsys.readouterr().err


def test_the_same_command_goes_on_and_only_what_alters_the_result_is_refused(line, capsys):
    assert main([*line, "--keep-state"]) == 0
    assert "steps 3" in capsys.readouterr().out
    assert main(line) == 0
    assert "finished already" in capsys.readouterr().err
    assert main([*line, "--set", "learning_rate=1e-3,save_steps=7"]) == 5
    error = capsys.readouterr().err
    assert "learning_rate: 1e-05 → 0.001" in error and "save_steps" not in error
    assert main([*line, "--set", "max_steps=2"]) == 5
    assert "max_steps: 3 → 2" in capsys.readouterr().err
    assert main([*line, "--set", "max_steps=4,save_steps=7", "--json"]) == 0
    output = said(capsys)
    assert output["result"]["steps"] == 4
    manifest = Training.open(Path(output["out"])).manifest
    assert {(one["setting"], one["from"], one["to"]) for one in manifest["changed"]} == {
        ("max_steps", 3, 4),
        ("save_steps", 1, 7),
    }
    line = [*line, "--set", "max_steps=4,save_steps=7"]
    assert main([*line, "--resume", "--json"]) == 0
    assert said(capsys)["result"]["steps"] == 4


def test_settings_of_a_file_give_way_to_what_is_typed(line, capsys, tmp_path, monkeypatch):
    config = tmp_path / "mine.toml"
    config.write_text(
        "learning_rate = 1e-4\nmax_steps = 50\nseed = 9\n"
        'lr_scheduler_type = "constant_with_warmup"\n'
        'eval-tasks = ["reason_seg"]\n'
    )
    assert main([*line, "--config", str(config), "--json"]) == 0
    shown = said(capsys)
    settings = shown["method"]["settings"]
    assert (settings["learning_rate"], settings["max_steps"]) == (1e-4, 3)
    assert settings["lr_scheduler_type"] == "constant_with_warmup" and list(shown["tasks"]) == [
        "reason_seg"
    ]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["seed"] == 9


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("learning-rat = 1\n", [], " learning_rate?"),
        ("seed = 'x'\n", [], "'seed': "),
        ("max_steps = [1]\n", [], "'max_steps'"),
        ("a = \n", [], "a TOML file"),
        ("", ["--set", "max_steps"], "key=value"),
        ("", ["--set", "x=1"], "sft(x=…)"),
        ("", ["--every", "2"], "--eval-tasks"),
        ("", ["--every", "0", *WATCHED], "--every"),
        ("", ["--eval-model", "qwen_vl(checkpoint=a)"], "{checkpoint}"),
        ("eval_model = 3\n", [], "'eval_model': "),
        ("", ["--eval-model", "qwen_vl(checkpoint={checkpoint},colour=red)", *WATCHED], "colour"),
        ("", ["--eval-tasks", "reason_sag"], "reason_seg"),
        ("", ["--method", "sff"], "sft"),
        ("", ["--config", "nothing"], "qwen2_5_vl_7b_lora"),
    ],
)
def test_what_cannot_be_done_is_refused_before_training(
    line, capsys, tmp_path, text, more, expected
):
    config = tmp_path / "c.toml"
    config.write_text(text)
    assert main([*line, "--config", str(config), *more]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_configurations_that_come_with_the_method_are_of_its_settings():
    from harness import plugins
    from harness.cli.show import configs
    from harness.cli.train import configured, method_of

    names = configs(plugins.installed_plugins("trainers")["sft"])
    assert {"pocket_cpu", "qwen2_5_vl_7b_full", "qwen2_5_vl_7b_lora"} <= set(names)
    for name in names:
        typed = ["train", "--method", "sft", "--config", name]
        given, settings = configured(build_parser().parse_args(typed))
        assert given.model
        settings.pop("deepspeed", None)  # which is not installed everywhere
        assert plugins.build("trainers", method_of(given, settings)).describe()


def test_trainers_are_listed_with_their_settings(capsys):
    assert main(["list", "trainers", "--json"]) == 0
    shown = {one["name"]: one for one in said(capsys)}
    assert shown["sft"]["about"].startswith("Supervised fine-tuning")
    assert "pocket_cpu" in shown["sft"]["configs"]
    assert (
        shown["sft"]["settings"]["per_device_train_batch_size"]
        == "=1 (Examples on each device that gradients are computed for at once)"
    )
    assert all(text.count("(") for text in shown["sft"]["settings"].values())
    assert main(["list", "trainers", "sft"]) == 0
    assert "finetune=full (one of full, lora. " in capsys.readouterr().out


def test_settings_that_are_listed_are_those_that_can_be_given():
    """Read from the source, without an import; compared here with what the import says."""
    from harness import plugins
    from harness.catalog.settings import settings

    named = re.compile(r"= ?(.*?)(?: \(.*\))?\Z", re.DOTALL)
    for name, entry in plugins.installed_plugins("trainers").items():
        offered = inspect.signature(plugins.load("trainers", name)).parameters
        shown = settings(entry)
        assert set(shown) == set(offered), name
        for one, parameter in offered.items():
            default = named.match(shown[one])
            if parameter.default is parameter.empty:
                assert default[1] == "needed"
            elif isinstance(parameter.default, (bool, int, float, str, type(None))):
                typed = parse(f"x(x={default[1]})").arguments["x"]
                assert typed == parameter.default, (name, one)


def test_a_method_with_grpo_lists_the_settings_of_its_engine(capsys):
    assert main(["list", "trainers", "dr2seg", "--json"]) == 0
    (shown,) = said(capsys)
    assert shown["settings"]["num_generations"].startswith("=8 (")
    assert shown["settings"]["beta"].startswith("=0.01 ")
    assert shown["settings"]["n0"].startswith("=45 ")
    assert shown["settings"]["form"].startswith("=sam2 (one of sam2, sam3. ")
    assert list(shown["settings"]).index("semantics") < list(shown["settings"]).index(
        "num_generations"
    )
    assert "pocket_cpu" in shown["configs"]
    assert main(["list", "trainers", "dr2seg"]) == 0
    main_ones = capsys.readouterr().out
    assert main(["list", "trainers", "dr2seg", "--all"]) == 0
    listed = " ".join(capsys.readouterr().out.split())  # lines are as wide as the terminal
    assert "loss_type=bnpo (one of grpo, bnpo, dr_grpo, dapo, cispo. " in listed
    count = len(re.findall(r"^  \w+=", main_ones, flags=re.MULTILINE))
    assert count == 10 and "n0=45" in main_ones and "learning_rate=none" in main_ones
    assert (
        f"{len(shown['settings']) - 10} settings: harness list trainers dr2seg --all" in main_ones
    )
    assert "Literal" not in listed and "None" not in main_ones


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pocket", "pocket(checkpoint=DIR)"),
        ("qwen_vl(checkpoint=a,frames=2)", "qwen_vl(checkpoint=DIR,frames=2)"),
        (
            "qwen_vl(backend=transformers(checkpoint=a,dtype=float32))",
            "qwen_vl(backend=transformers(checkpoint=DIR,dtype=float32))",
        ),
        (
            "qwen_vl(checkpoint=a,backend=transformers(checkpoint=b))",
            "qwen_vl(checkpoint=a,backend=transformers(checkpoint=DIR))",
        ),
        (
            "dr2seg(checkpoint=a,segmenter=sam2(checkpoint=b))",
            "dr2seg(checkpoint=DIR,segmenter=sam2(checkpoint=b))",
        ),
        (
            "dr2seg(segmenter=sam2(checkpoint=b))",
            "dr2seg(segmenter=sam2(checkpoint=b),checkpoint=DIR)",
        ),
        (
            "videoseg_r1(backend=transformers(checkpoint=a),sampler=transformers(checkpoint=b),"
            "propagator=sam2_video(checkpoint=c))",
            "videoseg_r1(backend=transformers(checkpoint=DIR),sampler=transformers(checkpoint=b),"
            "propagator=sam2_video(checkpoint=c))",
        ),
    ],
)
def test_a_model_is_evaluated_with_its_new_checkpoint(text, expected):
    assert str(with_checkpoint(parse(text), Path("DIR"))) == expected


def test_a_model_without_a_checkpoint_cannot_be_evaluated():
    with pytest.raises(UsageError, match=r"^model saliency: .*checkpoint"):
        with_checkpoint(parse("saliency"), Path("DIR"))


def test_an_interrupted_training_goes_on(line, capsys, tmp_path, monkeypatch):
    line[line.index("save_steps=1,per_device_train_batch_size=2,report_to=none")] = (
        "save_steps=100,per_device_train_batch_size=2,report_to=none"
    )
    out, append = tmp_path / "out", Curve.append

    def interrupted(curve, step, numbers):
        append(curve, step, numbers)
        if step == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Curve, "append", interrupted)
        assert main(line) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [row["step"] for row in Training.open(out).curve.read()] == [1, 2]
    assert [path.name for path in (out / "state").iterdir()] == ["step-2"]
    assert not Training.open(out).is_finished
    assert main([*line, "--resume"]) == 0
    assert [row["step"] for row in Training.open(out).curve.read()] == [1, 2, 3]


@pytest.mark.slow
def test_two_processes_train_as_one_with_twice_the_batch(line, tmp_path):
    assert main(line) == 0
    alone = Training.open(tmp_path / "out").curve.read()
    line[line.index(str(tmp_path / "out"))] = str(tmp_path / "two")
    given = "save_steps=1,per_device_train_batch_size=2,report_to=none"
    line[line.index(given)] = given.replace("train_batch_size=2", "train_batch_size=1")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            "2",
            "--standalone",
            "-m",
            "harness",
            *line,
        ],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    together = Training.open(tmp_path / "two")
    assert together.manifest["processes"] == 2
    both = [[row["loss"] for row in rows] for rows in (together.curve.read(), alone)]
    assert len(both[0]) == 3 and both[0] == pytest.approx(both[1], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
        [
            "accelerate.commands.launch",
            "--multi_gpu",
            "--num_processes",
            "2",
            "--num_machines",
            "1",
            "--mixed_precision",
            "no",
            "--dynamo_backend",
            "no",
        ],
    ],
    ids=["torch", "accelerate"],
)
def test_two_processes_make_the_groups_and_the_step_of_one(tiny_qwen, tmp_path, launcher):
    settings = (
        "num_generations=4,generation_batch_size=8,per_device_train_batch_size=4,max_completion_length=6,max_steps=1,reward=random,"
        "noise=keyed,loss_type=grpo,beta=0.05,entropy_coef=0,report_to=none,"
        "keep_rollouts=2,learning_rate=0.003"
    )
    line = [
        "-m",
        "harness",
        "train",
        "--method",
        "visionreasoner",
        "--seed",
        "3",
        "--quiet",
        "--model",
        f"visionreasoner(checkpoint={tiny_qwen})",
        "--train-tasks",
        "reason_seg",
        "--data",
        str(DATA),
        "--set",
        settings,
        "--out",
    ]
    made = {}
    for name, launch in (("alone", []), ("together", ["-m", *launcher])):
        done = subprocess.run(
            [sys.executable, *launch, *line, str(tmp_path / name)],
            capture_output=True,
            text=True,
            timeout=500,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        made[name] = Training.open(tmp_path / name)
    assert made["together"].manifest["processes"] == 2
    (one,), (two,) = made["alone"].curve.read(), made["together"].curve.read()
    assert one["grad_norm"] > 0
    shared = {key for key in one if key in two and "clip" not in key}
    assert {"reward", "grad_norm", "completions/mean_length"} <= shared
    assert {key: two[key] for key in shared} == pytest.approx(
        {key: one[key] for key in shared}, rel=1e-3, abs=1e-6
    )
    kept = {
        name: [json.loads(line) for line in (training.folder / "rollouts.jsonl").open()]
        for name, training in made.items()
    }
    written = {
        name: {(row["sample"], row["rollout"]): row["text"] for row in rows}
        for name, rows in kept.items()
    }
    assert (len(written["alone"]), len(written["together"])) == (8, 4)  # the first one's share
    assert written["together"].items() <= written["alone"].items()
