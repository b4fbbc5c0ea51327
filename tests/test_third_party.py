"""docs/plugins.md is a whole package; it is installed and run here, as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PAGE = Path(__file__).parent.parent / "docs" / "plugins.md"
BLOCK = re.compile(r"^```(?:toml|python) (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    package = tmp_path / "bright"
    package.mkdir()
    for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        (package / name).write_text(text, encoding="utf-8")
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
         "--no-index", "--target", str(target), str(package)],
        check=True, capture_output=True,
    )  # fmt: skip
    return target


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    place = tmp_path / "data" / "brightest" / "test"
    place.mkdir(parents=True)
    for index in range(6):
        picture = np.full((20, 30, 3), 20, np.uint8)
        picture[4 : 10 + index, 5:20] = 220
        Image.fromarray(picture).save(place / f"p{index}.png")
        mask = (picture[:, :, 0] > 127).astype(np.uint8) * 255
        Image.fromarray(mask).save(place / f"p{index}.mask.png")
    return tmp_path / "data"


def test_the_page_has_one_file_and_one_line_for_each_plugin():
    blocks = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert set(blocks) == {"pyproject.toml", "bright_task.py", "bright_model.py",
                           "bright_metric.py"}  # fmt: skip
    lines = [line for line in blocks["pyproject.toml"].splitlines() if '= "bright_' in line]
    assert len(lines) == 3


def test_the_package_of_the_page_works(installed, pictures, command):
    command.path.append(installed)
    assert "brightest" in [one["name"] for one in command.json("list", "tasks")]
    assert command.json("verify", "--tasks", "brightest", "--data", pictures)["passed"]
    shown = command.json(
        "eval", "--model", "threshold(level=100)", "--tasks", "brightest", "--metrics",
        "area_error", "--data", pictures, "--out", "runs", "--workers", "2",
    )["tasks"]["brightest"]  # fmt: skip
    assert shown["metrics"] == {"IoU": 1.0, "area error": 0.0}
    assert (shown["n_total"], shown["n_failed"]) == (6, 0)
    dark = command.json("eval", "--model", "threshold(level=250)", "--tasks", "brightest",
                        "--data", pictures, "--out", "runs")["tasks"]["brightest"]  # fmt: skip
    assert dark["metrics"]["IoU"] == 0.0
    built = command("board", "build", "--runs", "runs", "--out", "board")
    assert built.returncode == 0, built.stderr
    assert "threshold" in (command.folder / "board" / "board.md").read_text()


def test_a_mistyped_argument_names_the_right_one(installed, pictures, command):
    command.path.append(installed)
    done = command("eval", "--model", "threshold(levl=3)", "--tasks", "brightest", "--data",
                   pictures, "--out", "runs")  # fmt: skip
    assert done.returncode == 2
    assert "Did you mean level?" in done.stderr
    wrong = command("eval", "--model", "threshold(level=high)", "--tasks", "brightest", "--data",
                    pictures, "--out", "runs")  # fmt: skip
    assert wrong.returncode == 2 and "a whole number" in wrong.stderr
