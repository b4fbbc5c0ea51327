"""The architecture is a failing test."""

import ast
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("tasks", "models", "trainers", "leaderboards")


def test_imports_keep_to_the_layers():
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def graph():
    """All modules and who imports whom."""
    return grimp.build_graph("harness", cache_dir=None)


@pytest.mark.parametrize("room", ROOMS)
def test_the_layers_are_checked_on_every_module_of_a_linked_room(room, graph):
    seen = {name for name in graph.modules if name.startswith(f"harness.{room}")}
    files = (path.relative_to(REPOSITORY) for path in (REPOSITORY / room).rglob("*.py"))
    names = (".".join(("harness", *path.with_suffix("").parts)) for path in files)
    assert seen == {name.removesuffix(".__init__") for name in names}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("from harness.other import B\n", "from harness.one import A\n"),
        ("def a():\n    import harness.other\n", "import harness.one\n"),
        (
            "import typing\nif typing.TYPE_CHECKING:\n    from harness.other import B\n",
            "import harness.one\n",
        ),
    ],
)
def test_a_circle_of_two_modules_breaks_a_contract(one, other, tmp_path):
    package = tmp_path / "harness"
    package.mkdir()
    for name, text in (("__init__", ""), ("one", one), ("other", other)):
        (package / f"{name}.py").write_text(text)
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]
    contracts = settings["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "acyclic_siblings")
    ancestors = ", ".join(contract["ancestors"])
    (tmp_path / ".importlinter").write_text(
        "[importlinter]\nroot_package = harness\n"
        f"[importlinter:contract:circles]\nname = circles\ntype = {contract['type']}\n"
        f"ancestors = {ancestors}\n"
    )
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and ".one" in done.stdout and ".other" in done.stdout


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


@pytest.mark.parametrize(
    "script",
    sorted(
        path
        for room in ("benchmarks", "examples/learning")
        for path in (REPOSITORY / room).glob("*.py")
    ),
    ids=lambda path: path.stem,
)
def test_a_script_that_is_no_part_of_a_package_imports_what_is_there(script, monkeypatch):
    """Scripts import each other, and one that is removed must not be missed only when it is run."""
    monkeypatch.syspath_prepend(script.parent)
    tree = ast.parse(script.read_text("utf-8"))
    modules = {one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    modules |= {a.name for one in ast.walk(tree) if isinstance(one, ast.Import) for a in one.names}
    parts = ("models", "serving", "golden")  # networks; servers and planted faults; vendors' cases
    rooms = (script.parent, *(REPOSITORY / "tests" / part for part in parts))
    beside = {one.stem for room in rooms for one in room.glob("*.py")}
    others = {
        "lmms_eval",
        "vllm",
        "deepspeed",
        "evalscope",
        "verifiers",
    }  # installed where they are measured
    missing = {
        name
        for name in modules
        if name is not None
        and name.partition(".")[0] not in beside | others
        and importlib.util.find_spec(name) is None
    }
    assert not missing
