"""A budget: the run stops with its work kept, says what is left, and goes on to the same bytes."""

import re
from contextlib import suppress

import pytest

import harness
from harness import plugins
from harness.cli.main import main
from harness.errors import BudgetReached, HarnessError, UsageError
from harness.record import Run
from harness.run.budget import Budget, budget
from harness.run.piloted import PilotedRun
from harness.spec import parse

from .test_pilot import Scripted, evaluated, scores, serving, talker

STOPPED = BudgetReached.exit_code
TOKENS = 16
"""Tokens of a response of `Scripted`."""


@pytest.mark.parametrize(
    ("text", "seconds", "money"),
    [
        ("2h", 7200, None),
        ("90min", 5400, None),
        ("0.5 s", 0.5, None),
        ("5$", None, 5),
        ("$5", None, 5),
        ("0.25EUR", None, 0.25),
        (" 3 € ", None, 3),
    ],
)
def test_a_budget_is_a_time_or_a_sum(text, seconds, money):
    limit = budget(text)
    assert (limit.seconds, limit.money) == (seconds, money)


@pytest.mark.parametrize(
    "text", ["", "5", "0h", "-2h", "$0", "2 hours", "1e9h", "nan$", "infs", "2h 5$", "5usd", "٣h"]
)
def test_an_odd_budget_is_refused_with_what_to_type(text, tmp_path, capsys):
    with pytest.raises(UsageError, match=r"2h, 90min or 45s.*5\$ or 0\.5EUR"):
        budget(text)
    line = ["eval", "--model", "m", "--tasks", "t", "--data", str(tmp_path), f"--budget={text}"]
    assert main([*line, "--out", str(tmp_path / "out")]) == UsageError.exit_code
    assert "2h" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_sum_that_the_shell_took_is_explained():
    with pytest.raises(UsageError, match=re.escape("'$5'")):
        budget("")


def test_money_without_prices_is_refused_before_anything_is_predicted(dots, tmp_path, capsys):
    folder = tmp_path / "out"
    line = ["eval", "--model", "dot_finder", "--tasks", "dots", "--data", dots, "--out", folder]
    assert main([str(word) for word in [*line, "--budget", "5$"]]) == UsageError.exit_code
    told = capsys.readouterr().err
    assert "prompt_price=" in told and "completion_price=" in told
    assert not list(folder.rglob("samples.*"))


@pytest.fixture
def clock(monkeypatch):
    """A clock of budgets that stands still, and goes on by what a test adds to it."""
    moment = [0.0]
    monkeypatch.setattr("harness.run.budget.perf_counter", lambda: moment[0])
    return moment


@pytest.mark.parametrize("model", ["dot_finder", "dot_talker"])
def test_a_run_stops_when_its_time_is_over_and_goes_on_to_the_same_bytes(
    dots, tmp_path, capsys, clock, monkeypatch, model
):
    from toys import DotFinder

    plain = evaluated(model, "dots", dots, tmp_path / "plain")
    answer = DotFinder.answer

    def slow(self, query):
        clock[0] += 1.0
        return answer(self, query)

    monkeypatch.setattr(DotFinder, "answer", slow)
    # Answered samples are kept when the time is over: few may wait while the machine is busy.
    monkeypatch.setattr("harness.run.pipeline.MAX_ANSWERED", 2)
    done = 0
    for _ in range(2):
        began = clock[0]
        monkeypatch.setattr(
            "harness.cli.arguments.scores.budget",
            lambda text, began=began: Budget(text=text, seconds=12.0, began=began),
        )
        capsys.readouterr()
        folder = evaluated(model, "dots", dots, tmp_path / "out", "--budget", "12s", code=STOPPED)
        told = capsys.readouterr().err
        places = Run(folder).journal.places
        new, done = len(places) - done, len(places)
        assert 12 <= new <= 12 + 4 and not Run(folder).is_finished
        assert f"keeps {new} samples" in told and f"{40 - done} samples left" in told
        assert "harness eval --model" in told, "the command that goes on"
    assert scores(evaluated(model, "dots", dots, tmp_path / "out")) == scores(plain)


