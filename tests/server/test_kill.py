"""No upload that was accepted is lost when the server is killed at any moment."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "server.py"


@pytest.mark.slow
def test_no_accepted_upload_is_lost_through_kills():
    line = [sys.executable, BENCHMARK, "--users", "8", "--uploads", "3", "--kills", "4"]
    done = subprocess.run(
        [*line, "--samples", "12"], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "lost or doubled: 0" in done.stdout
    assert re.search(r"8 users, 24 uploads, 4 kills", done.stdout)
