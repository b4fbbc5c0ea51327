import json
import re

import pytest

from harness.cli.main import main
from harness.errors import MissingBaseline, StoreError, UsageError
from harness.leaderboards.gate import check
from harness.record import Run
from harness.types import FailureKind


def test_the_same_run_passes(make_run):
    folder = make_run("a")
    report = check(folder, folder)
    assert report.is_passed
    verdict = report.verdicts[0]
    assert verdict.change == 0
    assert verdict.comparison.interval == (0, 0)
    assert report.text().startswith("PASSED  no task got worse: one @0123456 against one @0")
    assert "no difference: the same result on 40 samples" in report.text()
    assert "changed: nothing on record" in report.text()


def test_an_argument_that_stands_in_the_header_is_named_as_what_changed(make_run):
    folders = []
    for spec in ("one", "one(batch_size=2)"):
        manifest = {"model": {"spec": spec, "name": "one", "description": {"name": "one"}}}
        changes = {"manifest": manifest, "results": {"model_spec": spec}}
        folders.append(make_run(spec, changes=changes))
    report = check(*folders)
    line = "changed: nothing on record beside batch_size (same weights, code and packages)"
    assert "one(batch_size=2) @" in report.text() and line in report.text().splitlines()


def test_a_small_but_shown_loss_fails(make_run, rescore):
    report = check(make_run("a"), rescore(make_run("b"), lambda _, value: value - 0.01))
    assert not report.is_passed
    (reason,) = report.verdicts[0].failures
    assert "significant" in reason and "0.0100" in reason
    first, _, line, *others = report.text().splitlines()
    assert first.startswith("FAILED  the task got worse: ") and "✗ disc_seg val" in line
    assert reason in [other.strip() for other in others]


def test_the_text_names_what_changed_and_has_the_sentence_of_the_comparison(make_run, rescore):
    folders = []
    for name, system, torch in (("a", None, "2.0"), ("b", "Look closely.", "2.1")):
        provenance = {"commit": "0" * 40, "dirty": False, "packages": {"torch": torch}}
        provenance |= {"python": "3.11.9", "platform": "Linux x86_64"}
        described = {"name": "one", "system": system, "device": name}
        model = {"spec": f"one(system={name})", "name": "one", "description": described}
        manifest = {"model": model, "provenance": {**provenance, "device": name}}
        results = {"model_spec": model["spec"]}
        folders.append(make_run(name, changes={"manifest": manifest, "results": results}))
    before, after = folders[0], rescore(folders[1], lambda _, value: value - 0.3)
    report = check(before, after)
    (verdict,) = report.verdicts
    assert verdict.changed == ("system: none → Look closely.", "torch: 2.0 → 2.1")
    text = report.text()
    assert "one(system=b) @0000000 against one(system=a) @0000000" in text
    assert verdict.comparison.verdict("the candidate") in text
    assert all(f"changed: {line}" in text for line in verdict.changed)
    plain = report.to_json()["tasks"][0]
    assert plain["verdict"] == verdict.sentence and plain["changed"] == list(verdict.changed)


@pytest.mark.parametrize("made", [False, True])
def test_a_missing_baseline_has_a_code_and_the_command_that_makes_one(made, make_run, tmp_path):
    place = tmp_path / "baseline"
    if made:
        place.mkdir()
    with pytest.raises(MissingBaseline, match="harness board keep --runs") as raised:
        check(place, make_run("a"))
    assert raised.value.exit_code == 7 != StoreError.exit_code


def test_a_gain_passes(make_run, rescore):
    report = check(make_run("a"), rescore(make_run("b"), lambda _, value: value + 0.3))
    assert report.is_passed
    assert report.verdicts[0].comparison.is_better


