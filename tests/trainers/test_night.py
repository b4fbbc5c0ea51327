"""A night's run imitated; `night.py` says what happens in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("night.py")


@pytest.mark.parametrize(
    "sizes",
    [
        ("--steps", "10", "--group", "2", "--size", "8"),
        pytest.param(("--steps", "200"), marks=pytest.mark.slow),
    ],
    ids=lambda sizes: sizes[1],
)
def test_a_disturbed_training_ends_with_the_bytes_of_one_that_was_not(tmp_path, sizes):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "night"), *sizes],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("same bytes\n"), done.stdout + done.stderr
