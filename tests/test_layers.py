"""The architecture is a failing test."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("tasks", "models", "trainers", "leaderboards")


def test_imports_keep_to_the_layers():
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_real_folders_and_links_of_the_package(room):
    assert not (REPOSITORY / room).is_symlink()
    link = REPOSITORY / "harness" / room
    assert link.is_symlink() and link.readlink() == Path("..") / room


@pytest.mark.parametrize("room", ROOMS)
def test_a_second_copy_of_a_room_cannot_be_imported(room):
    done = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode != 0 and f"import harness.{room}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "kept_out"),
    [
        (["--help"], ("torch", "transformers", "cv2", "datasets", "numpy", "rich", "pyarrow")),
        (["list", "tasks"], ("torch", "transformers", "cv2", "datasets", "numpy", "pyarrow")),
        (["list", "models"], ("torch", "transformers", "cv2", "datasets", "numpy", "pyarrow")),
    ],
)
def test_quick_commands_import_nothing_slow(arguments, kept_out):
    code = (
        "import sys; from harness.cli.main import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        f"print([name for name in {kept_out} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_scoring_and_boards_import_no_deep_learning_framework(shapes, tmp_path):
    code = (
        "import sys; from harness.cli.main import main\n"
        f"data, out = {str(shapes)!r}, {str(tmp_path)!r}\n"
        "assert main(['eval', '--model', 'whole_frame', '--tasks', 'reason_seg,mevis,counting', "
        "'--data', data, '--out', out + '/runs', '--quiet']) == 0\n"
        "assert main(['verify', '--tasks', 'reason_seg', '--data', data]) == 0\n"
        "assert main(['board', 'build', '--runs', out + '/runs', '--out', out + '/board']) == 0\n"
        "print([n for n in ('torch', 'transformers', 'datasets') if n in sys.modules], "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"
