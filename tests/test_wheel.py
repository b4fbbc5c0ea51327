"""sdist and wheel hold every file of the package, with links and without, and the wheel works."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("tasks", "models", "trainers", "leaderboards")
LINKS = {f"harness/{room}" for room in ROOMS}
IMPORTS = """
import sys
from harness.leaderboards.definitions import shipped
from harness.models.saliency.model import saliency
from harness.presets import presets
from harness.tasks.reason_seg.task import reason_seg
from harness.trainers.grpo.trainer import grpo

assert shipped() and presets()
for plugin in (reason_seg, saliency, grpo, shipped):
    print(sys.modules[plugin.__module__].__file__)
"""
"""It imports a plugin of each room, and prints their files."""


def tracked(repository: Path) -> set[str]:
    """Files of the package as git sees them, under the names that they have when installed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "harness", *ROOMS]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    names = {name for name in done.stdout.splitlines() if (repository / name).is_file()} - LINKS
    return {name if name.startswith("harness/") else f"harness/{name}" for name in names}


def packed(wheel: Path) -> set[str]:
    """Files in a wheel, but for those about the package."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def build(folder: Path, out: Path, *kinds: str) -> subprocess.CompletedProcess[str]:
    """Build what `kinds` names; if nothing, an sdist, and the wheel from that sdist."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", out, folder]
    return subprocess.run(command, capture_output=True, text=True)


def pip_install(*arguments: str | Path, into: Path | str = sys.executable) -> None:
    """Install something alone, without a network."""
    pip = [sys.executable, "-m", "pip", "--python", into, "install", "--quiet", "--no-compile"]
    command = [*pip, "--no-deps", "--no-index", "--no-build-isolation", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def imported(folder: Path, cwd: Path, python: Path | str = sys.executable) -> list[Path]:
    """Return the files of a plugin of each room, after `harness list tasks`, where `folder` leads.

    Args:
        folder: Modules are looked for here before anything that is installed.
        cwd: The folder where Python runs.
        python: The Python.
    """
    outputs = []
    for arguments in (["-m", "harness", "list", "tasks"], ["-c", IMPORTS]):
        done = subprocess.run(
            [python, *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "reason_seg" in outputs[0]
    return [Path(line) for line in outputs[1].splitlines()]


def plugin_files(root: Path) -> list[Path]:
    """Files of the plugins that `IMPORTS` imports, below the folder of the rooms."""
    names = ("tasks/reason_seg/task", "models/saliency/model", "trainers/grpo/trainer")
    return [root / f"{name}.py" for name in (*names, "leaderboards/definitions")]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist, and the wheel made from that sdist."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout")
    out = tmp_path_factory.mktemp("dist")
    done = build(REPOSITORY, out)
    assert done.returncode == 0, done.stdout
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    """The folder of an unpacked sdist, where there are no links."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built[0]) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def test_the_wheel_holds_every_file_and_nothing_beside_the_package(built):
    assert packed(built[1]) == tracked(REPOSITORY)
    assert {name.split("/")[0] for name in packed(built[1])} == {"harness"}


def test_a_wheel_of_the_checkout_is_the_wheel_of_the_sdist(built, tmp_path):
    assert build(REPOSITORY, tmp_path, "--wheel").returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.read_bytes() == built[1].read_bytes()


def test_the_sdist_holds_every_file_once(built, unpacked):
    with tarfile.open(built[0]) as archive:
        assert all(member.isfile() for member in archive)
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")}
    assert tracked(REPOSITORY) <= files | {f"harness/{name}" for name in files}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= files
    assert not LINKS & files


def test_an_unpacked_sdist_runs(unpacked, tmp_path):
    assert imported(unpacked, tmp_path) == plugin_files(unpacked)


def test_a_copy_that_lacks_a_room_says_what_to_do(unpacked, tmp_path):
    shutil.copytree(unpacked / "harness", tmp_path / "harness")
    code = "import harness.sandbox, harness.models"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and str(tmp_path / "models") in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", ["--sdist", "--wheel"])
def test_a_build_that_lacks_a_room_fails(kind, unpacked, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(unpacked, copy, ignore=shutil.ignore_patterns("models"))
    done = build(copy, tmp_path / "dist", kind)
    assert done.returncode != 0 and f"{copy} lacks models" in done.stdout + done.stderr
    assert not [*(tmp_path / "dist").glob("*")]


@pytest.mark.slow
def test_a_clone_without_links_is_whole(tmp_path):
    """Git writes each link as a text file, as it does on Windows and archives do."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout")
    clone, dist = tmp_path / "clone", tmp_path / "dist"
    git = ["git", "clone", "--quiet", "-c", "core.symlinks=false", REPOSITORY, clone]
    subprocess.run(git, check=True)
    assert all((clone / link).is_file() and not (clone / link).is_symlink() for link in LINKS)
    assert imported(clone, tmp_path) == plugin_files(clone)

    assert build(clone, dist).returncode == 0
    (sdist_wheel,) = dist.glob("*.whl")
    assert packed(sdist_wheel) == tracked(clone)
    assert build(clone, tmp_path / "direct", "--wheel").returncode == 0
    (wheel,) = (tmp_path / "direct").glob("*.whl")
    assert wheel.read_bytes() == sdist_wheel.read_bytes()

    site = tmp_path / "site"
    pip_install("--target", site, wheel)
    assert imported(site, tmp_path) == plugin_files(site / "harness")

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    done = subprocess.run(where, capture_output=True, text=True, check=True)
    beside = Path(done.stdout.strip()) / "zz_packages_of_the_tests.pth"  # read after harness' own
    beside.write_text(sysconfig.get_path("purelib"))
    pip_install("--editable", clone, into=python)
    assert imported(tmp_path / "nothing", tmp_path, python) == plugin_files(clone)


def test_an_installed_wheel_runs_outside_the_checkout(built, tmp_path):
    target = tmp_path / "site"
    pip_install("--target", target, built[1])
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import harness; from harness.cli.main import main\n"
        f"assert harness.__file__.startswith({str(target)!r}), harness.__file__\n"
        "sys.exit(main(['data', 'make', 'shapes', '--out', 'world', '--size', '2',\n"
        "               '--tasks', 'reason_seg'])\n"
        " or main(['eval', '--model', 'saliency', '--tasks', 'reason_seg', '--data', 'world',\n"
        "          '--out', 'runs', '--quiet'])\n"
        " or main(['board', 'site', '--runs', 'runs', '--out', 'board']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "board" / "site.js").stat().st_size > 100_000
