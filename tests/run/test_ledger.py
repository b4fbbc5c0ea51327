"""Responses that a limit of new tokens cut off: planted ones, counted, and what they may cost."""

import json
from dataclasses import dataclass, replace
from unittest.mock import Mock

import pytest

import harness
from harness import plugins
from harness.backend import Chat
from harness.chat import ChatResponse
from harness.cli.main import main
from harness.leaderboards.board import build
from harness.leaderboards.differences.diff import diff_runs
from harness.leaderboards.gate import check
from harness.leaderboards.render import markdown
from harness.record import Run
from harness.run.batching import samples_of, units
from harness.run.judging import with_judge
from harness.run.ledger import unit_ledger
from harness.run.scoring import score_unit
from harness.scores import Mean
from harness.spec import parse
from harness.summary import values
from harness.types import Failure, FailureKind, GenerationSettings, Parsed, Prediction

READER = "qwen_vl(prompt=visionreasoner,segmenter=box,propagator=still,backend=stored)"
LENGTHS = (3, 5, 7, 9, 11, 13, 15, 60)
"""Words of reasoning before the answer of each sample."""


@dataclass
class Writer(Chat):
    """Writes a prepared text for each question, up to the limit of new tokens, here words."""

    texts: dict[str, str]
    batch_size: int = 4
    coordinates: str = "pixels"

    def describe(self):
        return {"backend": "writer"}

    def generate(self, requests):
        made = []
        for one in requests:
            words = self.texts[one.key].split(" ")
            kept = words[: one.max_new_tokens]
            cut = len(kept) < len(words)
            text, size = " ".join(kept), self.canvas(one)
            made.append(
                ChatResponse(text=text, completion_tokens=len(kept), cut=cut, canvases=(size,))
            )
        return made

    def canvas(self, request):
        return request.media[0].size

    def count_tokens(self, text):
        return len(text.split())


@pytest.fixture(scope="module")
def task(shapes):
    return plugins.build("tasks", parse("reason_seg"), shapes)


def model(task, limit, change=lambda number, text: text):
    """A model that answers with the box of the ground truth, after reasoning of `LENGTHS` words."""
    chat = Writer({})
    made = replace(
        plugins.build("models", parse(READER)),
        name=f"limit-{limit}",
        chat=chat,
        max_new_tokens=limit,
    )
    for number, sample in enumerate(samples_of(task)):
        (text,) = made.write(sample.query, sample.target.answer)
        answer = text[text.index("<answer>") :].replace(" ", "")
        thought = " ".join(["so"] * LENGTHS[number])
        chat.texts[sample.query.id] = change(number, f"<think>{thought}</think> {answer}")
    return made


@pytest.fixture(scope="module")
def runs(task, tmp_path_factory):
    """The same answers under a limit of ten words, of which four are cut off, and without one."""
    out = tmp_path_factory.mktemp("runs")
    return {limit: harness.evaluate(task, model(task, limit), out=out) for limit in (10, 1000)}


def test_the_bounds_hold_the_score_without_the_limit(runs):
    short, whole = (runs[limit].results for limit in (10, 1000))
    ledger = short["ledger"]
    assert whole["ledger"]["cut"] == 0 and whole["ledger"]["if_right"] is None
    assert ledger["cut"] == short["n_failed"] == 4 and ledger["limit"] == 10
    for name in ("gIoU", "cIoU"):
        assert ledger["if_wrong"][name] == short["metrics"][name] < whole["metrics"][name]
        assert whole["metrics"][name] < ledger["if_right"][name] <= 1


@pytest.mark.parametrize("limits", [(10,), (10, 12)])
def test_a_limit_that_the_benchmark_prescribes_is_the_one_on_record(limits, runs, task, tmp_path):
    """It comes before the model's own of 1000, and stands with each request in the journal."""
    given = [
        GenerationSettings(max_new_tokens=limit, temperature=0.5, top_p=0.9, stop=("END",))
        for limit in limits
    ]

    def samples():
        for place, sample in enumerate(task.samples()):
            prescribed = given[place % len(given)]
            yield replace(sample, query=replace(sample.query, generation=prescribed))

    prescribing = replace(task, samples=samples)
    run = harness.evaluate(prescribing, model(task, 1000), out=tmp_path)
    calls = [one.prediction.calls for one in harness.read_samples(run, prescribing)]
    assert {call.request.generation for (call,) in calls} == {*given}
    ledger = run.results["ledger"]
    assert ledger["limit"] == (10 if len(limits) == 1 else None)
    if len(limits) == 1:
        assert ledger["cut"] == 4 and run.results["metrics"] == runs[10].results["metrics"]


def cut_off(sample):
    """A prediction for a sample whose response reached the limit, and has no answer."""
    return Prediction(
        query_id=sample.query.id,
        failure=Failure(FailureKind.PARSE, "cut off"),
        responses=("so",),
        parsed=(Parsed(form=sample.query.form, error="cut off", cut=True),),
    )


@pytest.mark.parametrize(
    "name",
    [
        *("long_video_bench", "mmvu", "mvbench", "reason_vos", "site_bench", "spar_bench"),
        "video_mme",
    ],
)
def test_the_lower_bound_is_one_where_a_scorer_guesses_or_leaves_out(name, shapes):
    """What official code does of a response that it cannot read may be right, or count nowhere."""
    task, bounds = plugins.build("tasks", parse(name), shapes), ([], [])
    for unit in units(samples_of(task)):
        said = list(map(cut_off, unit))
        whole = score_unit(task, unit, said)
        for bound, scores in zip(bounds, unit_ledger(task, unit, said).otherwise[0], strict=True):
            bound.append(replace(whole, scores=scores))
    low, high = (values(task, bound)[task.protocol.headline] for bound in bounds)
    least = -0.68 if name == "site_bench" else 0.0  # less than chance
    assert low == pytest.approx(least, abs=0.005) and high == pytest.approx(1.0)