def test_time_that_is_over_before_the_first_sample_ends_as_a_budget(
    dots, tmp_path, capsys, clock, monkeypatch
):
    begin = PilotedRun._begin

    def slow(run):
        clock[0] += 20.0
        begin(run)

    monkeypatch.setattr(PilotedRun, "_begin", slow)
    monkeypatch.setattr(
        "harness.cli.arguments.scores.budget",
        lambda text: Budget(text=text, seconds=12.0, began=clock[0]),
    )
    evaluated("dot_finder", "dots", dots, tmp_path / "out", "--budget", "12s", code=STOPPED)
    assert "keeps 0 samples" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--workers", 2)])
def test_money_is_spent_to_the_last_sample_that_it_pays(dots, tmp_path, capsys, more):
    """Of 40 samples at 16 tokens of 0.01 $, 3 $ pay 18: 18 × 0.16 = 2.88."""
    with serving(Scripted()) as served:
        model = talker(served, prompt_price=0.0, completion_price=10_000.0)
        unread = {"code": 1}  # the server's texts are not answers
        plain = evaluated(model, "dots", dots, tmp_path / "plain", *more, **unread)
        cost = Run.open(plain).results["cost"]
        assert cost == pytest.approx(40 * TOKENS * 0.01)
        before = len(served.asked)
        capsys.readouterr()
        out = tmp_path / "out"
        folder = evaluated(model, "dots", dots, out, "--budget", "3$", *more, code=STOPPED)
        assert len(served.asked) - before == 18 == len(Run(folder).journal.places)
        told = capsys.readouterr().err
        assert "about 10 of them" in told, "8 were predicted: 3 - 8 × 0.16 = 1.72 = 10 × 0.16 + …"
        assert "5.12 $" in told, "32 × 0.16, after the pilot"
        assert "3.52 $" in told, "22 × 0.16, at the end"
        evaluated(model, "dots", dots, out, "--budget", "9$", *more, **unread)
        assert len(served.asked) == before + 40
    assert scores(folder) == scores(plain)


def test_runs_of_a_command_share_its_budget(dots, tmp_path, capsys):
    with serving(Scripted()) as served:
        model = talker(served, prompt_price=0.0, completion_price=10_000.0)
        given = ["dots,dots(pair=true)", dots, tmp_path / "out", "--budget", "8$"]
        line = ["eval", "--model", model, "--quiet", "--tasks", given[0], "--data", dots]
        line += ["--out", tmp_path / "out", "--budget", "8$"]
        assert main([str(word) for word in line]) == STOPPED
        assert len(served.asked) == 50, "8 / 0.16"


def test_python_is_told_as_well(dots, tmp_path):
    with serving(Scripted()) as served:
        model = talker(served, prompt_price=0.0, completion_price=10_000.0)
        task = harness.load_task("dots", data=dots)
        out = tmp_path / "out"
        with pytest.raises(BudgetReached, match=r"budget 3\$"):
            harness.evaluate(task, model, out=out, budget="3$")
        assert harness.evaluate(task, model, out=out, pilot=4).is_finished
        assert len(served.asked) == 40


def test_what_a_judge_costs_is_its_tokens_at_its_prices():
    with serving(Scripted()) as served:
        backend = (
            f"openai(base_url='{served.url}',model=served,coordinates=pixels,"
            "prompt_price=0,completion_price=10000)"
        )
        judge = plugins.build("judges", parse(f"chat(backend={backend})"))
        assert judge.cost == 0
        with suppress(HarnessError):  # the response holds no grade
            judge.judge("same_meaning", "question", "answer", "ground truth")
        assert judge.cost == pytest.approx(TOKENS * 0.01)
