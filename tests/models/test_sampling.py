import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.errors import ModelError, UsageError
from harness.models.backends.sampling import (
    BLOCK_POSITIONS,
    Sampling,
    TokenChoice,
    check_settings,
    masses,
    nucleus,
    rollout_key,
    uniforms,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LOGITS = [0.0, 1.0, -1.0, 2.0, 0.5]
SEEDS = st.integers(0, 2**31)


def tokens(choice, logits, *, position=0):
    """What the rows of a batch get at a position of their responses."""
    length = choice.prompt_length + position
    written = torch.zeros((len(choice.keys), length), dtype=torch.long)
    return (
        choice(written, torch.tensor(np.array(logits), dtype=torch.float32)).argmax(dim=1).tolist()
    )


def draw(keys, logits, *, position=0, pad=0, **settings):
    """Tokens that rows with equal logits get, at a position after prompts of three tokens."""
    choice = TokenChoice(
        keys=keys,
        prompt_length=3 + pad,
        starts=[pad] * len(keys),
        **{"temperature": 1.0, **settings},
    )
    return tokens(choice, [logits] * len(keys), position=position)


def number(key, *, seed, position):
    """The uniform number of one position of one response."""
    return uniforms(seed=seed, key=key, block=position // BLOCK_POSITIONS)[
        position % BLOCK_POSITIONS
    ]


def softmax(logits, *, temperature=1.0, top_p=1.0):
    """What is to be drawn from, in double precision, in plain words."""
    share = np.exp((logits - np.max(logits)) / temperature)
    share /= share.sum()
    order = np.argsort(-share, kind="stable")
    before = np.cumsum(share[order]) - share[order]
    share[order[before >= top_p]] = 0.0
    return share / share.sum()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_softmax(temperature):
    count = 6000
    drawn = draw([rollout_key("q", n) for n in range(count)], LOGITS, temperature=temperature)
    expected = count * softmax(np.array(LOGITS), temperature=temperature)
    assert stats.chisquare(np.bincount(drawn, minlength=5), expected).pvalue > 1e-3


def test_successive_positions_are_drawn_from_the_softmax_independently():
    count = 3000
    choice = TokenChoice(keys=["q"], prompt_length=3, starts=[0], temperature=1.0)
    drawn = np.array([tokens(choice, [LOGITS], position=n)[0] for n in range(count)])
    assert (
        stats.chisquare(np.bincount(drawn, minlength=5), count * softmax(np.array(LOGITS))).pvalue
        > 1e-3
    )
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (drawn[:-1], drawn[1:]), 1)
    assert stats.chi2_contingency(pairs).pvalue > 1e-3


@settings(deadline=None, max_examples=50)
@given(SEEDS, st.integers(2, 40), st.sampled_from([0.3, 1.0, 3.0]), st.sampled_from([0.5, 0.9, 1]))
def test_evenly_spread_numbers_give_each_token_its_share_of_the_nucleus(
    seed, vocabulary, temperature, top_p
):
    rows = 512
    logits = np.random.default_rng(seed).normal(scale=2, size=vocabulary).astype(np.float32)
    choice = TokenChoice(
        keys=["q"] * rows, prompt_length=1, starts=[0] * rows, temperature=temperature, top_p=top_p
    )
    spread = torch.linspace(0.5 / rows, 1 - 0.5 / rows, rows, dtype=torch.float64)[:, None]
    vars(choice)["_draws"] = SimpleNamespace(numbers_at=lambda position, device: spread)
    found = np.bincount(tokens(choice, np.tile(logits, (rows, 1))), minlength=vocabulary)
    share = softmax(logits.astype(float), temperature=temperature, top_p=top_p)
    assert np.all(np.abs(found - rows * share) <= 1 + 1e-3)
    assert np.all(found[share == 0] == 0)


@settings(deadline=None, max_examples=50)
@given(
    SEEDS,
    st.text(max_size=5),
    st.sampled_from([0, 1, BLOCK_POSITIONS - 1, BLOCK_POSITIONS, 3 * BLOCK_POSITIONS + 7]),
    st.sampled_from([0.5, 1.0]),
)
def test_the_token_is_the_one_in_whose_share_the_number_lies(seed, key, position, top_p):
    logits = np.random.default_rng(seed).normal(size=50).astype(np.float32)
    below = np.cumsum(softmax(logits.astype(float), top_p=top_p))
    wanted = number(key, seed=seed, position=position)
    (token,) = draw([key], logits, seed=seed, position=position, top_p=top_p)
    assert token == np.searchsorted(below, wanted * below[-1], side="right")