def test_a_small_loss_that_could_be_chance_passes(make_run, rescore):
    noisy = rescore(make_run("b"), lambda i, v: v + (0.1 if i // 2 % 2 else -0.12))
    report = check(make_run("a"), noisy)
    assert report.verdicts[0].change == pytest.approx(-0.01)
    assert report.is_passed
    assert "of cases" in report.text() and "0.02" in report.text()


def test_a_large_loss_that_could_be_chance_passes(make_run, rescore):
    noisy = rescore(make_run("b"), lambda i, v: v + (0.3 if i // 2 % 2 else -0.36))
    report = check(make_run("a"), noisy)
    verdict = report.verdicts[0]
    assert verdict.change == pytest.approx(-0.03) and verdict.comparison.detectable > 0.03
    assert report.is_passed


def few_images(units):
    """Leave the two questions of five images."""
    del units[10:]


def test_of_few_groups_a_loss_in_all_fails_though_no_p_value_can_be_small(
    make_run, rewrite, rescore
):
    five = [rewrite(make_run(name), few_images, n_total=10, n_scored=10) for name in "ab"]
    rescore(five[1], lambda i, value: value - 0.2 + i / 100)
    report = check(*five)
    assert report.verdicts[0].comparison.p_value == 2 / 2**5 > 0.05
    assert not report.verdicts[0].comparison.is_worse
    (reason,) = report.verdicts[0].failures
    assert "0.02" in reason and "significant" not in reason
    assert check(*five, max_drop=0.3).is_passed


def test_few_groups_that_differ_decide_nothing(make_run, rescore):
    # Four of 40 answers lost in four of 20 images: p is 2 / 2⁴.
    worse = rescore(make_run("b"), lambda i, v: v - 0.9 if i in (0, 10, 20, 30) else v)
    report = check(make_run("a"), worse)
    comparison = report.verdicts[0].comparison
    assert comparison.p_value == 0.125
    assert comparison.interval[1] >= 0
    assert report.is_passed


def test_p_interval_and_verdict_agree(make_run, rescore):
    baseline = make_run("a")
    for place, size in enumerate((0.02, 0.04, 0.06, 0.08, 0.1)):
        worse = rescore(make_run(f"b{place}"), lambda i, v, s=size: v - s + (i // 2 % 3 - 1) / 5)
        verdict = check(baseline, worse, max_drop=1).verdicts[0]
        shown = verdict.comparison.interval[1] < 0
        assert shown == (verdict.comparison.p_value <= 0.05) == (not verdict.is_passed)


def test_of_several_tasks_the_corrected_p_decides(make_run, rescore):
    def slightly_worse(index, value):
        return value - 0.02 + (index // 2 % 5 - 2) * 0.028

    before, after = make_run("a"), rescore(make_run("b"), slightly_worse)
    alone = check(before, after, max_drop=1)
    assert 0.025 < alone.verdicts[0].comparison.p_value <= 0.05 and not alone.is_passed
    others = [make_run("v", task="disc_video"), make_run("w", task="disc_video", seed=3)]
    both = check([before, others[0]], [after, others[1]], max_drop=1)
    assert both.verdicts[0].adjusted_p > 0.05 and both.is_passed


def test_the_rate_of_false_alarms_is_that_of_failing_and_printed_for_one_task(make_run, rescore):
    noisy = rescore(make_run("b"), lambda i, v: v + (i * 7919 % 40 - 19.5) / 100)
    one = check(make_run("a"), noisy)
    assert 0 < one.false_alarms <= 0.05
    assert f"{one.false_alarms * 100:.1f} %" in one.text()
    same = make_run("c")
    assert check(same, same).false_alarms == 0
    assert one.to_json()["false_alarms"] == one.false_alarms


def test_for_an_error_more_is_a_loss(make_run, rescore):
    headline = {"results": {"headline": "area_error"}}
    a, b = make_run("a", changes=headline), make_run("b", changes=headline)
    rescore(b, lambda _, value: value + 0.5, metric="area_error")
    report = check(a, b)
    assert not report.is_passed
    assert report.verdicts[0].change == pytest.approx(0.5)
    assert check(b, a).is_passed


def test_a_missing_task_fails(world, make_run):
    report = check([make_run("a"), make_run("v", task="disc_video")], make_run("b"))
    assert not report.is_passed
    assert report.verdicts[1].failures == ("missing in the candidate",)
    assert report.verdicts[0].is_passed


def test_a_run_that_is_not_finished_is_named(make_run, tmp_path):
    before = [make_run("a"), make_run("v", task="disc_video")]
    make_run("after/seg")
    half = make_run("after/video", task="disc_video")
    for name in ("results.json", "scores.jsonl", "checksums.json"):
        (half / name).unlink()
    (reason,) = check(before, tmp_path / "after").verdicts[1].failures
    assert "not finished" in reason and str(half) in reason


def test_another_split_is_no_substitute_but_is_named(make_run):
    baseline = make_run("a")
    task = {**Run.open(baseline).manifest["task"], "split": "test"}
    other = make_run("b", changes={"results": {"split": "test"}, "manifest": {"task": task}})
    report = check(baseline, other)
    assert report.verdicts[0].failures == ("missing in the candidate, which has disc_seg test",)
    assert report.ignored == ("disc_seg test",)


def test_a_further_task_of_the_candidate_is_only_named(make_run):
    report = check(make_run("a"), [make_run("b"), make_run("v", task="disc_video")])
    assert report.is_passed
    assert "disc_video valid_u: only" in report.text()


def alike(_, value):
    """Score every unit alike, so that only answers can be lost."""
    return 0.5


def test_one_answer_fewer_is_told_by_kind_and_may_be_chance(make_run, rescore):
    whole, fewer = (
        rescore(make_run(name, failing=failing), alike) for name, failing in (("a", ()), ("b", {5}))
    )
    for pair, counts in (((whole, fewer), ("40 → 39", "0 → 1")), ((fewer, whole), ("39 → 40",))):
        verdict = check(*pair).verdicts[0]
        assert verdict.is_passed
        (note,) = verdict.notes
        assert all(count in note for count in counts) and "parse" in note
    assert not check(whole, whole).verdicts[0].notes


def test_two_decodings_that_differ_in_unreadable_responses_pass(make_run, rescore):
    before, after = (
        rescore(make_run(name, failing=failing), alike)
        for name, failing in (("a", {3, 8, 17, 30}), ("b", {0, 5, 8, 12, 21, 26, 39}))
    )
    report = check(before, after)
    assert report.is_passed
    answers = report.verdicts[0].answers
    assert answers.loss == pytest.approx(3 / 40) and answers.p_value > 0.05
    assert 0 < report.false_alarms <= 0.05  # scores are equal, so that it is of answers
    assert f"{report.false_alarms * 100:.1f} %" in report.text()


@pytest.mark.parametrize("kind", FailureKind)
def test_many_lost_answers_fail_whatever_the_score_and_limit(make_run, rescore, kind):
    worse = make_run("b", failing=range(0, 40, 5), kind=kind)
    rescore(worse, lambda _, value: value + 0.5)
    for limit in (0.02, 1.0):
        verdict = check(make_run(f"a{limit}"), worse, max_drop=limit).verdicts[0]
        (reason,) = verdict.failures
        assert verdict.comparison.is_better and verdict.adjusted_answers_p == 2 / 2**8
        assert "40 → 32" in reason and f"{kind} 0 → 8" in reason and "0.2000" in reason


def test_of_few_images_all_answers_lost_fail_though_no_p_value_can_be_small(
    make_run, rewrite, rescore
):
    whole = rewrite(make_run("a"), few_images, n_total=10, n_scored=10)
    none = rewrite(
        make_run("b", failing=range(10)), few_images, n_total=10, n_scored=0, n_failed=10
    )
    verdict = check(rescore(whole, alike), rescore(none, alike)).verdicts[0]
    assert verdict.answers.p_value == 2 / 2**5
    (reason,) = verdict.failures
    assert "10 → 0" in reason and "significant" not in reason


def test_answers_of_several_tasks_are_corrected_for_those_that_differ(make_run, rescore):
    lost = {0, 5, 10, 15, 20, 25}  # in six images: p is 2 / 2⁶
    before, after = make_run("a"), rescore(make_run("b", failing=lost), lambda _, v: v + 0.5)
    videos = [make_run("v", task="disc_video"), make_run("w", task="disc_video", failing={3})]
    same = check([before, videos[0]], [after, videos[0]])
    assert same.verdicts[0].adjusted_answers_p == 2 / 2**6 and not same.is_passed
    assert same.verdicts[1].answers is None
    both = check([before, videos[0]], [after, videos[1]], max_drop=1)
    assert both.verdicts[0].adjusted_answers_p == 4 / 2**6
    assert both.verdicts[1].adjusted_answers_p == 1
    assert [task["adjusted_answers_p"] for task in both.to_json()["tasks"]] == [4 / 2**6, 1]
    assert both.to_json()["tasks"][0]["answers"]["difference"] == pytest.approx(-6 / 40)


def test_answers_decide_without_a_headline_that_can_be_compared(make_run, tmp_path):
    lost = make_run("b", task="disc_video", failing=range(8))
    whole = make_run("a", task="disc_video")
    verdict = check(whole, lost, data_root=tmp_path / "gone", max_drop=1).verdicts[0]
    assert verdict.comparison is None
    assert any("8 → 0" in reason for reason in verdict.failures)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"results": {"protocol": "seg/other"}}, ("protocol", "seg/lisa", "seg/other")),
        ({"results": {"task_version": 2}}, ("version", " 1, ", " 2")),
        ({"data": {"fingerprint": "beef" * 8}}, ("fingerprint", "f00df00df00d", "beefbeef")),
        ({"results": {"headline": "ciou"}}, ("headline", "giou", "ciou")),
    ],
    ids=["protocol", "version", "data", "headline"],
)
def test_runs_that_cannot_be_compared_fail_and_say_what_differs(make_run, changed, words):
    report = check(make_run("a"), make_run("b", changes=changed))
    verdict = report.verdicts[0]
    assert not report.is_passed
    assert verdict.comparison is None
    assert verdict.change is None
    assert all(word in verdict.failures[0] for word in words)


def test_another_subset_is_missing_not_compared(make_run):
    report = check(make_run("a"), make_run("b", subset="first20"))
    assert "missing" in report.text() and "disc_seg val (first20)" in report.text()


def renamed(units, old, new):
    for unit in units:
        if unit["unit"] == old:
            unit["unit"] = new


def test_units_that_differ_cannot_be_compared(make_run, rewrite):
    a, b = make_run("a"), make_run("b")
    rewrite(b, lambda units: renamed(units, "3/disc", "9/none"))
    report = check(a, b)
    assert not report.is_passed
    assert "3/disc" in report.verdicts[0].failures[0]


def test_units_that_differ_fail_without_the_data_too(make_run, rewrite, tmp_path):
    a, b = make_run("a", task="disc_video"), make_run("b", task="disc_video")
    rewrite(b, lambda units: renamed(units, "clip3", "clip9"))
    assert not check(a, b, data_root=tmp_path / "gone").is_passed


def without_number(units):
    for unit in units:
        del unit["scores"]["giou"]


def test_a_number_that_is_gone_fails(make_run, rewrite):
    report = check(make_run("a"), rewrite(make_run("b"), without_number))
    assert report.verdicts[0].failures == ("giou has no value any more",)


def test_a_derived_headline_is_compared_through_the_task(make_run, tmp_path):
    a, b = make_run("a", task="disc_video"), make_run("b", task="disc_video", shift=9)
    report = check(a, b)
    assert report.verdicts[0].comparison.is_worse
    blind = check(a, b, data_root=tmp_path / "gone", max_drop=1.0)
    assert blind.is_passed
    assert "J&F" in blind.text()
    assert not check(a, b, data_root=tmp_path / "gone").is_passed


@pytest.mark.parametrize("cut", [0, 3])
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_side_that_does_not_know_what_was_cut_off_is_noted(make_run, rewrite, side, cut):
    known, unknown = make_run("known"), make_run("unknown")
    rewrite(known, lambda units: None, ledger={"forms": {"mask": {}}, "cut": cut})
    runs = (known, unknown) if side == "baseline" else (unknown, known)
    (verdict,) = check(*runs).verdicts
    assert verdict.is_passed and len(verdict.notes) == bool(cut)
    assert all(f": {cut} responses of the {side} " in note for note in verdict.notes)


def test_a_baseline_of_two_runs_of_one_task_is_refused_before_it_is_written(
    make_run, tmp_path, capsys
):
    first, second = make_run("a"), make_run("b")
    code = main(["board", "keep", "--runs", str(first.parent), "--out", str(tmp_path / "kept")])
    error = capsys.readouterr().err
    assert code == UsageError.exit_code and str(first) in error and str(second) in error
    assert not (tmp_path / "kept").exists()


def test_two_runs_of_one_task_are_refused(make_run, tmp_path):
    make_run("a")
    make_run("b")
    with pytest.raises(UsageError, match=r"disc_seg val.*/a .*/b\."):
        check(tmp_path, tmp_path)


def test_a_folder_without_runs_and_bad_limits_are_refused(make_run, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"/empty: .*none.*results\.json"):
        check(make_run("a"), tmp_path / "empty")
    with pytest.raises(UsageError, match="max_drop"):
        check(tmp_path, tmp_path, max_drop=float("nan"))
    with pytest.raises(UsageError, match="level"):
        check(tmp_path, tmp_path, level=95)


def test_the_text_has_the_verdict_first_and_its_columns_in_line(make_run):
    baseline = [make_run("a"), make_run("v", task="disc_video")]
    candidate = [make_run("b", seed=3), make_run("w", task="disc_video", seed=3)]
    report = check(baseline, candidate, max_drops={"disc_video": 0.5})
    first, *lines, last = report.text().splitlines()
    one, other = (line for line in lines if line.startswith(("  ✓", "  ✗", "  ↑", "  ?")))
    assert first.startswith(("PASSED", "FAILED"))
    assert one.index("→") == other.index("→") and one.index("  giou") == other.index("  J&F")
    assert "0.02 (disc_seg val)" in last and "0.5 (disc_video valid_u)" in last


def test_a_pass_says_at_once_that_a_drop_may_go_through(make_run):
    a, b = make_run("a"), make_run("b", seed=3)
    report = check(a, b)
    assert report.is_passed and "1 inconclusive" in report.text().splitlines()[0]
    assert "inconclusive" not in check(a, b, max_drop=0.9).text()
    assert "inconclusive" not in check(a, a).text()


def test_the_power_is_that_of_as_many_tasks_as_are_compared(make_run, rescore):
    before = [make_run("a"), make_run("v", task="disc_video")]
    after = [make_run("b", seed=3), make_run("w", task="disc_video", seed=3)]
    alone, both = (check(before[:n], after[:n]) for n in (1, 2))
    sizes = [float(re.search(r"difference of ([\d.]+)", one.text())[1]) for one in (alone, both)]
    seen = alone.verdicts[0].comparison
    assert sizes[0] == pytest.approx(seen.detectable, abs=1e-3)
    assert sizes[1] == pytest.approx(seen.smallest_shown(2), abs=1e-3)
    assert sizes[1] > sizes[0] + 1e-3


def test_the_samples_that_lost_most_are_named_with_both_scores_and_a_command(make_run, rescore):
    drops = {4: 0.5, 7: 0.8, 9: -0.1}
    before = rescore(make_run("a"), lambda i, v: 0.9)
    after = rescore(make_run("b"), lambda i, v: 0.9 - drops.get(i, 0.02))
    report = check(before, after)
    changes = report.verdicts[0].changes
    assert (changes.worse, changes.better, changes.total) == (39, 1, 40)
    assert [one.sample for one in changes.worst[:2]] == ["3/disc", "2/roll"]
    assert (changes.worst[0].before, changes.worst[0].after) == pytest.approx((0.9, 0.1))
    text = report.text()
    assert "worst: 3/disc 0.90 → 0.10, 2/roll 0.90 → 0.40, " in text
    assert f"harness explain {after} 3/disc" in text
    assert report.to_json()["tasks"][0]["samples"]["worst"][0]["sample"] == "3/disc"


def test_for_an_error_the_worst_sample_is_the_largest(make_run, rescore):
    headline = {"results": {"headline": "area_error"}}
    a, b = make_run("a", changes=headline), make_run("b", changes=headline)
    rescore(b, lambda i, value: value + i / 10, metric="area_error")
    assert check(a, b).verdicts[0].changes.worst[0].sample == "19/disc"


def test_a_limit_of_one_task_is_not_that_of_others(make_run, rescore):
    before = [make_run("a"), make_run("v", task="disc_video")]
    after = [rescore(make_run("b"), lambda i, v: v - 0.4 + i / 1000), before[1]]
    for limits, passed in (({}, False), ({"disc_video": 1}, False), ({"disc_seg": 1}, False)):
        assert check(before, after, max_drops=limits).is_passed == passed  # it is significant
    assert check(before, after, tasks=["disc_video"]).is_passed
    with pytest.raises(UsageError, match="disc_sge"):
        check(before, after, max_drops={"disc_sge": 1})
    with pytest.raises(UsageError, match="nowhere"):
        check(before, after, tasks=["nowhere"])


def test_the_report_is_plain_data_too(make_run, rescore):
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
