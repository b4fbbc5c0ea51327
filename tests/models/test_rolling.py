"""Rows that are answered make room for others, and nobody can tell from the replies."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import OutOfMemory
from harness.model import ChatRequest
from harness.models.backends.rolling import plan
from harness.models.backends.room import CLEAN

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.transformers import transformers  # noqa: E402

LIMITS = (3, 14, 1, 9, 5, 12, 2)


def requests(ask) -> list[ChatRequest]:
    """Pictures, a clip and no picture, with limits that let their replies end apart."""
    image, small = ask(size=(150, 60)).media, ask(size=(40, 90)).media
    clip = ask(frames=6, size=(64, 80)).media
    plain = [
        ChatRequest(key="a", text="a", media=image),
        ChatRequest(key="b", text="a much longer question, please", media=small),
        ChatRequest(key="c", text="what moves?", media=clip, frames=((0, 2, 4, 5),)),
        ChatRequest(key="d", text="two media", media=(*clip, *small), frames=((3,), (0,))),
        ChatRequest(key="e", text="squashed", media=image, resize=(84, 84)),
        ChatRequest(key="f", text="no picture"),
        ChatRequest(key="g", text="begun", media=small, prefix="so "),
    ]
    return [replace(one, max_new_tokens=limit) for one, limit in zip(plain, LIMITS, strict=True)]


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 1.0, "top_p": 0.95}, {"repetition_penalty": 1.4}]
)
@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_replies_do_not_tell_whether_rows_were_replaced(request, ask, checkpoint, settings):
    folder = str(request.getfixturevalue(checkpoint))
    asked = requests(ask)
    alone = transformers(checkpoint=folder, batch_size=1, roll=False, seed=2, **settings)
    expected = alone.generate(asked)
    assert len({reply.completion_tokens for reply in expected}) > 3
    for size in (2, 4):
        rolled = transformers(checkpoint=folder, batch_size=size, roll=True, seed=2, **settings)
        assert rolled.generate(asked) == expected


def test_no_more_rows_are_answered_at_once_than_the_batch_size(tiny_qwen, ask):
    made = transformers(checkpoint=str(tiny_qwen), batch_size=3, roll=True)
    rows, widths = [], []

    def count(network, given, named):
        rows.append(named["input_ids"].shape[0])
        widths.append(named["input_ids"].shape[1])

    made.network.register_forward_pre_hook(count, with_kwargs=True)
    made.generate(requests(ask))
    steps = [row for row, width in zip(rows, widths, strict=True) if width == 1]
    assert max(rows) == 3
    assert len(steps) < sum(sorted(LIMITS, reverse=True)[::3])  # what whole batches would take


def full_above(network, most):
    """Make a network run out of memory with more rows than `most`; the rows of all its calls."""
    called = []

    def watch(module, given, named):
        called.append(named["input_ids"].shape[0])
        if called[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    network.register_forward_pre_hook(watch, with_kwargs=True)
    return called


@pytest.mark.parametrize("roll", [True, False])
def test_fewer_rows_are_tried_where_memory_runs_out(tiny_qwen, ask, roll):
    asked = [replace(one, max_new_tokens=4) for one in requests(ask)]
    expected = transformers(checkpoint=str(tiny_qwen), batch_size=1, roll=False).generate(asked)
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4, roll=roll)
    called = full_above(made.network, 2)
    assert made.generate(asked) == expected
    assert called[:2] == [4, 2]
    assert max(called[1:]) == 2  # one try was enough to learn it, for all that follow


def test_the_next_call_begins_with_what_fitted_and_tries_more_after_a_while(tiny_qwen, ask):
    asked = [replace(one, max_new_tokens=2) for one in requests(ask)]
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    called = full_above(made.network, 2)
    tries = []
    for _ in range(CLEAN + 2):
        called.clear()
        made.generate(asked)
        tries.append(max(called))
    assert tries == [4] + [2] * CLEAN + [4]


def test_what_a_small_call_needed_says_nothing_of_others(tiny_qwen, ask):
    asked = [replace(one, max_new_tokens=2) for one in requests(ask)]
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    called = full_above(made.network, 2)
    for _ in range(CLEAN):
        made.generate(asked[:1])  # each fits, and so would have any
    called.clear()
    made.generate(asked[:3])
    assert made._room.rows == 4, "three are fewer than fit, as far as is known"
    made.generate(asked)
    assert made._room.rows == 2
    for _ in range(CLEAN):
        made.generate(asked[:1])
    assert made._room.rows == 2


def test_what_is_answered_is_not_asked_again_when_memory_runs_out(tiny_qwen, ask):
    """Late, when rows that were answered have left their places to others."""
    asked = requests(ask)
    expected = transformers(checkpoint=str(tiny_qwen), batch_size=1, roll=False).generate(asked)
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    begun, ended = [], []

    def watch(module, given, named):
        rows, width = named["input_ids"].shape
        if width > 1:
            begun.append(rows)
        if len(begun) == 3 and width > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    made.network.register_forward_pre_hook(watch, with_kwargs=True)
    said = type(made)._said

    def noted(self, request, *rest):
        ended.append(request.key)
        return said(self, request, *rest)

    object.__setattr__(made, "_said", noted.__get__(made))
    assert made.generate(asked) == expected
    assert sorted(ended) == sorted(request.key for request in asked)
    # Of the seven, two had ended when the third prompt did not fit: five began again.
    assert sum(begun[3:]) == len(asked) - 2


def test_a_request_that_does_not_fit_alone_is_out_of_memory(tiny_qwen, ask):
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    full_above(made.network, 0)
    with pytest.raises(OutOfMemory):
        made.generate(requests(ask))


@given(st.integers(0, 40), st.integers(1, 12))
def test_a_plan_holds_every_place_once_and_begins_with_a_full_batch(total, size):
    cut = plan(range(total), size=size)
    assert [place for part in cut for place in part] == list(range(total))
    assert len(cut[0]) == min(total, size)
    assert all(len(part) <= max(1, size // 4) for part in cut[1:])
