"""Shares of a run, predicted anywhere and in any order: together they are the run, to the byte."""

import json
import shutil

import pytest
from PIL import Image

from harness.cli.main import main
from harness.errors import ResumeMismatch, UsageError
from harness.record import Run, runs_below

MODEL, TASK = "random", "reason_seg"


@pytest.fixture
def evaluated(shapes, tmp_path):
    def ran(out, *more, code=0):
        given = ["--model", MODEL, "--tasks", TASK, "--data", shapes, "--out", tmp_path / out]
        line = ["eval", *given, "--batch-size", 3, "--quiet", *more]
        assert main([str(one) for one in line]) == code
        return tmp_path / out

    return ran


def scores(out):
    (folder,) = runs_below(out)
    return {name: (folder / name).read_bytes() for name in ("results.json", "scores.jsonl")}


def predicted(out):
    (path,) = out.rglob("manifest.json")
    return set(Run(path.parent).journal.places)


def test_shares_of_several_machines_copied_together_are_the_run(evaluated, tmp_path, capsys):
    whole = evaluated("whole")
    shares = [evaluated(f"machine{part}", "--shard", f"{part}/3") for part in (3, 1, 2)]
    found = [predicted(one) for one in shares]
    assert set.union(*found) == predicted(whole) and sum(map(len, found)) == len(predicted(whole))
    assert all(found) and not any(runs_below(one) for one in shares), "none has a score"
    for one in shares:
        shutil.copytree(one, tmp_path / "together", dirs_exist_ok=True)
    files = sorted((tmp_path / "together").rglob("samples.*.jsonl"))
    assert len(files) == 3
    together = evaluated("together")
    assert sorted(together.rglob("samples.*.jsonl")) == files, "nothing was predicted again"
    assert scores(together) == scores(whole)


def test_the_run_has_the_commit_and_the_seconds_of_each_share(
    evaluated, tmp_path, capsys, monkeypatch
):
    shares = []
    for part in (2, 3, 1):
        code = (f"{part}" * 40, part == 2)
        monkeypatch.setattr("harness.provenance._own_revision", lambda code=code: code)
        shares.append(evaluated(f"machine{part}", "--shard", f"{part}/3"))
    for _ in range(2):  # copied a second time nothing counts twice
        for one in shares:
            shutil.copytree(one, tmp_path / "together", dirs_exist_ok=True)
        capsys.readouterr()
        (path,) = evaluated("together").rglob("timing*.json")
        told = capsys.readouterr().err
        plain = json.loads(path.read_text())
        found = {one["shard"][0]: one for one in plain["attempts"] if "shard" in one}
        assert sorted(found) == [1, 2, 3] and all(one["shard"][1] == 3 for one in found.values())
        for part, one in found.items():
            assert (one["commit"], one["dirty"]) == (f"{part}" * 40, part == 2)
            assert one["samples"] == len(predicted(tmp_path / f"machine{part}"))
            assert f"{part}" * 12 in told
        assert plain["wall_seconds"] == sum(one["wall_seconds"] for one in found.values())


def test_a_share_that_was_lost_is_predicted_by_the_last_command(evaluated, tmp_path):
    shares = [evaluated(f"machine{part}", "--shard", f"{part}/3") for part in (1, 3)]
    for one in shares:
        shutil.copytree(one, tmp_path / "together", dirs_exist_ok=True)
    before = set.union(*map(predicted, shares))
    assert before < predicted(evaluated("together"))
    assert scores(tmp_path / "together") == scores(evaluated("whole"))


def test_shares_of_other_images_are_refused_together(evaluated, shapes, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(shapes / "reason_seg", other / "reason_seg")
    (image,) = other.rglob("val_00000.jpg")
    Image.effect_noise(Image.open(image).size, 9).convert("RGB").save(image)
    shares = [
        evaluated("first", "--shard", "1/2", "--data", other),
        evaluated("second", "--shard", "2/2"),
    ]
    for order in (shares, shares[::-1]):
        for one in order:
            shutil.copytree(one, tmp_path / "together", dirs_exist_ok=True)
        evaluated("together", code=ResumeMismatch.exit_code)
        assert "val_00000.jpg" in capsys.readouterr().err
        shutil.rmtree(tmp_path / "together")


def test_shares_of_different_cuts_lose_nothing_when_copied_together(evaluated, tmp_path):
    shares = [evaluated(f"of{parts}", "--shard", f"1/{parts}") for parts in (2, 3)]
    for one in [evaluated("whole"), *shares]:
        shutil.copytree(one, tmp_path / "together", dirs_exist_ok=True)
    files = {path.name for path in (tmp_path / "together").rglob("samples.*.jsonl")}
    assert len(files) == 3


def test_in_one_folder_one_after_the_other_the_last_share_scores(evaluated, capsys):
    evaluated("here", "--shard", "2/2")
    capsys.readouterr()
    out = evaluated("here", "--shard", "1/2", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["tasks"][TASK]["headline"]
    assert scores(out) == scores(evaluated("whole"))


def test_a_share_is_said_to_be_one(evaluated, capsys):
    evaluated("here", "--shard", "2/3", "--json")
    assert json.loads(capsys.readouterr().out)["tasks"][TASK]["shard"] == [2, 3]


def test_more_shares_than_batches_leave_some_without_work(evaluated):
    assert predicted(evaluated("many", "--shard", "9/9")) == set()


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "-1/3"])
def test_what_is_no_share_is_refused(text, evaluated):
    with pytest.raises(SystemExit) as ended:
        evaluated("here", "--shard", text)
    assert ended.value.code == UsageError.exit_code


def test_a_share_is_one_process(evaluated):
    evaluated("here", "--shard", "1/3", "--workers", "2", code=UsageError.exit_code)