@pytest.mark.parametrize("extreme", [0.0, 1 - 2**-53])
def test_a_forbidden_token_is_drawn_by_no_number(extreme):
    choice = TokenChoice(keys=["q"], prompt_length=1, starts=[0], temperature=1.0)
    spread = torch.tensor([[extreme]], dtype=torch.float64)
    vars(choice)["_draws"] = SimpleNamespace(numbers_at=lambda position, device: spread)
    never = -math.inf
    assert tokens(choice, [[never, never, 1.0, never, 0.0, never]]) == [2 if extreme == 0 else 4]


def test_a_nucleus_keeps_the_likeliest_tokens_and_their_proportions():
    count = 4000
    drawn = draw([str(n) for n in range(count)], LOGITS, top_p=0.7)
    seen = np.bincount(drawn, minlength=5)
    assert seen[[0, 2, 4]].sum() == 0
    kept = np.exp([1.0, 2.0])  # the probabilities are .60, .22, .13, …
    assert stats.chisquare(seen[[1, 3]], kept * count / kept.sum()).pvalue > 1e-3


def test_a_nucleus_of_nearly_nothing_is_the_likeliest_token():
    assert set(draw([str(n) for n in range(50)], LOGITS, top_p=1e-30)) == {3}
    mass = masses(torch.tensor([[1.0, 1.0, 1.0, 1.0]]), temperature=1.0)
    assert nucleus(mass, 0.5).tolist() == [[1.0, 1.0, 0.0, 0.0]]


def test_a_temperature_near_zero_is_greedy_and_overflows_nothing():
    assert set(draw([str(n) for n in range(20)], LOGITS, temperature=1e-300)) == {3}


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.text(max_size=5), min_size=1, max_size=6, unique=True),
    st.randoms(),
    SEEDS,
    st.integers(0, 3000),
    st.integers(0, 9),
    st.sampled_from([0.6, 1.0]),
)
def test_a_request_gets_the_same_token_alone_in_a_batch_and_in_any_order(
    keys, random, seed, position, pad, top_p
):
    generator = np.random.default_rng(seed)
    logits = {key: generator.normal(size=50) for key in keys}
    chosen = {"seed": seed, "temperature": 1.0, "top_p": top_p}
    alone = {key: draw([key], logits[key], position=position, **chosen)[0] for key in keys}
    random.shuffle(keys)
    together = TokenChoice(keys=keys, prompt_length=pad + 1, starts=[pad] * len(keys), **chosen)
    found = tokens(together, np.stack([logits[key] for key in keys]), position=position)
    assert found == [alone[key] for key in keys]


def test_a_response_takes_the_numbers_of_its_positions_however_it_gets_there():
    choice = TokenChoice(keys=["a", "b"], prompt_length=3, starts=[0, 0], temperature=1.0, seed=7)
    places = [
        0,
        1,
        BLOCK_POSITIONS - 1,
        BLOCK_POSITIONS,
        BLOCK_POSITIONS + 1,
        5 * BLOCK_POSITIONS,
        2,
    ]
    logits = np.linspace(0, 1, 40)
    assert [tokens(choice, [logits] * 2, position=place) for place in places] == [
        draw(["a", "b"], logits, position=place, seed=7) for place in places
    ]


def test_numbers_differ_by_seed_key_and_block():
    base = uniforms(seed=0, key="q", block=0)
    assert np.array_equal(base, uniforms(seed=0, key="q", block=0))
    for change in ({"seed": 1}, {"key": "r"}, {"block": 1}):
        other = uniforms(**{"seed": 0, "key": "q", "block": 0, **change})
        assert not np.isin(base, other).any()
    assert rollout_key("q", 0) != rollout_key("q", 1)


def test_numbers_are_uniform_and_the_same_on_every_machine():
    drawn = [uniforms(seed=3, key="sample", block=block) for block in range(80)]
    assert stats.kstest(np.concatenate(drawn), "uniform").pvalue > 1e-3
    first = [uniforms(seed=0, key=rollout_key("q", n), block=0)[0] for n in range(4000)]
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    assert uniforms(seed=0, key="q", block=0)[:3].tolist() == FIRST


