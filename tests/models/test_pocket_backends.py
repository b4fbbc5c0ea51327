"""pocket in process, behind a server, and by its stored responses: `harness eval` scores
the same.
"""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness import plugins
from harness.cli.main import main
from harness.models.backends.transformers import transformers
from harness.record import Run, runs_below
from harness.spec import Spec

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import Scripted, serving

VIDEOS = ("mevis",)
TASKS = ("reason_seg", "counting", *VIDEOS)  # images, numbers, and a video
PERCEPTION = "segmenter=box,propagator=still"
NETWORK = {"checkpoint": "pocket", "dtype": "float32", "device": "cpu"}
IN_PROCESS = "transformers(dtype=float32,device=cpu)"
FEW = ",max_new_tokens=24"
"""With which responses about videos are cut off before their answer."""


def evaluated(data, out, model, tasks=TASKS):
    """The runs of `harness eval` with a model on two samples of each task, by task."""
    requested = [
        "eval",
        "--model",
        model,
        "--tasks",
        ",".join(tasks),
        "--data",
        data,
        "--out",
        out,
        "--subset",
        "first2",
        "--quiet",
    ]
    assert main([str(one) for one in requested]) <= 1  # 1: one of the tasks has no answer
    runs = [Run.open(folder) for folder in runs_below(out)]
    by_task = {run.results["task"]: run for run in runs}
    assert set(by_task) == set(tasks)
    return by_task


def served_model(url, *, server="vllm", clips="video", more=""):
    backend = f"openai(model=served,base_url={url},server={server},clips={clips})"
    return f"pocket({PERCEPTION},backend={backend}{more})"


def notes(runs):
    """What predictions note, by task and query."""
    return {
        (name, one): run.journal.record(one)["prediction"].get("notes", [])
        for name, run in runs.items()
        for one in run.journal.places
    }


def said(data, runs, file):
    """The responses of runs in the form of a predictions file, under the benchmarks' own ids."""
    rows = []
    for name, run in runs.items():
        for sample in plugins.build("tasks", Spec(name), data).samples():
            if sample.query.id in run.journal.places:
                responses = list(run.prediction(sample.id).responses)
                rows.append(json.dumps({"id": sample.id, "response": responses}) + "\n")
    file.write_text("".join(rows), encoding="utf-8")
    return file


SCORES = ("metrics", "intervals", "breakdowns", "n_total", "n_scored", "n_failed", "failures")


def assert_same_scores(runs, others):
    for name in runs:
        for part in SCORES:
            assert runs[name].results[part] == others[name].results[part], (name, part)
        scores = [(one[name].folder / "scores.jsonl").read_bytes() for one in (runs, others)]
        assert scores[0] == scores[1], name


@pytest.fixture(scope="module")
def here(shapes, tmp_path_factory):
    out = tmp_path_factory.mktemp("here") / "runs"
    return evaluated(shapes, out, f"pocket({PERCEPTION},backend={IN_PROCESS})")


def test_behind_a_server_the_scores_are_the_same(shapes, here, tmp_path):
    with serving(transformers(**NETWORK)) as served:
        there = evaluated(shapes, tmp_path / "runs", served_model(served.url))
    assert_same_scores(here, there)
    assert len(served.asked) == sum(run.results["n_total"] for run in here.values())
    for name, run in here.items():
        assert run.results["usage"] == there[name].results["usage"]
    assert any(run.results["n_scored"] for run in here.values()), "nothing was answered"


def test_replayed_from_its_responses_the_scores_are_the_same(shapes, here, tmp_path):
    file = said(shapes, here, tmp_path / "said.jsonl")
    reader = f"pocket({PERCEPTION},backend=stored)"
    assert_same_scores(
        here, evaluated(shapes, tmp_path / "runs", f"replay(file={file},model={reader})")
    )


def test_second_tries_are_the_same_behind_a_server_that_goes_on_from_a_beginning(shapes, tmp_path):
    model = f"pocket({PERCEPTION},backend={IN_PROCESS}{FEW})"
    few = evaluated(shapes, tmp_path / "here", model, VIDEOS)
    with serving(transformers(**NETWORK)) as served:
        there = evaluated(shapes, tmp_path / "there", served_model(served.url, more=FEW), VIDEOS)
    assert_same_scores(few, there)
    assert notes(few) == notes(there)
    again = [
        note for info in notes(few).values() for note in info if note.startswith("asked again")
    ]
    assert any("to no avail" not in note for note in again), "no second response was read"
    assert len(served.asked) == len(notes(few)) + len(again)
    assert all(second_tries(run) for run in (*few.values(), *there.values()))
    with serving(transformers(**NETWORK)) as served:
        model = served_model(served.url, server="plain", clips="images", more=FEW)
        plain = evaluated(shapes, tmp_path / "plain", model, VIDEOS)
    assert len(served.asked) == len(notes(plain))
    assert not any(second_tries(run) for run in plain.values()), "the record says what is not done"
    assert plain["mevis"].results["n_failed"] > few["mevis"].results["n_failed"]


def second_tries(run):
    return run.manifest["model"]["description"].get("retry", False)


def test_a_server_that_does_not_look_at_its_requests_has_other_scores(shapes, here, tmp_path):
    blind = Scripted(ignores=frozenset({"text", "media", "system", "prefix", "limit"}))
    with serving(blind) as served:
        there = evaluated(shapes, tmp_path / "runs", served_model(served.url))
    with pytest.raises(AssertionError):
        assert_same_scores(here, there)
