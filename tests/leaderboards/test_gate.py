import json

import pytest

from harness.errors import StoreError, UsageError
from harness.leaderboards.gate import check


def scores_of(folder):
    return [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]


def rescore(folder, change, *, metric="giou"):
    """Change each unit's value of a metric, and the recorded number with it."""
    units = scores_of(folder)
    for index, unit in enumerate(units):
        unit["scores"][metric][0] = change(index, unit["scores"][metric][0])
    (folder / "scores.jsonl").write_text("".join(json.dumps(u) + "\n" for u in units))
    results = json.loads((folder / "results.json").read_text())
    results["metrics"][metric] = sum(u["scores"][metric][0] for u in units) / len(units)
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_the_same_run_passes(make_run):
    folder = make_run("a")
    report = check(folder, folder)
    assert report.passed
    verdict = report.verdicts[0]
    assert verdict.change == 0
    assert verdict.comparison.interval == (0, 0)
    assert "the runs score alike on all of 20 groups (40 units)" in report.text()
    assert report.text().endswith("PASSED\n")


def test_a_small_but_shown_loss_fails(make_run):
    report = check(make_run("a"), rescore(make_run("b"), lambda _, value: value - 0.01))
    assert not report.passed
    (reason,) = report.verdicts[0].failures
    assert "a loss of 0.0100 is shown" in reason
    assert "FAILED disc_seg val: a loss of 0.0100" in report.text()


def test_a_gain_passes(make_run):
    report = check(make_run("a"), rescore(make_run("b"), lambda _, value: value + 0.3))
    assert report.passed
    assert report.verdicts[0].comparison.is_better


def test_a_small_loss_that_could_be_chance_passes(make_run):
    noisy = rescore(make_run("b"), lambda i, v: v + (0.1 if i // 2 % 2 else -0.12))
    report = check(make_run("a"), noisy)
    assert report.verdicts[0].change == pytest.approx(-0.01)
    assert report.passed
    assert "would be shown in 80 % of cases; a smaller one, also above 0.02" in report.text()


def test_a_large_loss_fails_even_if_it_could_be_chance(make_run):
    noisy = rescore(make_run("b"), lambda i, v: v + (0.3 if i // 2 % 2 else -0.36))
    report = check(make_run("a"), noisy)
    assert report.verdicts[0].failures == ("a loss of 0.0300, more than the 0.02 let through",)
    assert check(make_run("c"), noisy, max_loss=0.03).passed


def test_for_an_error_more_is_a_loss(make_run):
    headline = {"results": {"headline": "area_error"}}
    a, b = make_run("a", changes=headline), make_run("b", changes=headline)
    rescore(b, lambda _, value: value + 0.5, metric="area_error")
    report = check(a, b)
    assert not report.passed
    assert report.verdicts[0].change == pytest.approx(0.5)
    assert check(b, a).passed


def test_a_missing_task_fails(world, make_run):
    report = check([make_run("a"), make_run("v", task="disc_video")], make_run("b"))
    assert not report.passed
    assert report.verdicts[1].failures == ("missing in the candidate",)
    assert report.verdicts[0].passed


def test_another_split_is_no_substitute_but_is_named(make_run):
    other = make_run("b", changes={"results": {"split": "test"}})
    report = check(make_run("a"), other)
    assert report.verdicts[0].failures == (
        "missing in the candidate, which has disc_seg test",
    )  # fmt: skip
    assert report.ignored == ("disc_seg test",)


def test_a_further_task_of_the_candidate_is_only_named(make_run):
    report = check(make_run("a"), [make_run("b"), make_run("v", task="disc_video")])
    assert report.passed
    assert "disc_video valid_u: only in the candidate" in report.text()


def test_fewer_answers_fail_whatever_the_score(make_run):
    fewer = rescore(make_run("b", failing={5}), lambda _, value: value + 0.2)
    report = check(make_run("a"), fewer)
    assert report.verdicts[0].failures == ("answered 40 → 39 of 40 (parse 0 → 1)",)
    back = check(fewer, make_run("c"), max_loss=1)
    assert not any("answered" in failure for failure in back.verdicts[0].failures)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"results": {"protocol": "seg/other"}}, "protocol was seg/lisa, is seg/other"),
        ({"results": {"task_version": 2}}, "task version was 1, is 2"),
        ({"data": {"fingerprint": "beef" * 8}}, "data fingerprint was f00df00df00d, is beefbeef"),
        ({"results": {"headline": "ciou"}}, "headline was giou, is ciou"),
    ],
    ids=["protocol", "version", "data", "headline"],
)
def test_runs_that_cannot_be_compared_fail_and_say_what_differs(make_run, changed, words):
    report = check(make_run("a"), make_run("b", changes=changed))
    verdict = report.verdicts[0]
    assert not report.passed
    assert verdict.comparison is None
    assert verdict.change is None
    assert f"cannot be compared: {words}" in verdict.failures[0]


