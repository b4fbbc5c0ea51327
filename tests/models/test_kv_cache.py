"""Keys and values that grow in place are those that are copied for each token."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import DynamicCache  # noqa: E402

from harness.models.backends import kv_cache as module  # noqa: E402
from harness.models.backends.kv_cache import preallocated_cache  # noqa: E402
from harness.models.backends.prompt_prefix import Prefix, states_after  # noqa: E402


def states(tokens: int, *, rows: int = 2, seed: int = 0):
    draw = torch.Generator().manual_seed(seed + tokens)
    return tuple(torch.randn(rows, 3, tokens, 4, generator=draw) for _ in range(2))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 5), st.booleans())
def test_what_has_grown_is_what_was_put_in(lengths, room, begun):
    before = states(4, seed=99)
    ours = preallocated_cache([before, before] if begun else [])
    theirs = DynamicCache([before, before] if begun else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SPARE_TOKENS", room)
        for turn, length in enumerate(lengths):
            for layer in range(2):
                new = states(length, seed=10 * turn + layer)
                for one, other in zip(
                    ours.update(*new, layer), theirs.update(*new, layer), strict=True
                ):
                    assert torch.equal(one, other)
            assert ours.get_seq_length() == theirs.get_seq_length()
            assert ours.get_mask_sizes(1, 0) == theirs.get_mask_sizes(1, 0)


def test_a_token_is_written_where_there_is_room_and_what_was_read_before_stays():
    cache = preallocated_cache([states(4)])
    kept, _ = cache.update(*states(1, seed=1), 0)
    output = kept.clone()
    grown, _ = cache.update(*states(1, seed=2), 0)
    assert grown.data_ptr() == kept.data_ptr(), "nothing was copied"
    assert torch.equal(kept, output) and kept.shape[2] + 1 == grown.shape[2]


@pytest.mark.parametrize("name", ["reorder_cache", "batch_select_indices"])
def test_rows_that_were_chosen_do_not_get_the_room_of_others(name):
    cache = preallocated_cache([])
    cache.update(*states(4), 0)
    getattr(cache, name)(torch.tensor([1, 0]))
    keys, _ = cache.update(*states(1, seed=5), 0)
    assert torch.equal(keys[:, :, :4], states(4)[0][[1, 0]])


def test_a_cache_that_is_forgotten_begins_again():
    cache = preallocated_cache([])
    cache.update(*states(4), 0)
    cache.reset()
    keys, _ = cache.update(*states(2, rows=3, seed=8), 0)
    assert torch.equal(keys, states(2, rows=3, seed=8)[0])


def test_what_a_cache_was_made_from_is_never_written_to():
    keys, values = states(4)
    output = keys.clone()
    preallocated_cache([(keys, values)]).update(*states(3, seed=1), 0)
    assert torch.equal(keys, output)


def test_rows_of_one_prompt_read_its_keys_where_they_are():
    keys, seen = torch.randn(1, 2, 5, 4), []

    def base_model(**given):
        seen.append(given["past_key_values"].layers[0].keys)
        return SimpleNamespace(last_hidden_state=torch.zeros(3, 1, 8))

    config = SimpleNamespace(model_type="qwen2_5_vl")
    network = SimpleNamespace(base_model=base_model, config=config)
    whole, after = torch.ones(1, 5, dtype=torch.long), torch.tensor([[5]])
    prefix = Prefix([(keys, keys)], torch.zeros(1, 1, 8), whole, after)
    tokens = torch.ones(3, 2, dtype=torch.long)
    states = states_after(network, prefix, tokens, tokens, torch.zeros(3, dtype=torch.long))
    assert states.shape == (3, 2, 8)
    assert seen[0].shape == (3, 2, 5, 4) and seen[0].data_ptr() == keys.data_ptr()
