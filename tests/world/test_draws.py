import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.world.draws import Draws

SEEDS = st.integers(-(2**70), 2**70)
PINNED = [670, 88, 311, 63, 663, 166, 998, 774]
PINNED_ARRAY = [[51, 76, 51], [15, 82, 16]]


def test_the_stream_of_a_seed_and_path_is_pinned() -> None:
    draws = Draws(0, "still", "val", 3)
    assert [draws.integer_below(1000) for _ in range(8)] == PINNED
    assert Draws(0, "still").array((2, 3), below=100).tolist() == PINNED_ARRAY


def test_draws_do_not_depend_on_how_they_are_asked_for() -> None:
    one, many = Draws(1, "x"), Draws(1, "x")
    assert [one.integer_below(50) for _ in range(200)] == many.array((200,), below=50).tolist()


@given(SEEDS, SEEDS)
def test_streams_differ_exactly_where_names_differ(first: int, second: int) -> None:
    words = [
        [Draws(seed, "a", 1).integer_below(2**62) for _ in range(2)] for seed in (first, second)
    ]
    assert (words[0] == words[1]) == (first == second)
    assert Draws(first, "a", 2).integer_below(2**62) != words[0][0]


@given(SEEDS, st.integers(1, 1000), st.integers(-50, 50))
def test_numbers_stay_within_their_limits(seed: int, width: int, low: int) -> None:
    draws = Draws(seed)
    assert 0 <= draws.integer_below(width) < width
    assert low <= draws.integer_between(low, low + width) <= low + width
    assert draws.sign() in (-1, 1)
    array = draws.array((3, 4), below=width)
    assert array.dtype == np.int64 and array.min() >= 0 and array.max() < width


@given(SEEDS, st.lists(st.integers(), max_size=20))
def test_shuffling_keeps_every_item(seed: int, items: list[int]) -> None:
    assert sorted(Draws(seed).shuffle(items)) == sorted(items)


def test_every_number_is_drawn_about_equally_often() -> None:
    counts = np.bincount(Draws(2, "uniform").array((60_000,), below=6))
    assert counts.size == 6 and abs(counts - 10_000).max() < 500


def test_a_chance_of_one_in_four_comes_about_every_fourth_time() -> None:
    draws = Draws(4, "chance")
    assert abs(sum(draws.chance(1, 4) for _ in range(8000)) - 2000) < 200