def test_what_is_left_out_and_has_no_masks_has_no_bound(shapes):
    """A scorer need not take an answer that says nothing."""
    task = plugins.build("tasks", parse("mvbench"), shapes)

    def score(unit, predictions):
        (one,) = predictions
        return {} if one.failure else {"a": Mean(float(one.answer.choice.strip() == "A"))}

    task = replace(task, protocol=replace(task.protocol, score=score))
    unit = next(iter(units(samples_of(task))))
    wrong, right = unit_ledger(task, unit, list(map(cut_off, unit))).otherwise[0]
    assert wrong == {} and right.keys() == {"a"}


@pytest.mark.parametrize(
    "spec",
    [
        "mmvu(protocol=mmvu/judged)",
        "tempcompass(split=captioning,protocol=tempcompass/judged)",
        "v_star",
    ],
)
def test_bounds_ask_no_judge(spec, shapes):
    """Verdicts that are kept are of what was said."""
    task = with_judge(plugins.build("tasks", parse(spec), shapes), Mock(spec=["name"]))
    for unit in units(samples_of(task)):
        assert unit_ledger(task, unit, list(map(cut_off, unit))).otherwise


def test_what_was_cut_is_counted_by_form_and_category(runs, task):
    ledger = runs[10].results["ledger"]
    assert ledger["forms"] == {"mask": {"n": 8, "failed": 4, "cut": 4, "outside": 0, "repaired": 0}}
    cut = [sample.categories["length"] for sample in list(samples_of(task))[4:]]
    found = ledger["categories"]["length"]
    assert {value: one["cut"] for value, one in found.items() if one["cut"]} == {
        value: cut.count(value) for value in cut
    }
    assert sum(one["n"] for one in found.values()) == 8


def test_places_beyond_the_image_and_repairs_are_counted(task, tmp_path):
    def change(number, text):
        if number == 1:
            return text.replace("<answer>", "<answer>```json\n").replace(
                "</answer>", "\n```</answer>"
            )
        if number == 2:
            return "<think>.</think> " + json.dumps(
                [{"bbox_2d": [-1, -1, 30, 40], "point_2d": [20, 20]}]
            ).replace(" ", "").join(["<answer>", "</answer>"])
        return text

    run = harness.evaluate(task, model(task, 1000, change), out=tmp_path)
    ledger = run.results["ledger"]
    assert (ledger["cut"], ledger["outside"], ledger["repaired"]) == (0, 1, 1)
    stored = Run.open(run.folder)
    ids = [sample.id for sample in samples_of(task)]
    assert [stored.prediction(name).parsed[0].outside for name in ids[:4]] == [0, 0, 2, 0]
    assert stored.prediction(ids[1]).parsed[0].repairs == ("code fence",)


def test_the_ledger_is_the_same_when_a_run_is_scored_again(runs, shapes, capsys):
    folder = runs[10].folder
    for given in ((), ("--workers", "2"), ("--model", READER)):
        capsys.readouterr()
        assert main(["score", str(folder), "--data", str(shapes), *given, "--json"]) == 0
        (again,) = json.loads(capsys.readouterr().out)["tasks"].values()
        kept = ("cut", "forms", "categories", "if_wrong", "if_right")
        assert {key: again["ledger"][key] for key in kept} == {
            key: runs[10].results["ledger"][key] for key in kept
        }


def test_boards_mark_the_run_with_its_bounds(runs):
    text = markdown.render(build([run.folder for run in runs.values()]))
    (note,) = (line for line in text.splitlines() if line.startswith("> ¶"))
    assert "limit-10 " in note and "4 of 8" in note
    assert f"{runs[10].results['ledger']['if_right']['gIoU']:.3f}" in note
    rows = [line for line in text.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
    rows = rows[:2]
    assert ["¶" in line for line in rows] == ["limit-10 " in line for line in rows]


def test_the_gate_compares_no_runs_of_other_cut_rates(runs, tmp_path):
    def verdict(before, after, **given):
        (one,) = check(runs[before].folder, runs[after].folder, **given).verdicts
        return one

    for before, after in ((10, 1000), (1000, 10)):
        refused = verdict(before, after)
        assert not refused.is_passed and refused.comparison is None
        assert "max-cut" in refused.failures[0] and "4 of 8" in refused.failures[0]
    assert verdict(10, 1000, max_cut=0.5).comparison is not None
    assert verdict(10, 10).is_passed


def test_the_difference_of_the_two_runs_is_explained_by_the_limit(runs, shapes):
    made = diff_runs(*(Run.open(runs[limit].folder) for limit in (1000, 10)), data_root=shapes)
    (step,) = made.steps
    assert step.name == "responses: limit" and step.samples == 4
    assert step.details == ("4 of 8 samples have another response", "max_new_tokens: 1000 → 10")
    assert made.first + step.points == pytest.approx(made.second, abs=1e-12)
    assert step.points == pytest.approx(
        runs[10].results["metrics"]["gIoU"] - runs[1000].results["metrics"]["gIoU"], abs=1e-12
    )
