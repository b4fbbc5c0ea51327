"""Standard output of any encoding, closed, full, or read by nobody: results are kept, never 70."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.main import main
from harness.cli.streams import ESCAPES

LINES = 40_000  # more than a pipe holds


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command that prints what few encodings have, and then writes its result."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import harness.cli.doctor as doctor\n"
        "from pathlib import Path\n"
        "from harness.cli.output import note, tell\n"
        "def run(arguments):\n"
        "    note('✓ 一 😀')\n"
        f"    tell(arguments, {{'é ✓': '😀'}}, *['é – ✓ 一 😀'] * {LINES})\n"
        "    Path('result').write_text('kept')\n"
        "    return 0\n"
        "doctor.doctor = run\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("PYTHONUTF8", "0")

    def run(shell, encoding="utf-8"):
        (tmp_path / "result").unlink(missing_ok=True)
        monkeypatch.setenv("PYTHONIOENCODING", encoding)
        line = f'"{sys.executable}" -m harness doctor {shell}'
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, env=os.environ, check=False
        )
        assert (tmp_path / "result").read_text() == "kept", done.stderr
        return done

    return run


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "cp1252", "shift_jis"])
def test_json_stays_json_in_any_encoding(command, encoding):
    done = command("--json", encoding)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode(encoding)) == {"é ✓": "😀"}


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        (">&-", 0),
        ("<&- >&- 2>&-", 0),
        ("1</dev/null", 0),
        ("2>/dev/full", 0),
        (">/dev/full", 5),
        (">/dev/full 2>/dev/full", 5),
        ("| head -1; exit ${PIPESTATUS[0]}", 0),
    ],
)
def test_a_result_is_kept_whatever_becomes_of_the_text(command, shell, code):
    done = command(shell)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def test_help_that_cannot_be_written_is_a_failure(command):
    done = command(
        ">/dev/null; harness --help >/dev/full".replace("harness", f'"{sys.executable}" -m harness')
    )
    assert done.returncode == 5 and b"standard output" in done.stderr


@given(st.text(), st.sampled_from(["ascii", "latin-1", "cp437", "cp1252"]))
def test_what_an_encoding_lacks_is_spelled_as_json_has_it(text, encoding):
    written = json.dumps(text, ensure_ascii=False).encode(encoding, ESCAPES)
    assert json.loads(written.decode(encoding)) == text


def test_a_file_that_is_opened_does_not_become_the_standard_output(tmp_path):
    program = (
        "import os, sys\n"
        "from harness.cli.streams import tolerant_streams\n"
        "with tolerant_streams():\n"
        "    file = open('journal', 'w')\n"
        "    os.write(1, b'of a library in C')\n"
        "    file.close()\n"
    )
    subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{program}" >&-'], cwd=tmp_path, check=True
    )
    assert (tmp_path / "journal").read_text() == ""


def test_streams_are_the_ones_of_before_after_a_command(capsys):
    before = sys.stdout, sys.stderr
    with pytest.raises(SystemExit):
        main(["--version"])
    assert (sys.stdout, sys.stderr) == before and "harness" in capsys.readouterr().out