def test_another_subset_is_missing_not_compared(make_run):
    report = check(make_run("a"), make_run("b", subset="first20"))
    assert "missing in the candidate, which has disc_seg val (first20)" in report.text()


def test_units_that_differ_cannot_be_compared(make_run):
    a, b = make_run("a"), make_run("b")
    text = (b / "scores.jsonl").read_text()
    (b / "scores.jsonl").write_text(text.replace('"unit": "3/disc"', '"unit": "9/none"'))
    report = check(a, b)
    assert not report.passed
    assert "3/disc" in report.verdicts[0].failures[0]


def test_units_that_differ_fail_without_the_data_too(make_run, tmp_path):
    a, b = make_run("a", task="disc_video"), make_run("b", task="disc_video")
    text = (b / "scores.jsonl").read_text()
    (b / "scores.jsonl").write_text(text.replace('"unit": "clip3"', '"unit": "clip9"'))
    assert not check(a, b, data_root=tmp_path / "gone").passed


def test_a_number_that_is_gone_fails(make_run):
    gone = {"results": {"metrics": {"giou": None}}}
    report = check(make_run("a"), make_run("b", changes=gone))
    assert report.verdicts[0].failures == ("giou has no number any more",)


def test_a_derived_headline_is_compared_through_the_task(make_run, tmp_path):
    a, b = make_run("a", task="disc_video"), make_run("b", task="disc_video", shift=9)
    report = check(a, b)
    assert report.verdicts[0].comparison.is_worse
    blind = check(a, b, data_root=tmp_path / "gone", max_loss=1.0)
    assert blind.passed
    assert "J&F cannot be computed from the scores again" in blind.text()
    assert "only a loss beyond the limit is seen" in blind.text()
    assert not check(a, b, data_root=tmp_path / "gone").passed


def test_two_runs_of_one_task_are_refused(make_run, tmp_path):
    make_run("a")
    make_run("b")
    with pytest.raises(UsageError, match="one run of disc_seg val"):
        check(tmp_path, tmp_path)


def test_a_folder_without_runs_and_bad_limits_are_refused(make_run, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="finished run"):
        check(make_run("a"), tmp_path / "empty")
    with pytest.raises(UsageError, match="max_loss"):
        check(tmp_path, tmp_path, max_loss=float("nan"))
    with pytest.raises(UsageError, match="level"):
        check(tmp_path, tmp_path, level=95)


def test_the_text_is_a_table_with_aligned_columns(make_run):
    baseline = [make_run("a"), make_run("v", task="disc_video")]
    candidate = [make_run("b", seed=3), make_run("w", task="disc_video", seed=3)]
    lines = check(baseline, candidate).text().splitlines()
    head = lines[0]
    assert head.split() == [
        "task", "metric", "baseline", "candidate", "change", "interval", "p", "Holm", "could",
        "see",
    ]  # fmt: skip
    end = head.index("candidate") + len("candidate")
    assert all(line[end] == " " and line[end - 1].isdigit() for line in lines[1:3])
    assert any("2 tasks at a level of 0.95 each" in line for line in lines)


def test_the_report_is_plain_data_too(make_run):
    report = check(make_run("a"), rescore(make_run("b"), lambda _, value: value - 0.01))
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert plain["passed"] is False
    assert plain["tasks"][0]["comparison"]["n_groups"] == 20
    assert plain["tasks"][0]["change"] == pytest.approx(-0.01)


def test_p_values_are_adjusted_for_the_number_of_tasks_beside_the_raw_ones(make_run):
    baseline = [make_run("a"), make_run("v", task="disc_video")]
    candidate = [make_run("b", seed=3), make_run("w", task="disc_video", seed=3)]
    report = check(baseline, candidate)
    raw = [verdict.comparison.p_value for verdict in report.verdicts]
    adjusted = [verdict.adjusted_p for verdict in report.verdicts]
    low, high = sorted(raw)
    assert sorted(adjusted) == pytest.approx([min(1, 2 * low), max(high, min(1, 2 * low))])
    assert [task["adjusted_p"] for task in report.to_json()["tasks"]] == adjusted
    alone = check(baseline[:1], candidate[:1]).verdicts[0]
    assert alone.adjusted_p == alone.comparison.p_value == raw[0]
