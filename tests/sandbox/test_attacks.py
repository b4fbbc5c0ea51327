"""Every attack is stopped on every tier of this machine, for root and for an ordinary user."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

HERE = Path(__file__).parent
CORE = Path(harness.__file__).parent
NOBODY = 65534
TIERS = [
    ("bubblewrap", "with"),
    ("bubblewrap", "without"),
    ("landlock", "with"),
    ("gvisor", "without"),
]


def attacked(command: list[str], **options: object) -> dict[str, str]:
    """Return the outcomes that `attacks.py` prints; skip where the tier does not work."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes: dict[str, str] = json.loads(done.stdout)
    if "unavailable" in outcomes:
        pytest.skip(outcomes["unavailable"])
    return outcomes


@pytest.mark.parametrize(("tier", "landlock"), TIERS)
def test_every_attack_is_stopped(tier, landlock):
    outcomes = attacked([sys.executable, str(HERE / "attacks.py"), tier, landlock])
    assert len(outcomes) >= 31 + 10
    assert {attack: one for attack, one in outcomes.items() if one != "stopped"} == {}


@pytest.fixture(scope="module")
def core_for_everyone() -> Iterator[Path]:
    """A folder that everyone may read, with the sandbox and what it needs of the core."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "harness")
        shutil.copytree(CORE / "sandbox", folder / "sandbox")
        for module in ("__init__.py", "errors.py", "files.py", "responses.py"):
            shutil.copy(CORE / module, folder / module)
        shutil.copy(HERE / "attacks.py", name)
        for place in (Path(name), *Path(name).rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are those of an ordinary user")
@pytest.mark.parametrize(
    ("tier", "landlock"), [TIERS[0], TIERS[2], pytest.param(*TIERS[3], marks=pytest.mark.slow)]
)
def test_every_attack_of_an_ordinary_user_is_stopped(tier, landlock, core_for_everyone):
    python = "/usr/bin/python3"
    wanted = "import sys; sys.exit(sys.version_info < (3, 11))"
    if not Path(python).exists() or subprocess.run([python, "-c", wanted]).returncode:
        pytest.skip(f"an ordinary user needs a Python 3.11 of the system's: no {python}")
    outcomes = attacked(
        [python, str(core_for_everyone / "attacks.py"), tier, landlock],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(core_for_everyone)},
    )
    assert {attack: one for attack, one in outcomes.items() if one != "stopped"} == {}
