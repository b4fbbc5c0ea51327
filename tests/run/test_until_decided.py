"""`harness eval --against RUN --until-decided`: stops early, leaves no score, goes on later."""

import json
import shutil
from itertools import pairwise

import pytest

import harness
from harness.cli.main import main
from harness.record import Run
from harness.run.batching import shuffled

from .conftest import TOYS

IMAGES = 240  # 60 groups of 4: fewer decide nothing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with `data`, and in `before` a run of dot_finder on them; to be read only."""
    base = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(TOYS))
        import toys as package

        line = ["eval", "--model", "dot_finder", "--tasks", "dots", "--quiet"]
        data = package.write_dots(base / "data", IMAGES)
        assert main([*line, "--data", str(data), "--out", str(base / "before")]) == 0
    return base


@pytest.fixture
def many(made):
    return made / "data"


@pytest.fixture
def evaluate(many, tmp_path, capsys):
    def run(model, *options, out="runs", code=0):
        line = ["eval", "--model", model, "--tasks", "dots", "--data", many, "--quiet"]
        assert main([str(one) for one in (*line, "--out", tmp_path / out, *options)]) == code
        return capsys.readouterr().err

    return run


@pytest.fixture
def before(made):
    """The folder of the run to compare with."""
    return folder(made, "before")


def folder(base, out):
    (found,) = (path.parent for path in (base / out).rglob("manifest.json"))
    return found


def test_a_worse_model_is_stopped_without_a_score_and_may_go_on(evaluate, before, tmp_path):
    base, against = tmp_path, ("--against", before)
    worse = "dot_finder(fault=raise,every=2)"
    done = evaluate(worse, *against, "--until-decided", out="after", code=1)
    assert "worse" in done and "not finished" in done
    run = Run.open(folder(base, "after"))
    decision = json.loads((run.folder / "decision.json").read_text())
    assert decision["decision"] == "worse" and decision["groups_total"] == 60
    assert decision["samples"] == 4 * decision["groups"] < IMAGES / 2
    assert not run.is_finished and decision["samples"] <= len(run.journal.places) < IMAGES
    answered = set(run.journal.places)
    again = evaluate(worse, *against, "--until-decided", out="after", code=1)
    assert f"after {decision['groups']} of 60" in again
    assert set(Run.open(run.folder).journal.places) == answered
    evaluate(worse, *against, out="after")
    finished = Run.open(run.folder)
    assert finished.results["n_total"] == IMAGES and not finished.journal.places.keys() < answered
    assert finished.results["metrics"] == plain_results(evaluate, base, worse)["metrics"]


def plain_results(evaluate, base, model):
    evaluate(model, out="plain")
    return Run.open(folder(base, "plain")).results


def test_a_whole_run_beside_a_baseline_ends_with_the_sentence_of_the_comparison(
    many, before, tmp_path, capsys
):
    line = ["eval", "--model", "dot_finder(fault=raise,every=2)", "--tasks", "dots", "--quiet"]
    line += ["--data", str(many), "--out", str(tmp_path / "after"), "--against", str(before)]
    assert main(line) == 0
    after = folder(tmp_path, "after")
    name = Run.open(after).manifest["model"]["name"]
    sentence = harness.compare(before, after).verdict(name)
    assert sentence.startswith(f"{name} is worse by")
    assert sentence in " ".join(capsys.readouterr().out.split())


def test_the_same_model_is_found_not_worse(evaluate, before, tmp_path):
    against = ("--against", before, "--until-decided")
    done = evaluate("dot_finder", *against, "--margin", "0.3", out="after")
    assert "not worse by 0.3" in done
    undecided = evaluate("dot_finder", *against, "--margin", "0.001", out="whole")
    assert "not decided after 60 of 60" in undecided
    assert Run.open(folder(tmp_path, "whole")).is_finished


def test_what_cannot_be_compared_is_refused_before_anything_is_predicted(
    evaluate, before, tmp_path
):
    run = str(before)
    for options, words, code in (
        (("--until-decided",), "--against", 2),
        (("--against", run, "--margin", "0"), "--margin", 2),
        (("--against", run, "--subset", "first8"), "first8", 2),
        (("--against", run, "--model", "dot_talker"), "2 pairs", 2),
        (("--against", "nowhere"), "nowhere", 5),
    ):
        assert words in evaluate("dot_finder", *options, out="after", code=code)
        assert not (tmp_path / "after").exists()


def test_a_run_of_other_data_is_refused(evaluate, before, tmp_path, many):
    fewer = shutil.copytree(many, tmp_path / "fewer")
    (fewer / "dots" / f"{IMAGES - 1:04d}.png").unlink()
    line = ("--against", before, "--data", fewer)
    assert "fingerprint" in evaluate("dot_finder", *line, out="after", code=3)


def test_groups_are_drawn_whole_and_their_samples_keep_their_order(many):
    import toys as package

    task = package.dots(many)
    plain, drawn = list(task.samples()), shuffled(task.samples(), 3)
    assert sorted(one.id for one in drawn) == sorted(one.id for one in plain)
    assert [one.id for one in drawn] != [one.id for one in plain]
    places = [one.group for one in drawn]
    assert sum(a != b for a, b in pairwise(places)) == 59
    for group in set(places):
        assert [one.id for one in drawn if one.group == group] == [
            one.id for one in plain if one.group == group
        ]
    assert [one.id for one in shuffled(task.samples(), 3)] == [one.id for one in drawn]
