import json

import numpy as np
import pytest

from harness.cli.main import main
from harness.errors import DataError, UsageError
from harness.leaderboards.repeats import repeats
from harness.leaderboards.row import row
from harness.record import Run
from harness.statistics.repeats import best_of_k

METHOD = {"prompt": "plain", "chat": {"temperature": 1.0, "seed": 0, "weights": "aa"}}


def said(**chat):
    return {**METHOD, "chat": {**METHOD["chat"], **chat}}


@pytest.fixture
def make_seeded(make_run):
    """A run of a checkpoint (`training`) with a decoding seed."""

    def make(training, decoding, **given):
        model = {
            "spec": f"qwen(checkpoint=runs/{training})",
            "name": "qwen",
            "description": said(seed=decoding, weights=f"w{training}"),
        }
        return make_run(
            f"t{training}d{decoding}",
            seed=10 * training + decoding,
            shift=1 + training / 4,
            changes={"manifest": {"model": model, "seed": decoding}},
            **given,
        )

    return make


@pytest.fixture
def make_binary(rescore):
    """Every IoU becomes right or wrong, at 0.9."""
    return lambda folder: rescore(folder, lambda _, value: float(value > 0.9))


def test_runs_are_sorted_into_trainings_by_what_their_models_say(make_seeded):
    folders = [make_seeded(t, d) for t in range(3) for d in range(2)]
    got = repeats(folders)
    two = zip(folders[::2], folders[1::2], strict=True)
    assert list(got.runs.values()) == [tuple(map(str, pair)) for pair in two]
    assert next(iter(got.runs)) == "qwen(checkpoint=runs/0)"
    recorded = [row(Run.open(folder)).value for folder in folders]
    assert [value for pair in got.values.values() for value in pair] == recorded
    assert got.score.value == pytest.approx(np.mean(recorded), abs=1e-9)
    assert got.score.over == ("samples", "trainings", "decodings")
    split = got.components
    assert (split.groups, split.trainings, split.decodings) == (20, 3, 2)
    assert split.training > split.decoding  # the shift grows with the training
    assert got.task == "disc_seg val" and got.metric == "giou"


def test_one_checkpoint_with_several_seeds_says_that_it_is_one(make_seeded):
    got = repeats([make_seeded(1, d) for d in range(4)])
    assert got.components.training is None
    assert got.score.over == ("samples", "decodings")
    assert any("recipe" in note for note in got.notes)
    assert list(got.best) == [1, 2, 4]
    assert not got.binary


def test_pass_at_k_and_its_interval_come_from_the_units(make_seeded, make_binary):
    folders = [make_binary(make_seeded(1, d)) for d in range(4)]
    got = repeats(folders)
    assert got.binary
    scores = np.array([[u.scores["giou"].value for u in Run.open(f).units()] for f in folders]).T
    for k, estimate in got.best.items():
        assert estimate.value == pytest.approx(best_of_k(scores, k=k).mean())
        assert estimate.interval[0] <= estimate.value <= estimate.interval[1]
        assert estimate.n_groups == 20
    assert got.best[1].value == pytest.approx(got.score.value)
    assert got.best[1].error > 0
    assert list(repeats(folders[:3]).best) == [1, 2, 3]


