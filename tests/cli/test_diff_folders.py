"""`harness diff` of folders of runs, and what it draws."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness
from harness.cli.main import main
from harness.cli.spec_arguments import run_folder
from harness.errors import StoreError, UsageError
from harness.leaderboards.board import build
from harness.leaderboards.differences.causes import OTHER_MODEL, UNKNOWN, setting_causes
from harness.leaderboards.differences.diff import Difference, Step
from harness.leaderboards.differences.waterfall import lines
from harness.leaderboards.gate import check
from harness.leaderboards.site.write import write_site
from harness.spec import slug

TASKS = Path(__file__).resolve().parents[2] / "tasks"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two models on `reason_seg`, and of one of them on a second task."""
    out = tmp_path_factory.mktemp("runs")
    for model, task in (("a", "reason_seg"), ("b", "reason_seg"), ("b", "counting")):
        baseline = {"a": "whole_frame", "b": "random"}[model]
        command = ["eval", "--model", baseline, "--name", model, "--tasks", task, "--quiet"]
        assert main([*command, "--data", str(TASKS / task / "example"), "--out", str(out)]) == 0
    return out


def test_two_models_folders_are_compared_on_the_one_task_of_both(runs, capsys):
    assert main(["diff", str(runs / "a"), str(runs / "b")]) == 0
    of_folders, notes = capsys.readouterr()
    assert f"only in {runs / 'b'}: counting" in notes and f"only in {runs / 'a'}" not in notes
    assert main(["diff", str(runs / "a" / "reason_seg"), str(runs / "b" / "reason_seg")]) == 0
    assert of_folders == capsys.readouterr().out


def test_diff_gate_and_compare_page_count_the_same_samples(runs, tmp_path, capsys):
    pair = [runs / name / "reason_seg" for name in ("a", "b")]
    assert main(["diff", *map(str, pair), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    (verdict,) = check(*pair).verdicts
    counts = {name: plain["changes"][name] for name in ("worse", "better", "total")}
    assert counts == {name: getattr(verdict.changes, name) for name in counts}
    assert plain["steps"][0]["samples"] == counts["worse"] + counts["better"] > 0
    write_site(build(pair), tmp_path / "site", images=False)
    text = next((tmp_path / "site").rglob("samples.js")).read_text("utf-8")
    columns = json.loads(text[text.index("{") : text.rindex("}") + 1])
    first, second = (columns["runs"][name]["score"] for name in ("r0", "r1"))
    changed = sum(a != b for a, b in zip(first, second, strict=True))
    assert changed == counts["worse"] + counts["better"] and len(first) == counts["total"]


def test_models_of_other_names_are_the_cause_where_one_asks_no_network():
    described = ({"name": "random"}, {"name": "pocket", "chat": {"name": "pocket"}})
    a, b = (
        SimpleNamespace(manifest={"model": {"name": model["name"], "description": model}})
        for model in described
    )
    assert setting_causes(a, b) == {OTHER_MODEL: ["random → pocket"]}
    b.manifest["model"]["name"] = "random"
    assert list(setting_causes(a, b)) == [UNKNOWN]


def test_of_several_tasks_the_error_names_each_command(runs, capsys):
    assert main(["diff", str(runs / "b"), str(runs / "b")]) == UsageError.exit_code
    error = capsys.readouterr().err
    for task in ("reason_seg", "counting"):
        run = runs / "b" / task
        assert f"\nharness diff {run} {run}\n" in error


def test_a_run_that_is_not_there_is_answered_with_those_beside_it(runs, capsys):
    lost = str(runs / "b" / "reason_seg-split=test")
    assert main(["diff", str(runs / "a"), lost]) == StoreError.exit_code
    assert f"Runs near it: {runs / 'b' / 'reason_seg'}" in capsys.readouterr().err
    assert main(["explain", str(runs / "a"), "x"]) == StoreError.exit_code
    assert f"Runs near it: {runs / 'a' / 'reason_seg'}." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "cells"), [(0.5, 0.51, 1), (0.0, 1.0, 24), (1, 20, 24)]
)
def test_a_bar_is_as_long_as_its_share_of_all_scores(before, after, cells):
    step = Step(name="answers", before=before, after=after, samples=3, interval=(0.0, 0.1))
    only = {"a": "a", "b": "b", "task": "t", "headline": "h", "n_samples": 9}
    shown = "\n".join(
        lines(Difference(first=before, second=after, steps=(step,), **only), width=80)
    )
    assert shown.count("▲") == cells
    assert "95 % interval" in shown


@pytest.fixture(scope="module")
def first_two(runs, tmp_path_factory):
    """A model's folder with a run on two of the samples."""
    out = tmp_path_factory.mktemp("subset")
    command = ["eval", "--model", "random", "--name", "b", "--tasks", "reason_seg", "--quiet"]
    data = str(TASKS / "reason_seg" / "example")
    assert main([*command, "--subset", "first2", "--data", data, "--out", str(out)]) == 0
    return out / "b"


def test_a_run_on_a_subset_is_compared_on_the_samples_of_both(runs, first_two, capsys):
    assert main(["diff", str(runs / "a"), str(first_two)]) == 0
    printed = capsys.readouterr().out
    assert "on 2 samples in both" in printed and ", 2 in both" in printed
    assert "scores changed" not in printed.partition("subset")[2].splitlines()[0]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_gate_says_what_to_type_for_a_run_on_a_subset(swapped, runs, first_two, capsys):
    sides = [runs / "a", first_two][:: -1 if swapped else 1]
    arguments = ["--baseline", str(sides[0]), "--candidate", str(sides[1])]
    assert main(["board", "check", *arguments]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert ("with --subset first2" if swapped else "without --subset") in printed
    command = re.search(r"harness (diff \S+ \S+)", printed)[1]
    assert main(command.split()) == 0
    with pytest.raises(UsageError, match=r"--subset.* harness diff "):
        harness.compare(*command.split()[1:])


def test_a_kept_baseline_has_no_predictions_to_compare(runs, first_two, tmp_path, capsys):
    assert main(["board", "keep", "--runs", str(runs / "a"), "--out", str(tmp_path / "k")]) == 0
    check = ["board", "check", "--baseline", str(tmp_path / "k"), "--candidate", str(first_two)]
    assert main(check) == 1
    printed = capsys.readouterr().out
    assert "without --subset" in printed and "harness diff" not in printed


def test_a_hyphen_is_a_character_of_a_folders_name_and_older_folders_stay(tmp_path):
    assert run_folder(tmp_path, "lisa-mine", "mevis", "my-ids.txt") == (
        tmp_path / "lisa-mine" / "mevis@my-ids.txt"
    )
    older = tmp_path / slug("lisa-mine", hashed=True)
    older.mkdir()
    assert run_folder(tmp_path, "lisa-mine", "mevis", None) == older / "mevis"
    assert older.name.startswith("lisa-mine-") and len(older.name) == len("lisa-mine-") + 8
