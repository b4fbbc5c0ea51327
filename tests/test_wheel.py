"""sdist and wheel hold every file of the package, and the wheel works by itself."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("tasks", "models", "trainers", "leaderboards")


def tracked() -> set[str]:
    """Files of the package as git sees them, under the names that they have when installed."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "harness", *ROOMS],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    names = set()
    for name in done.stdout.splitlines():
        path = REPOSITORY / name
        if path.is_symlink() or not path.is_file():
            continue
        names.add(name if name.startswith("harness/") else f"harness/{name}")
    return names


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist, and the wheel made from that sdist."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout")
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, REPOSITORY],
        check=True,
        capture_output=True,
    )
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def test_the_wheel_holds_every_file_and_nothing_beside_the_package(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == tracked()
    assert {name.split("/")[0] for name in names} == {"harness"}


def test_the_sdist_holds_every_file(built):
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert tracked() <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_an_installed_wheel_runs_outside_the_checkout(built, tmp_path):
    target = tmp_path / "site"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--no-deps",
            "--no-index",
            "--target",
            target,
            built[1],
        ],
        check=True,
        capture_output=True,
    )
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
