"""docs/plugins.md is a whole package; it is installed and run here, as it stands."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "plugins.md"
BLOCK = re.compile(r"^```(?:toml|python|csv) (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


CARD = "bright/card.toml"


def blocks() -> dict[str, str]:
    return dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


def install(folder: Path, files: dict[str, str]) -> Path:
    """Install a package of these files; return the folder that it is imported from."""
    for name, text in files.items():
        (folder / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "package" / name).write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run(
        [*pip, "--no-index", "--target", str(folder / "site"), str(folder / "package")],
        check=True,
        capture_output=True,
    )
    return folder / "site"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without its card: what the source states is listed."""
    files = {name: text for name, text in blocks().items() if name != CARD}
    return install(tmp_path_factory.mktemp("bright"), files)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (made,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    exec(made, {})
    return tmp_path / "ROOT"


def test_the_page_has_one_file_and_one_line_for_each_plugin():
    files = blocks()
    assert set(files) == {
        "pyproject.toml",
        "bright/__init__.py",
        "bright/task.py",
        "bright/model.py",
        "bright/metric.py",
        "bright/reward.py",
        "bright/card.toml",
        "bright/boards/1.toml",
        "bright/boards/bright.csv",
        "test_bright.py",
    }
    lines = re.findall(r'^\w+ = "bright[.:]', files["pyproject.toml"], re.MULTILINE)
    assert len(lines) == 6


COMMANDS = """
import contextlib, io, json, sys
from harness.cli.main import main
done = []
for line in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line)
    done.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""
"""Runs commands one after the other: most of their time is what they import."""


def after_each_other(process, *lines):
    """Return exit code, output and messages of each command, in a process with the package."""
    given = [sys.executable, "-c", COMMANDS, json.dumps(lines)]
    done = subprocess.run(
        given,
        cwd=process.folder,
        env=process.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_package_brings_a_card_a_board_and_its_numbers(images, process, tmp_path):
    process.path.append(install(tmp_path / "whole", blocks()))
    (card,) = process.json("list", "tasks", "brightest")
    assert (card["title"], card["default_split"], card["protocols"]) == (
        "Brightest",
        "test",
        {"brightest/iou": "mean IoU"},
    )
    done = process("reproduce", "bright", "1", "--data", images, "--out", "made")
    assert done.returncode == 0, done.stderr
    board = (process.folder / "made" / "bright-1" / "board.md").read_text("utf-8")
    assert "GreatNet (2026), Table 1: bright parts" in board and "| *77.5* → 100.0 |" in board


def test_the_package_of_the_page_works(installed, images, process):
    process.path.append(installed)
    given = ["--tasks", "brightest", "--data", str(images)]
    runs = [*given, "--out", "runs", "--json"]
    bright = ["eval", "--model", "threshold(level=100)", "--metrics", "area_error", *runs]
    done = after_each_other(
        process,
        ["list", "tasks", "--json"],
        ["verify", *given, "--json"],
        [*bright, "--workers", "2"],
        ["eval", "--model", "threshold(level=250)", *runs],
        ["board", "build", "--runs", "runs", "--out", "board"],
    )
    assert [code for code, _, _ in done] == [0] * 5, done
    listed, verified, shown, dark = (json.loads(out) for _, out, _ in done[:4])
    (stated,) = (one for one in listed if one["name"] == "brightest")
    assert (stated["forms"], stated["protocols"]) == (["mask"], {"brightest/iou": "mean IoU"})
    assert (stated["headline"], stated["default_split"]) == ("IoU", "test")
    assert verified["passed"]
    shown = shown["tasks"]["brightest"]
    assert shown["metrics"] == {"IoU": 1.0, "area error": 0.0}
    assert (shown["n_total"], shown["n_failed"]) == (6, 0)
    assert dark["tasks"]["brightest"]["metrics"]["IoU"] == 0.0
    assert "threshold" in (process.folder / "board" / "board.md").read_text()


def test_the_tests_of_the_page_pass(installed, tmp_path, process):
    process.path.append(installed)
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*line, installed.parent / "package" / "test_bright.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=process.environment(),
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "parts", "chosen"),
    [
        ("grpo(reward=count)", {"count", "brevity"}, {"reward": "count"}),
        (
            "visionreasoner(reward=strict_accuracy)",
            {"accuracy", "answer_format"},
            {"reward": "strict_accuracy"},
        ),
    ],
)
def test_the_rewards_of_the_page_train_steps(installed, shapes, process, method, parts, chosen):
    pytest.importorskip("trl")
    process.path.append(installed)
    done = process(
        "train",
        "--method",
        method,
        "--model",
        "pocket",
        "--train-tasks",
        "shapes_referring(split=train)",
        "--data",
        shapes,
        "--out",
        "DIR",
        "--set",
        "num_generations=2,generation_batch_size=2,per_device_train_batch_size=2,max_steps=3,"
        "max_completion_length=48,report_to=none",
        "--quiet",
    )
    assert done.returncode == 0, done.stderr
    rows = [
        json.loads(line) for line in (process.folder / "DIR/curve.jsonl").read_text().splitlines()
    ]
    assert {f"rewards/{part}" for part in {*parts, "total"}} <= rows[0].keys()
    for part in parts:  # an example whose component is always 0 changes nothing
        assert any(row[f"rewards/{part}"] for row in rows), part
    manifest = json.loads((process.folder / "DIR" / "manifest.json").read_text())
    assert manifest["result"]["steps"] == 3
    assert chosen.items() <= manifest["method"]["settings"].items()
    assert (process.folder / "DIR" / "checkpoint" / "config.json").is_file()


def test_a_mistyped_argument_names_the_right_one(installed, images, process):
    process.path.append(installed)
    given = ["--tasks", "brightest", "--data", str(images), "--out", "runs"]
    models = ("threshold(levl=3)", "threshold(level=high)")
    mistyped, wrong = after_each_other(
        process, *(["eval", "--model", one, *given] for one in models)
    )
    assert (mistyped[0], wrong[0]) == (2, 2)
    assert " level?" in mistyped[2]
    assert "found 'high'" in wrong[2]
