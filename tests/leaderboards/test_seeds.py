import numpy as np
import pytest

from harness.leaderboards.board import build
from harness.record import Run
from harness.statistics.repeats import pass_at_k

METHOD = {"method": "sft(lr=1)", "tasks": [{"spec": "disc_seg"}]}


@pytest.fixture
def make_seeded(make_run):
    """A run of a checkpoint (`training`) with a decoding seed."""

    def make(training, decoding, **given):
        chat = {"trained": {**METHOD, "seed": training, "config_hash": f"h{training}"}}
        model = {
            "spec": f"qwen(checkpoint=runs/{training})",
            "name": "qwen",
            "description": {"chat": chat},
        }
        return make_run(
            f"t{training}d{decoding}",
            seed=10 * training + decoding,
            shift=1 + training / 4,
            changes={"manifest": {"model": model, "seed": decoding}},
            **given,
        )

    return make


def seeds(folders):
    (table,) = build(folders).tables
    return [note for note in table.notes if note.startswith("Seeds")]


def values(folders):
    return np.array([[u.scores["giou"].value for u in Run.open(f).units()] for f in folders])


def test_trainings_and_decodings_of_a_recipe_have_one_mean(make_seeded):
    folders = [make_seeded(t, d) for t in range(3) for d in range(2)]
    (note,) = seeds(folders)
    mean = f"Seeds of one: giou {values(folders).mean():.3f} ("
    assert note.startswith(mean) and ") over 3 trainings × 2 decodings; standard error" in note
    shares = [float(part.split()[0]) for part in note.partition("error ")[2].split(", ")[:2]]
    assert shares[1] > shares[0]  # the shift grows with the training
    assert "the best of 2 decodings" in note


def test_pass_at_k_comes_from_the_units(make_seeded, rescore):
    made = [make_seeded(1, d) for d in range(4)]
    folders = [rescore(one, lambda _, value: float(value > 0.9)) for one in made]
    (note,) = seeds(folders)
    best = pass_at_k(values(folders).T, k=4).mean()
    assert "over 4 decodings" in note and note.endswith(f"the best of 4 decodings {best:.3f}.")


def test_a_derived_headline_has_a_mean_and_no_best(make_seeded):
    (note,) = seeds([make_seeded(t, 1, task="disc_video") for t in range(3)])
    assert "J&F" in note and "over 3 trainings;" in note and "best" not in note


def test_other_settings_other_recipes_and_equal_seeds_are_no_repeats(make_seeded, make_run):
    def one(name, seed, spec):
        model = {"spec": spec, "name": "qwen", "description": {}}
        recorded = {"manifest": {"model": model, "seed": seed}, "results": {"model_spec": spec}}
        return make_run(name, seed=seed, changes=recorded)

    assert seeds([one("a", 0, "qwen(p=1)"), one("b", 1, "qwen(p=2)")]) == []
    assert seeds([one("c", 0, "qwen"), one("d", 0, "qwen")]) == []
    unequal = [make_seeded(0, 0), make_seeded(1, 0), make_seeded(1, 1)]
    assert seeds(unequal) == []
    assert len(seeds([one("e", 0, "qwen"), one("f", 1, "qwen")])) == 1
