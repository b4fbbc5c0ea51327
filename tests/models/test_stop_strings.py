"""A response ends before the first stop string that is complete, however it is written."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.chat import ChatRequest, ChatResponse
from harness.models.backends.stop_strings import at_stop, before_stop, tokens_to_stop, until_stop

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract

words = st.text("ab;é", max_size=12)
stop_strings = st.lists(st.text("ab;é", min_size=1, max_size=4), max_size=3)


def decoded(tokens):
    """One token a byte, as a network's own that knows every byte."""
    return bytes(tokens).decode("utf-8", "replace")


@given(words, stop_strings)
def test_what_is_kept_is_known_as_soon_as_a_stop_string_is_complete(text, stop):
    written = next(
        (text[:end] for end in range(len(text) + 1) if text[:end].endswith(tuple(stop))), None
    )
    if written is None:
        assert before_stop(text, stop) is None
    else:
        longest = max(len(one) for one in stop if written.endswith(one))
        assert before_stop(text, stop) == written[: len(written) - longest]
        assert before_stop(written, stop) == before_stop(text, stop)


@given(words, stop_strings)
def test_a_network_may_end_at_the_token_that_completes_a_stop_string_and_no_sooner(text, stop):
    tokens = list(text.encode())
    ends = [end for end in range(len(tokens) + 1) if at_stop(tokens[:end], stop, decoded)]
    first = ends[0] if ends else None
    assert tokens_to_stop(tokens, stop, decoded) == first
    if first is not None:
        kept = before_stop(decoded(tokens[:first]), stop)
        assert kept == before_stop(text, stop)


def test_what_a_response_was_made_to_begin_with_is_not_searched():
    request = ChatRequest(key="a", text="", prefix="<think>;", stop=(";",))
    response = ChatResponse(text="<think>;a;b", completion_tokens=3, cut=True)
    ended = replace(response, text="<think>;a", stopped=";", cut=False)
    assert until_stop(response, request) == ended
    whole = replace(response, text="<think>;ab")
    assert until_stop(whole, request) is whole


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ValueError, match="empty"):
        ChatRequest(key="a", text="", stop=("a", ""))


LIMITS = (14, 5, 12, 9, 14)


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_batches_and_rolled_rows_stop_where_a_request_alone_does(request, ask, checkpoint):
    pytest.importorskip("torch")
    from harness.models.backends.transformers import transformers

    folder = str(request.getfixturevalue(checkpoint))
    media = ask(size=(90, 60)).media
    plain = [
        ChatRequest(key="a", text="a", media=media),
        ChatRequest(key="b", text="a longer question", prefix="so "),
        ChatRequest(key="c", text="which one is it?", media=media),
        ChatRequest(key="d", text="x", system="be kind"),
        ChatRequest(key="e", text="none for this"),
    ]
    plain = [replace(one, max_new_tokens=limit) for one, limit in zip(plain, LIMITS, strict=True)]
    alone = transformers(checkpoint=folder, batch_size=1, continuous_batching=False)
    made = [contract.stopped(alone, one) for one in plain[:-1]]
    requested = [*(one for one, _ in made), plain[-1]]
    expected = [*alone.generate(plain)]
    for place, (one, kept) in enumerate(made):
        output = expected[place].text.removeprefix(one.prefix)
        tokens = len((kept.removeprefix(one.prefix) + one.stop[1]).encode())
        expected[place] = replace(
            expected[place],
            text=kept,
            stopped=one.stop[1],
            cut=False,
            completion_tokens=tokens if "\ufffd" not in output else None,
        )
    steps = count_steps(alone)
    first = alone.generate(requested)
    assert len(steps) == sum(response.completion_tokens for response in first)
    for one, wanted in zip(first, expected, strict=True):
        known = {} if wanted.completion_tokens else {"completion_tokens": one.completion_tokens}
        assert one.tokens == wanted.tokens[: one.completion_tokens]
        assert len(one.tokens) == one.completion_tokens
        assert one == replace(wanted, tokens=one.tokens, **known)
    for settings in (
        {"batch_size": 8},
        {"batch_size": 2},
        {"batch_size": 3, "continuous_batching": False},
    ):
        other = transformers(checkpoint=folder, **settings)
        steps = count_steps(other)
        other.generate(plain[:-1])
        whole = len(steps)
        steps.clear()
        assert other.generate(requested[:-1]) == first[:-1]
        assert len(steps) < whole  # what has stopped is not gone on with
        assert other.generate(requested) == first


def count_steps(chat):
    """One entry for each time that the network is asked for a token."""
    steps = []
    chat.network.register_forward_pre_hook(lambda *_: steps.append(1))
    return steps


def test_where_the_last_tokens_read_otherwise_the_whole_response_decides():
    """As where the first of them has half of a character, or a blank that is left out in front."""

    def decode(tokens):
        return "".join(tokens).replace("[stop", "[STOP") if "[" in tokens else "".join(tokens)

    assert at_stop([*"(stop"], ("stop",), decode)
    assert not at_stop([*"[stop"], ("stop",), decode)