def test_the_command_prints_the_mean_pass_at_k_and_shares_of_variance(
    make_seeded, make_binary, capsys
):
    folders = [make_binary(make_seeded(t, d)) for t in range(2) for d in range(2)]
    assert main(["runs", "repeats", *map(str, folders)]) == 0
    shown = capsys.readouterr().out
    got = repeats(folders)
    assert shown.startswith(f"disc_seg val, giou\navg@4 {got.score.value:.4f}, 95 % interval ")
    assert " over samples and trainings and decodings\npass@1 " in shown
    assert f"pass@2 {got.best[2].value:.4f}" in shown
    parts = got.components.of_score()
    share = parts["training"] / sum(parts.values())
    assert f"training {share:.0%}, decoding " in shown
    assert main(["runs", "repeats", "--json", "--metric", "ciou", *map(str, folders[:2])]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["score"]["value"] == repeats(folders[:2], metric="ciou").score.value
    assert main(["runs", "repeats", *map(str, folders[:2])]) == 0
    assert "training" not in capsys.readouterr().out.partition("variance")[2].partition("\n")[0]


def test_the_best_of_an_error_is_the_lowest_and_trainings_are_averaged(make_seeded):
    folders = [make_seeded(t, d) for t in range(2) for d in range(3)]
    got = repeats(folders, metric="area_error")
    scores = np.array(
        [[u.scores["area_error"].value for u in Run.open(f).units()] for f in folders]
    ).T
    expected = [best_of_k(scores[:, t : t + 3], k=2, better="lower").mean() for t in (0, 3)]
    assert got.best[2].value == pytest.approx(np.mean(expected))


def test_ratios_and_derived_metrics_have_components_but_no_best(make_seeded):
    ratio = repeats([make_seeded(t, 0) for t in range(3)], metric="ciou")
    assert ratio.best == {}
    assert ratio.score.interval[0] < ratio.score.value < ratio.score.interval[1]
    assert any("decoding" in note for note in ratio.notes)
    derived = repeats([make_seeded(t, 1, task="disc_video") for t in range(3)])
    recorded = [pair[0] for pair in derived.values.values()]
    assert derived.metric == "J&F"
    assert derived.best == {}
    assert derived.score.value == pytest.approx(np.mean(recorded))


def test_different_models_are_no_repeats(make_run):
    folders = [make_run(f"r{i}", model=f"m{i}", seed=i) for i in range(2)]
    with pytest.raises(DataError, match="name: 'm0' → 'm1'"):
        repeats(folders)


def test_a_checkpoint_trained_anew_in_its_folder_is_another_training(make_run):
    folders = []
    for number in range(2):
        model = {"spec": "qwen", "name": "qwen", "description": said(weights=f"w{number}")}
        changes = {"manifest": {"model": model}}
        folders.append(make_run(f"r{number}", seed=number, changes=changes))
    assert list(repeats(folders).runs) == ["qwen", "qwen #2"]


def test_another_prompt_is_no_other_seed(make_run):
    folders = []
    for number, prompt in enumerate(("plain", "long")):
        model = {"spec": "qwen", "name": "qwen", "description": {**said(), "prompt": prompt}}
        folders.append(make_run(f"r{number}", changes={"manifest": {"model": model}}))
    with pytest.raises(DataError, match="prompt: 'plain' → 'long'"):
        repeats(folders)


def test_runs_of_an_earlier_version_are_repeats(make_run):
    folders = []
    for seed, words in enumerate(({}, {"words_text": {"text": "QUESTION"}})):
        model = {"spec": "qwen", "name": "qwen", "description": {**said(seed=seed), **words}}
        changes = {"manifest": {"model": model, "seed": seed}}
        folders.append(make_run(f"r{seed}", seed=seed, changes=changes))
    assert list(map(len, repeats(folders).runs.values())) == [2]


def test_the_same_model_and_seed_twice_is_no_repeat(make_seeded, make_run):
    model = {"spec": "x", "name": "qwen", "description": said(seed=0, weights="w1")}
    again = make_run("again", changes={"manifest": {"model": model, "seed": 0}})
    with pytest.raises(UsageError, match=r"/t1d0 .*/again .*seed 0"):
        repeats([make_seeded(1, 0), again])


def test_trainings_decoded_unequally_often_are_refused(make_seeded):
    with pytest.raises(UsageError, match=r"1 of .*checkpoint=runs/0\), 2 of .*checkpoint=runs/1\)"):
        repeats([make_seeded(0, 0), make_seeded(1, 0), make_seeded(1, 1)])
    with pytest.raises(UsageError, match=r"1 of .*checkpoint=runs/2\)$"):
        repeats([make_seeded(2, 0)])


def test_runs_of_other_tasks_and_unknown_metrics_are_refused(make_seeded):
    pair = [make_seeded(0, 0), make_seeded(0, 1)]
    with pytest.raises(UsageError, match="metric 'giuo'"):
        repeats(pair, metric="giuo")
    with pytest.raises(DataError, match=r"t0d0 .*t0d2: .*task: 'disc_seg' → 'disc_video'"):
        repeats([pair[0], make_seeded(0, 2, task="disc_video")])


def test_a_group_of_which_a_run_lacks_the_number_is_refused(make_seeded, rewrite):
    def without(units):
        for unit in units:
            del unit["scores"]["ciou"]

    a, b = make_seeded(0, 0), rewrite(make_seeded(0, 1), without)
    with pytest.raises(DataError, match=r"^ciou .*run 2: .*none"):
        repeats([a, b], metric="ciou")
