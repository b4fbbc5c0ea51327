"""Runs and trainings of stand-ins are marked, and stand on no normal board."""

import json

import pytest

from harness import provenance
from harness.cli.main import main
from harness.errors import StoreError
from harness.leaderboards.board import REHEARSAL_TITLE, build
from harness.leaderboards.runs import open_runs


@pytest.fixture(scope="module")
def rehearsed_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rehearsed")
    data, out = str(folder / "data"), str(folder / "runs")
    assert (
        main(["data", "make", "shapes", "--out", data, "--size", "2", "--tasks", "reason_seg"]) == 0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(provenance.REHEARSAL, "1")
        command = ["eval", "--model", "whole_frame", "--tasks", "reason_seg", "--quiet"]
        assert main([*command, "--data", data, "--out", out]) == 0
    return folder


def run_of(folder):
    (manifest,) = (folder / "runs").glob("*/*/manifest.json")
    return manifest.parent


def test_the_record_says_that_it_was_a_rehearsal(rehearsed_run):
    manifest = json.loads((run_of(rehearsed_run) / "manifest.json").read_text())
    assert manifest["provenance"]["rehearsal"] is True


def test_boards_and_gates_refuse_it(rehearsed_run, capsys):
    with pytest.raises(StoreError, match="found a rehearsal"):
        open_runs(rehearsed_run / "runs")
    refused = {}
    assert open_runs(rehearsed_run / "runs", refused=refused) == []
    assert len(refused) == 1
    runs, out = str(rehearsed_run / "runs"), str(rehearsed_run / "site")
    assert main(["board", "build", "--runs", runs, "--out", out]) == StoreError.exit_code
    assert "stand-ins" in capsys.readouterr().err


def test_a_board_inside_of_the_rehearsal_says_so(rehearsed_run, monkeypatch):
    monkeypatch.setenv(provenance.REHEARSAL, "1")
    assert build(rehearsed_run / "runs").title.startswith(REHEARSAL_TITLE)


def test_a_rehearsed_run_is_not_finished_by_a_real_one(rehearsed_run, capsys):
    command = ["eval", "--model", "whole_frame", "--tasks", "reason_seg", "--quiet"]
    data, out = str(rehearsed_run / "data"), str(rehearsed_run / "runs")
    assert main([*command, "--data", data, "--out", out]) == StoreError.exit_code
    assert "rehearsal" in capsys.readouterr().err


def test_its_scores_are_marked_and_no_command_is_named_that_refuses_it(
    rehearsed_run, monkeypatch, capsys
):
    monkeypatch.setenv(provenance.REHEARSAL, "1")
    command = ["eval", "--model", "whole_frame", "--tasks", "reason_seg", "--quiet"]
    command += ["--data", str(rehearsed_run / "data"), "--out", str(rehearsed_run / "runs")]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "REHEARSAL" in shown.partition("gIoU")[0]
    assert "board site" not in shown and "harness explain" in shown
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rehearsal"] is True
