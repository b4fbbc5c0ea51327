import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.errors import ModelError, UsageError
from harness.models.backends.sampling import (
    TokenChoice,
    check_settings,
    gumbel,
    nucleus,
    rollout_key,
)

torch = pytest.importorskip("torch")


def draw(keys, logits, *, seed=0, temperature=1.0, top_p=1.0, position=0, pad=0):
    """Tokens that rows with equal logits get, at a position after prompts of three tokens."""
    rows = len(keys)
    choice = TokenChoice(
        keys=keys, prompt_length=3 + pad, starts=[pad] * rows, seed=seed,
        temperature=temperature, top_p=top_p,
    )  # fmt: skip
    tokens = torch.zeros((rows, 3 + pad + position), dtype=torch.long)
    return choice(tokens, torch.tensor([logits] * rows)).argmax(dim=1).tolist()


LOGITS = [0.0, 1.0, -1.0, 2.0, 0.5]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_softmax(temperature):
    number = 6000
    tokens = draw([rollout_key("q", n) for n in range(number)], LOGITS, temperature=temperature)
    expected = np.exp(np.array(LOGITS) / temperature)
    expected *= number / expected.sum()
    assert stats.chisquare(np.bincount(tokens, minlength=5), expected).pvalue > 1e-3


def test_successive_positions_are_drawn_from_the_softmax_independently():
    number = 3000
    tokens = np.array([draw(["q"], LOGITS, position=n)[0] for n in range(number)])
    expected = np.exp(LOGITS) * number / np.exp(LOGITS).sum()
    assert stats.chisquare(np.bincount(tokens, minlength=5), expected).pvalue > 1e-3
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (tokens[:-1], tokens[1:]), 1)
    assert stats.chi2_contingency(pairs).pvalue > 1e-3


def test_a_nucleus_keeps_the_likeliest_tokens_and_their_proportions():
    number = 4000
    tokens = draw([str(n) for n in range(number)], LOGITS, top_p=0.7)
    kept = np.exp([1.0, 2.0])  # the probabilities are .60, .22, .13, …
    seen = np.bincount(tokens, minlength=5)
    assert seen[[0, 2, 4]].sum() == 0
    assert stats.chisquare(seen[[1, 3]], kept * number / kept.sum()).pvalue > 1e-3


def test_a_nucleus_of_nearly_nothing_is_the_likeliest_token():
    assert set(draw([str(n) for n in range(50)], LOGITS, top_p=1e-9)) == {3}
    row = torch.tensor([[1.0, 1.0, 1.0, 1.0]])
    assert torch.isfinite(nucleus(row, 0.5)).sum() == 2


@given(st.lists(st.text(max_size=5), min_size=1, max_size=6, unique=True), st.randoms(),
       st.integers(0, 2**31), st.integers(0, 3000), st.integers(0, 9))  # fmt: skip
def test_a_request_gets_the_same_token_alone_in_a_batch_and_in_any_order(
    keys, random, seed, position, pad
):
    logits = list(np.random.default_rng(seed).normal(size=50))
    settings = {"seed": seed, "position": position}
    alone = {key: draw([key], logits, **settings)[0] for key in keys}
    random.shuffle(keys)
    assert draw(keys, logits, pad=pad, **settings) == [alone[key] for key in keys]


def test_noise_differs_by_seed_key_and_position():
    given = {"seed": 0, "key": "q", "position": 0}
    base = gumbel(100, **given)
    assert np.array_equal(base, gumbel(100, **given))
    for change in ({"seed": 1}, {"key": "r"}, {"position": 1}):
        assert not np.isclose(base, gumbel(100, **{**given, **change})).any()
    assert rollout_key("q", 0) != rollout_key("q", 1)


def test_noise_is_standard_gumbel_and_the_same_on_every_machine():
    noise = gumbel(20_000, seed=3, key="sample", position=5)
    assert stats.kstest(noise, "gumbel_r").pvalue > 1e-3
    assert np.allclose(gumbel(3, seed=0, key="q", position=0), FIRST, atol=1e-6)


FIRST = [0.64168984, -0.53867257, 0.6550542]


def test_without_temperature_the_choice_is_the_largest_logit():
    assert draw(["a", "b"], LOGITS, temperature=0.0) == [3, 3]


def test_a_logit_that_is_no_number_is_an_error_that_names_the_request():
    for bad in (math.nan, math.inf):
        choice = TokenChoice(keys=["good", "bad"], prompt_length=1, starts=[0, 0])
        rows = torch.tensor([[0.0, -math.inf], [0.0, bad]])
        with pytest.raises(ModelError, match=r"request bad\b"):
            choice(torch.zeros((2, 5), dtype=torch.long), rows)


def test_repetition_is_penalised_as_transformers_does_but_for_padding():
    transformers = pytest.importorskip("transformers")
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 8, (3, 6), generator=generator)
    logits = torch.randn((3, 10), generator=generator)
    choice = TokenChoice(keys="abc", prompt_length=4, starts=[0, 0, 0], repetition_penalty=1.3)
    theirs = transformers.RepetitionPenaltyLogitsProcessor(1.3)(tokens, logits)
    assert torch.equal(choice(tokens, logits), theirs)
    padded = torch.cat([torch.full((3, 2), 9), tokens], dim=1)
    choice = TokenChoice(keys="abc", prompt_length=6, starts=[2, 2, 2], repetition_penalty=1.3)
    assert torch.equal(choice(padded, logits), theirs)


@pytest.mark.parametrize(("temperature", "top_p"), [(-1, 1), (math.nan, 1), (1, 0), (1, 1.1)])
def test_settings_that_mean_nothing_are_refused(temperature, top_p):
    with pytest.raises(UsageError, match="temperature"):
        check_settings(temperature=temperature, top_p=top_p)