FIRST = [0.5907265031992146, 0.18019232584716038, 0.5948690878945327]


def test_without_temperature_the_choice_is_the_largest_logit():
    assert draw(["a", "b"], LOGITS, temperature=0.0) == [3, 3]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_no_number_is_an_error_that_names_the_request(bad, temperature):
    choice = TokenChoice(
        keys=["good", "bad"], prompt_length=1, starts=[0, 0], temperature=temperature, top_p=0.9
    )
    rows = torch.tensor([[0.0, -math.inf], [-math.inf, bad]])
    with pytest.raises(ModelError, match=r"token 4: .*NaN.*\bbad\."):
        choice(torch.zeros((2, 5), dtype=torch.long), rows)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(1, 12),
    SEEDS,
    st.sampled_from([0.7, 1.05, 2.0]),
)
def test_repetition_is_penalised_as_transformers_does_but_for_padding(pads, length, seed, penalty):
    generator = torch.Generator().manual_seed(seed)
    rows, width = len(pads), max(pads) + length
    written = torch.randint(0, 8, (rows, width + 3), generator=generator)  # many stand twice
    for row, pad in enumerate(pads):
        written[row, :pad] = 9
    choice = TokenChoice(
        keys="abcd"[:rows], prompt_length=width, starts=pads, repetition_penalty=penalty
    )
    theirs = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    for position in range(4):
        logits = torch.randn((rows, 10), generator=generator)
        before = logits.clone()
        found = choice(written[:, : width + position], logits)
        assert torch.equal(logits, before)
        for row, pad in enumerate(pads):
            part = slice(row, row + 1)
            own = written[part, pad : width + position]
            assert torch.equal(found[part], theirs(own, logits[part]))


def test_what_is_penalised_is_drawn_less_often():
    keys = [str(n) for n in range(2000)]
    often = draw(keys, [1.0, 1.0], repetition_penalty=2.0).count(0)  # prompts are of token 0
    share = 1 / (1 + math.exp(0.5))
    assert stats.binomtest(often, len(keys), share).pvalue > 1e-3


@pytest.mark.parametrize(("temperature", "top_p"), [(-1, 1), (math.nan, 1), (1, 0), (1, 1.1)])
def test_settings_that_mean_nothing_are_refused(temperature, top_p):
    with pytest.raises(UsageError, match="temperature"):
        check_settings(temperature=temperature, top_p=top_p)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_suppressed_tokens_are_never_chosen(temperature):
    keys = [f"{number}" for number in range(50)]
    chosen = draw(keys, LOGITS, temperature=temperature, suppress_tokens=(3, 1))
    assert not {1, 3} & set(chosen) and (4 in chosen)


def test_only_the_likeliest_k_are_drawn():
    """At a high temperature, 400 draws of 6 tokens would miss none of them."""
    scores = torch.tensor([[0.0, 3.0, 1.0, 2.0, 2.5, -1.0]]).repeat(400, 1)
    numbers = torch.linspace(0, 0.999, 400, dtype=torch.float64)[:, None]
    for top_k, expected in ((1, {1}), (3, {1, 3, 4}), (None, set(range(6))), (9, set(range(6)))):
        sampling = Sampling(temperature=5.0, top_k=top_k)
        assert set(sampling.choose(scores, scores, numbers).argmax(dim=1).tolist()) == expected


def test_a_token_that_the_response_has_loses_the_penalty_once():
    """As vLLM's `presence_penalty`, by hand: 3 - 1.5 < 2; tokens of the prompt lose nothing."""
    scores = torch.tensor([[2.0, 3.0], [2.0, 3.0], [2.0, 3.0]])
    sampling = Sampling(presence_penalty=1.5)
    chosen = sampling.choose(scores, torch.tensor([[1], [1], [1]]), None, [[1, 1], [0], []])
    assert chosen.argmax(dim=1).tolist() == [0, 1, 1]
    assert scores.tolist() == [[2.0, 3.0]] * 3


def test_the_prompt_is_no_part_of_what_is_present():
    choice = TokenChoice(keys=["a"], prompt_length=2, starts=[0], presence_penalty=1.5)
    scores = torch.tensor([[2.0, 3.0]])
    assert choice(torch.tensor([[1, 1]]), scores).argmax().item() == 1
    assert choice(torch.tensor([[1, 1, 1]]), scores).argmax().item() == 0
