"""`harness score RUN --protocols all`: one run's predictions by every protocol of its benchmark."""

import json

import pytest

from harness import plugins
from harness.catalog.task_facts import protocol_facts
from harness.cli.main import main
from harness.errors import StoreError
from harness.leaderboards.board import build
from harness.leaderboards.differences import bracket
from harness.leaderboards.render import markdown
from harness.leaderboards.runs import open_runs
from harness.record import Run
from harness.run.batching import samples_of
from harness.spec import parse

NAMES = ["seg/lisa", "seg/lisa@cv4.11", "seg/visionreasoner", "seg/segzero"]


def evaluate(shapes, out, task):
    given = ["--data", str(shapes), "--out", str(out), "--quiet"]
    assert main(["eval", "--model", "whole_frame", "--tasks", task, *given]) == 0
    (manifest,) = out.rglob("manifest.json")
    return Run.open(manifest.parent)


@pytest.fixture
def run(shapes, tmp_path):
    return evaluate(shapes, tmp_path / "run", "reason_seg")


def bracketed(capsys, *given, code=0):
    capsys.readouterr()
    assert main(["score", *map(str, given), "--json"]) == code
    ((one,), *_) = [json.loads(capsys.readouterr().out)]
    return {found["protocol"]: found for found in one["protocols"]}


def test_each_number_is_that_of_a_run_by_that_protocol(run, shapes, tmp_path, capsys):
    found = bracketed(capsys, run.folder, "--protocols", "all")
    assert list(found) == NAMES
    for number, name in enumerate(NAMES):
        direct = evaluate(shapes, tmp_path / str(number), f"reason_seg(protocol={name})").results
        assert found[name]["metrics"] == direct["metrics"]
        assert found[name]["interval"] == direct["intervals"][direct["headline"]]
        assert found[name]["n_failed"] == direct["n_failed"]
    assert found["seg/lisa"]["value"] != found["seg/visionreasoner"]["value"]
    assert any("DR2Seg" in paper for paper in found["seg/visionreasoner"]["papers"])


def test_boards_show_the_bracket_until_the_predictions_are_others(run, capsys):
    assert "every protocol" not in markdown.render(build(run.folder))
    found = bracketed(capsys, run.folder, "--protocols", "all")
    assert not open_runs(run.folder)[0].check_files()  # its hash is kept
    board = build(run.folder)
    (entry,) = board.tables[0].entries
    assert [one.value for one in entry.protocols] == [one["value"] for one in found.values()]
    text = markdown.render(board)
    for name, one in found.items():
        assert name in text and f"{one['value']:.3f}" in text
    path = run.folder / "protocols.json"
    plain = json.loads(path.read_text())
    plain["journal"] = dict.fromkeys(plain["journal"], "0" * 32)
    path.write_text(json.dumps(plain))
    assert bracket.read(run.folder) == ()
    with pytest.raises(StoreError, match=r"protocols\.json"):
        build(run.folder)


def test_a_protocol_that_does_not_apply_says_why(shapes, tmp_path, capsys):
    samples = samples_of(plugins.build("tasks", parse("vsi_bench"), shapes))
    rows = ({"id": one.id, "answer": "A" if one.query.options else 3} for one in samples)
    lines = map(json.dumps, rows)
    (tmp_path / "mine.jsonl").write_text("".join(f"{line}\n" for line in lines))
    given = ["--predictions", str(tmp_path / "mine.jsonl"), "--out", str(tmp_path / "run")]
    assert main(["score", "--tasks", "vsi_bench", "--data", str(shapes), *given]) == 0
    (manifest,) = tmp_path.rglob("manifest.json")
    run = Run.open(manifest.parent)
    found = bracketed(capsys, run.folder, "--protocols", "all")
    assert (
        found["vsi/numeric"]["value"] is None and "form=numeric" in found["vsi/numeric"]["reason"]
    )
    assert found["vsi/official"]["value"] == run.results["metrics"][run.results["headline"]]


def test_names_are_checked_and_only_all_of_them_are_left_in_the_run(run, capsys):
    assert list(bracketed(capsys, run.folder, "--protocols", "seg/segzero")) == [
        "seg/lisa",
        "seg/segzero",
    ]
    assert not (run.folder / "protocols.json").exists()
    assert main(["score", str(run.folder), "--protocols", "seg/zero"]) == 2
    assert main(["score", str(run.folder), "--protocols", "all", "--tasks", "mevis"]) == 2
    assert main(["score", "--protocols", "all"]) == 2


def test_protocols_of_a_task_without_a_card_are_those_of_its_module(run, capsys, monkeypatch):
    monkeypatch.setattr("harness.plugins.find_card", lambda task: None)
    scores = bracketed(capsys, run.folder, "--protocols", "all")
    assert set(NAMES) == {*scores}
    assert all(score["value"] is not None for score in scores.values())
    assert scores["seg/lisa"]["about"]


def test_a_task_without_a_card_is_shown_with_the_protocols_of_its_module():
    facts = protocol_facts(plugins.installed_plugins("tasks")["sti_bench"])
    assert (facts["protocol"], facts["headline"]) == ("sti/official", "accuracy")
    assert "sti/numeric" in facts["protocols"]
