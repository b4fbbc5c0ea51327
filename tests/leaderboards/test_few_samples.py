"""A gate that cannot see the drop it tolerates, and runs without an answer, are not equal."""

from argparse import Namespace

import pytest

import harness
from harness.cli.main import main
from harness.cli.waterfall import show
from harness.errors import DataError, UsageError
from harness.leaderboards.board import build
from harness.leaderboards.differences.diff import Difference, diff_runs
from harness.leaderboards.gate import check
from harness.leaderboards.gate_formats import badge, markdown
from harness.leaderboards.site.index import static
from harness.leaderboards.site.pairs import pairs
from harness.record import Run
from harness.statistics.text import ALONE, p_value


@pytest.fixture
def of_images(make_run, rewrite):
    """Write a run on the first images, of two questions each."""

    def make(name, images, **given):
        def cut(units):
            del units[2 * images :]

        run = make_run(name, **given)
        return rewrite(run, cut, n_total=2 * images, n_scored=2 * images)

    return make


@pytest.mark.parametrize(("images", "mark"), [(5, "?"), (6, "✓")])
def test_equal_runs_pass_with_a_tick_only_where_a_drop_could_fail(images, mark, of_images):
    run = of_images("a", images)
    report = check(run, run)
    assert report.is_passed
    assert f"  {mark} disc_seg val" in report.text()
    assert ("6 are needed" in report.text()) == (mark == "?")
    assert ("1 inconclusive" in report.text().splitlines()[0]) == (mark == "?")
    strict = check(run, run, fail_on_inconclusive=True)
    assert strict.is_passed == (mark == "✓") and f"  {mark} disc_seg val" in strict.text()
    headline = strict.text().splitlines()[0]
    assert headline.startswith("FAILED  the task is inconclusive:") == (mark == "?")
    assert "--fail-on-inconclusive" in strict.text() and strict.false_alarms is None
    assert "--fail-on-inconclusive" not in report.text() and report.false_alarms == 0
    assert f"| {mark} |" in markdown(report)
    assert badge(report)[1] == ("too few samples, 1 of 1 task" if mark == "?" else "passed, 1 task")
    assert bool(report.to_json()["tasks"][0]["inconclusive"]) == (mark == "?")


def test_a_drop_of_the_limit_that_would_not_be_shown_has_a_question_mark(make_run):
    baseline, candidate = make_run("a"), make_run("b", seed=3)
    (verdict,) = check(baseline, candidate).verdicts
    size = verdict.comparison.smallest_shown()
    assert verdict.is_passed and size > 0.02 and verdict.inconclusive and not verdict.is_blind
    assert not check(baseline, candidate, max_drop=size).verdicts[0].inconclusive
    assert "  ? disc_seg val" in check(baseline, candidate).text()
    assert badge(check(baseline, candidate))[1] == "passed, 1 of 1 task inconclusive"
    assert badge(check(baseline, candidate, max_drop=size))[1] == "passed, 1 task"
    assert "  ✓ disc_seg val" in check(baseline, candidate, max_drop=size).text()


@pytest.mark.parametrize(("images", "tasks", "warned"), [(6, 1, False), (5, 1, True), (6, 2, True)])
def test_keeping_a_baseline_that_can_never_fail_says_how_many_samples_are_needed(
    images, tasks, warned, of_images, make_run, tmp_path, capsys
):
    runs = tmp_path / "runs"
    runs.mkdir()
    of_images("a", images).rename(runs / "seg")
    if tasks == 2:
        make_run("v", task="disc_video").rename(runs / "video")
    assert main(["board", "keep", "--runs", str(runs), "--out", str(tmp_path / "kept")]) == 0
    printed = capsys.readouterr().err
    needed = 5 + tasks
    words = f"disc_seg val alone: it has {images} images or videos, {needed} are needed"
    assert (words in printed) == warned


def test_runs_without_any_answer_are_not_compared(make_run, capsys):
    every = range(1000)
    failed = [make_run(name, failing=every) for name in "ab"]
    assert all(Run.open(folder).results["n_scored"] == 0 for folder in failed)
    with pytest.raises(DataError, match="nothing is compared"):
        diff_runs(*map(Run.open, failed))
    assert main(["diff", *map(str, failed)]) == DataError.exit_code
    assert "nothing is compared" in capsys.readouterr().err
    report = check(*failed)
    assert not report.is_passed and "neither run answered any of 40 samples" in report.text()
    with pytest.raises(UsageError, match="neither run answered"):
        harness.compare(*failed)


def test_a_run_with_answers_is_compared_with_one_that_has_none(make_run):
    one, none = make_run("a"), make_run("b", failing=range(1000))
    report = check(one, none)
    assert not report.is_passed and "nothing" not in report.text().partition("changed")[0]
    assert check(none, one).is_passed


def test_diff_and_the_compare_page_say_the_same_of_several_comparisons(make_run, capsys):
    comparison = harness.compare(make_run("a"), make_run("b", seed=3))
    difference = Difference(
        a="a",
        b="b",
        task="disc_seg val",
        headline="giou",
        first=comparison.a,
        second=comparison.b,
        n_samples=1,
        steps=(),
        comparison=comparison,
    )
    show(difference, Namespace(json=False, out=None), {})
    text = " ".join(capsys.readouterr().out.split())
    assert comparison.verdict("b") in text and ALONE in text and "1 sample:" in text
    assert text.count(p_value(comparison.p_value)) == 1
    assert ALONE in static("site.js").decode()


def test_what_samples_would_show_is_one_sentence_everywhere(make_run):
    """In the gate it has one number, which only several tasks make larger, and say so."""
    a, b = make_run("a"), make_run("b", seed=3)
    said = harness.compare(a, b).verdict()
    assert "would show a difference of" in said
    text = check(a, b).text()
    assert said in text and text.count(" of cases") == 2  # the other is the rate of false alarms
    table = build([a, b]).tables[0]
    assert said in {pair["verdict"] for pair in pairs(table).values()}
    both = check([a, make_run("v", task="disc_video")], [b, make_run("w", task="disc_video")])
    assert "(corrected for 2 tasks)" in both.verdicts[0].sentence


def test_the_gate_fails_on_request_where_a_drop_may_be_hidden(make_run, tmp_path, capsys):
    baseline, candidate = str(make_run("a")), str(make_run("b", seed=3))
    typed = ["board", "check", "--baseline", baseline, "--candidate", candidate]
    xml = tmp_path / "gate.xml"
    assert main(typed) == 0
    assert main([*typed, "--fail-on-inconclusive", "--format", f"junit={xml}"]) == 1
    assert 'failures="1"' in xml.read_text() and 'message="inconclusive: ' in xml.read_text()
    assert main([*typed, "--fail-on-inconclusive", "--max-drop", "0.9"]) == 0
