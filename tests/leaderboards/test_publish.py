"""Publications: scored again elsewhere to the same numbers; an edited one is refused by name."""

import json
import shutil

import pytest
import yaml

from harness.cli.main import main
from harness.leaderboards.publish import PUBLICATION, check, check_chain
from harness.store import checksums

DATA = "counting"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Data and runs of a task that is really installed."""
    base = tmp_path_factory.mktemp("finished")
    data, runs = str(base / "data"), str(base / "runs")
    assert main(["data", "make", "shapes", "--out", data, "--size", "6", "--tasks", DATA]) == 0
    line = ["eval", "--model", "random", "--tasks", DATA, "--data", data, "--out", runs]
    assert main([*line, "--quiet"]) == 0
    return base


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    """A copy of the finished run."""
    monkeypatch.undo()  # the toy tasks of this folder
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs" / "random" / DATA


@pytest.fixture
def published(run, tmp_path):
    place = tmp_path / "elsewhere" / "submissions"
    assert main(["publish", str(run.parent), "--out", str(place)]) == 0
    data = shutil.move(tmp_path / "data", tmp_path / "elsewhere" / "data")
    shutil.rmtree(tmp_path / "runs")
    return place / DATA, data


def test_a_publication_scores_to_the_same_numbers_elsewhere(published, tmp_path, capsys):
    place, data = published
    (found,) = check([place.parent], data)
    assert found.faults == ()
    assert "random on counting pixmo_val by count/exact: accuracy" in found.name
    assert found.head == check_chain(place) == json.loads((place / PUBLICATION).read_text())["head"]
    assert str(tmp_path / "data") not in (place / "manifest.json").read_text()
    capsys.readouterr()
    assert main(["publish", "--check", str(place), "--data", str(data)]) == 0
    assert capsys.readouterr().out.startswith("✓ ")


FILES = ("manifest.json", "results.json", "scores.jsonl", "samples.0.1.jsonl", "checksums.json")


@pytest.mark.parametrize("name", FILES)
def test_an_edited_publication_is_refused_by_name(published, name):
    place, data = published
    content = (place / name).read_text()
    (place / name).write_text(content.replace("0", "1", 1))
    (found,) = check([place], data)
    assert len(found.faults) == 1 and f"{name}: " in found.faults[0] and "edited" in found.faults[0]


def test_lost_added_and_foreign_files_are_refused_by_name(published):
    place, data = published
    (place / "extra.txt").write_text("x")
    assert "extra.txt" in check([place], data)[0].faults[0]
    (place / "extra.txt").unlink()
    (place / "scores.jsonl").unlink()
    assert "scores.jsonl" in check([place], data)[0].faults[0]
    (place / PUBLICATION).write_text('{"version": 1, "chain": [[]]}')
    assert PUBLICATION in check([place], data)[0].faults[0]


def test_who_computes_all_hashes_anew_is_found_by_the_scores_or_by_the_head(published, capsys):
    place, data = published
    head = check_chain(place)
    results = json.loads((place / "results.json").read_text())
    results["metrics"]["accuracy"] = 0.99
    (place / "results.json").write_text(json.dumps(results))
    names = ("manifest.json", "results.json", "scores.jsonl")
    checksums.write(place, {name: (place / name).read_bytes() for name in names})
    from harness.leaderboards.publish import _chain

    chain = _chain(place)
    (place / PUBLICATION).write_text(
        json.dumps({"version": 1, "chain": chain, "head": chain[-1][1]})
    )
    (found,) = check([place], data)
    assert any("accuracy" in fault and "0.99" in fault for fault in found.faults)
    line = ["publish", "--check", str(place), "--data", str(data), "--head", head]
    assert main(line) == 1
    assert "quoted" in capsys.readouterr().out


def test_a_baseline_without_predictions_and_a_folder_that_exists_are_refused(run, tmp_path):
    assert main(["board", "keep", "--runs", str(run), "--out", str(tmp_path / "kept")]) == 0
    assert main(["publish", str(tmp_path / "kept"), "--out", str(tmp_path / "no")]) == 5
    for code in (0, 5):
        assert main(["publish", str(run), "--out", str(tmp_path / "twice")]) == code
    assert main(["publish", "--out", str(tmp_path)]) == 2


def test_the_workflow_re_scores_in_a_plain_shell(published, process, tmp_path):
    place, _ = published
    assert main(["publish", "--workflow", str(tmp_path / "rescore.yml")]) == 0
    workflow = yaml.safe_load((tmp_path / "rescore.yml").read_text())
    steps = [one["run"] for one in workflow["jobs"]["re-score"]["steps"] if "run" in one]
    program, *words = steps[-1].split()
    assert program == "harness"
    process.folder = place.parent.parent
    done = process(*words)
    assert done.returncode == 0 and f"{place.name}" in done.stdout, done.stderr


def test_samples_are_listed_the_worst_first(run, capsys):
    assert main(["runs", "samples", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    scores = [one["score"] for one in found]
    assert len(found) == 6 and scores == sorted(scores)
    assert main(["runs", "samples", str(run), "--sort=-score", "--limit", "2"]) == 0
    best = capsys.readouterr().out.splitlines()
    assert best[0].split()[:3] == ["accuracy", "sample", "question"] and "How many" in best[1]
    assert best[1].split()[0] == f"{max(scores):.4f}" and best[-1].startswith("next: harness expl")
    assert main(["runs", "samples", str(run), "--metric", "MAE", "--json"]) == 0
    errors = [one["score"] for one in json.loads(capsys.readouterr().out)]
    assert errors == sorted(errors, reverse=True)
    assert main(["runs", "samples", str(run), "--metric", "gIoU"]) == 2
    assert main(["runs", "samples", str(run), "--failed", "--json"]) == 0
