import numpy as np
import pytest

from harness.errors import UsageError
from harness.scores import Corpus, Mean, Metric, UnitScore
from harness.statistics import jackknife
from harness.statistics.bootstrap import intervals
from harness.statistics.jackknife import replicates

GIOU = Metric("giou")
BLEND = Metric("blend", inputs=("f1", "giou"), derived=lambda f, g: (f + g) / 2)


def f1(items):
    hits, output, true = np.array(items).sum(axis=0)
    return 2 * hits / (output + true)


F1 = Metric("f1", corpus=f1)


def run(random, groups, *, per_group=2):
    return [
        UnitScore(
            unit=f"{g}/{i}",
            group=f"{g:04}",
            samples=(),
            categories={},
            failed=0,
            scores={
                "f1": Corpus(((int(random.binomial(5, 0.6)), 5, int(random.integers(4, 9))),)),
                "giou": Mean(float(random.random())),
            },
        )
        for g in range(groups)
        for i in range(per_group)
    ]


def test_the_cost_is_bounded_however_many_groups_there_are():
    calls = []
    slow = Metric("slow", corpus=lambda items: float(calls.append(items) or len(items)))
    units = [
        UnitScore(
            unit=str(i),
            group=str(i),
            samples=(),
            categories={},
            failed=0,
            scores={"slow": Corpus((i,))},
        )
        for i in range(1001)
    ]
    intervals((slow,), units)
    assert len(calls) == 201
    assert sorted(calls[0]) == list(range(1001))
    assert {len(items) for items in calls[1:]} == {995, 996}
    left_out = [set(range(1001)) - set(items) for items in calls[1:]]
    assert set.union(*left_out) == set(range(1001))
    calls.clear()
    intervals((slow,), units, blocks=20)
    assert len(calls) == 21


def test_no_corpus_is_computed_for_a_protocol_without_one(monkeypatch):
    monkeypatch.setattr(jackknife, "replicates", None)
    intervals((GIOU,), run(np.random.default_rng(0), 5))


def test_other_seeds_deal_other_blocks_but_only_where_they_are_needed():
    units = run(np.random.default_rng(1), 30)
    all_groups = [intervals((F1,), units, seed=seed)["f1"] for seed in (0, 1)]
    blocks = [intervals((F1,), units, seed=seed, blocks=7)["f1"] for seed in (0, 1, 0)]
    assert all_groups[0] == all_groups[1]
    assert blocks[0] == blocks[2] != blocks[1]


def test_what_is_derived_from_a_corpus_and_a_mean_is_left_out_jointly():
    units = run(np.random.default_rng(2), 12)
    made = replicates((F1, GIOU, BLEND), units)
    both = (made.without["f1"] + made.without["giou"]) / 2
    np.testing.assert_array_equal(made.without["blend"], both)
    low, high = intervals((F1, GIOU, BLEND), units)["blend"]
    assert (low + high) / 2 == pytest.approx(made.full["blend"])


def test_a_block_that_holds_every_item_leaves_no_interval():
    units = run(np.random.default_rng(3), 12)
    only = [
        UnitScore(
            unit=u.unit,
            group=u.group,
            samples=(),
            categories={},
            failed=0,
            scores=u.scores if u.group in ("0000", "0001") else {"giou": Mean(0.5)},
        )
        for u in units
    ]
    assert intervals((F1,), only)["f1"] is not None
    found = [intervals((F1,), only, blocks=2, seed=seed)["f1"] for seed in range(8)]
    together = [
        len(set(jackknife.assign_blocks(12, blocks=2, seed=seed)[:2].tolist())) == 1
        for seed in range(8)
    ]
    assert [one is None for one in found] == together
    assert 0 < sum(together) < 8


def test_its_interval_covers_the_ground_truth_about_as_often_as_it_says():
    random = np.random.default_rng(4)
    ground_truth = 2 * 3 / (5 + 6)
    held = 0
    for _ in range(200):
        low, high = intervals((F1,), run(random, 25, per_group=1))["f1"]
        held += low <= ground_truth <= high
    assert 0.89 <= held / 200 <= 0.99


@pytest.mark.parametrize("blocks", [1, 0, -3])
def test_fewer_than_two_blocks_are_refused(blocks):
    with pytest.raises(UsageError, match=rf"2 blocks.*found {blocks} blocks, 8 units"):
        intervals((F1,), run(np.random.default_rng(5), 4), blocks=blocks)
