"""A run of an earlier version is refused, and nothing in its folder is touched."""

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.record import VERSION

ROOT = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"


@pytest.fixture
def command(tmp_path):
    given = ["--tasks", "reason_seg", "--data", str(ROOT), "--out", str(tmp_path / "runs")]
    return ["eval", "--model", "whole_frame", *given, "--quiet"]


def test_a_run_of_another_version_is_refused_and_left_as_it_is(command, tmp_path, capsys):
    assert main(command) == 0
    (path,) = (tmp_path / "runs").rglob("manifest.json")
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "version": VERSION - 1}))
    for journal in path.parent.glob("samples.*"):
        old = f'"v": {VERSION - 1}'.encode()
        journal.write_bytes(journal.read_bytes().replace(f'"v": {VERSION}'.encode(), old))
    before = {one: one.read_bytes() for one in path.parent.rglob("*") if one.is_file()}
    sample = json.loads((path.parent / "scores.jsonl").read_text().splitlines()[0])["samples"][0]
    for asked in (command, ["score", path.parent], ["explain", path.parent, sample]):
        capsys.readouterr()
        assert main(list(map(str, asked))) == 5
        assert f"expected version {VERSION}, found {VERSION - 1}" in capsys.readouterr().err
    after = {one: one.read_bytes() for one in path.parent.rglob("*") if one.is_file()}
    assert after == before
    assert main([*command, "--restart"]) == 0
