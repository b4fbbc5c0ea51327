"""Rows that are answered make room for others, and nobody can tell from the responses."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.chat import ChatRequest
from harness.errors import ModelError, OutOfMemory
from harness.models.backends import continuous_generation, token_positions
from harness.models.backends.batch_size_finder import MIN_FITTED
from harness.models.backends.batching import PreparedInputs, WaitTimer
from harness.models.backends.inputs import POSITIONS, joined_inputs, processor_inputs
from harness.models.backends.prefill_queue import PrefillQueue
from harness.models.qwen_vl.model import qwen_vl
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import Spec
from harness.types import FailureKind

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.kv_cache import PreallocatedCache  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402

from .test_openai_scores import Boxing  # noqa: E402

LIMITS = (3, 14, 1, 9, 5, 12, 2)
MARK = "~"
"""In the request whose logits are spoiled, and in no other."""


def requests(ask) -> list[ChatRequest]:
    """Images, a clip and no image, with limits that let their responses end apart."""
    image, small = ask(size=(150, 60)).media, ask(size=(40, 90)).media
    clip = ask(frames=6, size=(64, 80)).media
    plain = [
        ChatRequest(key="a", text="a", media=image),
        ChatRequest(key="b", text="a much longer question, please", media=small),
        ChatRequest(key="c", text="what moves?", media=clip, frames=((0, 2, 4, 5),)),
        ChatRequest(key="d", text="two media", media=(*clip, *small), frames=((3,), (0,))),
        ChatRequest(key="e", text="squashed", media=image, resize=(84, 84)),
        ChatRequest(key="f", text="no image"),
        ChatRequest(key="g", text="begun", media=small, prefix="so "),
    ]
    return [replace(one, max_new_tokens=limit) for one, limit in zip(plain, LIMITS, strict=True)]


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 1.0, "top_p": 0.95}, {"repetition_penalty": 1.4}]
)
@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_responses_do_not_tell_whether_rows_were_replaced(request, ask, checkpoint, settings):
    folder = str(request.getfixturevalue(checkpoint))
    requested = requests(ask)
    alone = transformers(
        checkpoint=folder, batch_size=1, continuous_batching=False, seed=2, **settings
    )
    expected = alone.generate(requested)
    assert len({response.completion_tokens for response in expected}) > 3
    for size in (2, 4):
        rolled = transformers(
            checkpoint=folder, batch_size=size, continuous_batching=True, seed=2, **settings
        )
        assert rolled.generate(requested) == expected


@pytest.mark.parametrize("roll", [True, False])
def test_each_response_is_drawn_at_its_requests_temperature_and_nucleus(tiny_qwen, ask, roll):
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4, continuous_batching=roll, seed=2)
    warm = transformers(
        checkpoint=str(tiny_qwen), batch_size=1, continuous_batching=False, seed=2, temperature=1.0
    )
    requested = requests(ask)
    drawn, greedy = warm.generate(requested), made.generate(requested)
    assert drawn != greedy
    heated = [replace(one, temperature=1.0) for one in requested]
    both = [one for pair in zip(heated, requested, strict=True) for one in pair]
    output = made.generate(both)
    assert output[::2] == drawn
    assert output[1::2] == greedy
    cooled = [replace(one, temperature=0.0) for one in requested]
    assert warm.generate(cooled) == greedy
    likeliest = [replace(one, top_p=1e-6) for one in heated]
    both = [one for pair in zip(heated, likeliest, strict=True) for one in pair]
    output = made.generate(both)
    assert (output[::2], output[1::2]) == (drawn, greedy)


def test_no_more_rows_are_answered_at_once_than_the_batch_size(tiny_qwen, ask):
    made = transformers(checkpoint=str(tiny_qwen), batch_size=3, continuous_batching=True)
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
    requested = [replace(one, max_new_tokens=4) for one in requests(ask)]
    expected = transformers(
        checkpoint=str(tiny_qwen), batch_size=1, continuous_batching=False
    ).generate(requested)
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4, continuous_batching=roll)
    called = full_above(made.network, 2)
    assert made.generate(requested) == expected
    assert called[:2] == [4, 2]
    assert max(called[1:]) == 2  # one try was enough to learn it, for all that follow


def test_the_next_call_begins_with_what_fitted_and_tries_more_after_a_while(tiny_qwen, ask):
    requested = [replace(one, max_new_tokens=2) for one in requests(ask)]
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    called = full_above(made.network, 2)
    tries = []
    for _ in range(MIN_FITTED + 2):
        called.clear()
        made.generate(requested)
        tries.append(max(called))
    assert tries == [4] + [2] * MIN_FITTED + [4]


def test_what_a_small_call_needed_says_nothing_of_others(tiny_qwen, ask):
    requested = [replace(one, max_new_tokens=2) for one in requests(ask)]
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    called = full_above(made.network, 2)
    for _ in range(MIN_FITTED):
        made.generate(requested[:1])  # each fits, and so would have any
    called.clear()
    made.generate(requested[:3])
    assert made._room.rows == 4, "three are fewer than fit, as far as is known"
    made.generate(requested)
    assert made._room.rows == 2
    for _ in range(MIN_FITTED):
        made.generate(requested[:1])
    assert made._room.rows == 2


def test_what_is_answered_is_not_asked_again_when_memory_runs_out(tiny_qwen, ask):
    """Late, when rows that were answered have left their places to others."""
    requested = requests(ask)
    expected = transformers(
        checkpoint=str(tiny_qwen), batch_size=1, continuous_batching=False
    ).generate(requested)
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    started, ended = [], []

    def watch(module, given, named):
        rows, width = named["input_ids"].shape
        if width > 1:
            started.append(rows)
        if len(started) == 3 and width > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    made.network.register_forward_pre_hook(watch, with_kwargs=True)
    output = type(made).to_response

    def noted(self, request, *rest):
        ended.append(request.key)
        return output(self, request, *rest)

    object.__setattr__(made, "to_response", noted.__get__(made))
    assert made.generate(requested) == expected
    assert sorted(ended) == sorted(request.key for request in requested)
    # Of the seven, three had ended when the seventh prompt did not fit: four began again.
    assert started[:3] == [4, 2, 1] and sum(started[3:]) == len(requested) - 3


def test_a_request_that_does_not_fit_alone_is_out_of_memory(tiny_qwen, ask):
    made = transformers(checkpoint=str(tiny_qwen), batch_size=4)
    full_above(made.network, 0)
    with pytest.raises(OutOfMemory):
        made.generate(requests(ask))


def spoil(made, *, token):
    """Make logits NaN from the first or second token on (0, 1) of responses to what has MARK."""
    (mark,) = made.processor.tokenizer(MARK, add_special_tokens=False)["input_ids"]

    def spoiled(module, given, named, output):
        tokens = named["input_ids"]
        if tokens.shape[1] == 1:  # of a response, which may hold anything
            return
        rows = (tokens == mark).any(dim=1)
        spoils = output.logits if token == 0 else output.past_key_values.layers[-1].keys
        spoils[rows] = float("nan")

    made.network.register_forward_hook(spoiled, with_kwargs=True)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("bad", ["g", "b"])  # begun with the first rows, and last
def test_logits_that_are_no_numbers_name_the_request_and_the_token(
    tiny_qwen, ask, bad, token, temperature
):
    made = transformers(checkpoint=str(tiny_qwen), batch_size=2, temperature=temperature)
    spoil(made, token=token)
    requested = [replace(one, text=one.text + MARK * (one.key == bad)) for one in requests(ask)]
    with pytest.raises(ModelError) as raised:
        made.generate(requested)
    assert str(raised.value).startswith(
        f"logits of token {token}: expected numbers, found NaN or infinity for request {bad}. "
        "Try dtype=bfloat16"
    )
    requested = [one for one in requested if one.key != bad]
    assert len(made.generate(requested)) == len(requested)


@dataclass(frozen=True)
class Marking(Boxing):
    """Puts MARK into one question."""

    bad: str
    calls: list[int] = field(default_factory=list)

    def generate(self, requests):
        self.calls.append(len(requests))
        marks = [MARK * (one.key == self.bad) for one in requests]
        pairs = zip(requests, marks, strict=True)
        return super().generate([replace(one, text=one.text + mark) for one, mark in pairs])


def test_logits_that_are_no_numbers_fail_their_sample_alone(tiny_qwen, shapes, tmp_path):
    chat = transformers(checkpoint=str(tiny_qwen), batch_size=2)
    spoil(chat, token=0)

    def said(bad):
        marking = Marking(chat, bad)
        model = qwen_vl(backend=marking, segmenter=Spec("box"), max_new_tokens=4, batch_size=2)
        task = plugins.build("tasks", Spec("shapes_referring"), shapes)
        run = evaluate(task, model, tmp_path / f"run{bad}", Options(subset="first6"))
        assert marking.calls[0] == 6, "more than there are rows"
        places = run.journal.places
        return {query: run.journal.record(query)["prediction"] for query in places}

    whole = said("")
    assert all("failure" not in one for one in whole.values())
    bad = sorted(whole)[3]
    found = said(bad)
    kind, message = found.pop(bad)["failure"]
    assert kind == FailureKind.MODEL
    assert "token 0" in message and "NaN" in message and bad in message
    assert found == {query: one for query, one in whole.items() if query != bad}


VOTES = 5


def votes(ask) -> list[ChatRequest]:
    """Several votes on an image, as many on a clip, between them others; unequal limits."""
    clip = ask(frames=6, size=(64, 80)).media
    requested = requests(ask)
    questions = [
        ChatRequest(key="p", text="what is it?", media=requested[0].media, max_new_tokens=4),
        ChatRequest(key="q", text="when is it?", media=clip, frames=((0, 3),), max_new_tokens=4),
        ChatRequest(key="r", text="when is it?", media=clip, frames=((1, 4),), max_new_tokens=4),
    ]
    several = [
        replace(one, key=f"{one.key}{vote}") for vote in range(VOTES) for one in questions[:2]
    ]
    return [*several, requested[0], questions[2], replace(requested[5], max_new_tokens=6)]


def counted(network):
    """Rows of the prompts that a network reads from now on, and images or clips that it sees."""
    read, seen = [], []

    def prompts_read(module, given, named):
        if named["input_ids"].shape[1] > 1:
            read.append(named["input_ids"].shape[0])

    def media_seen(module, given, named):
        grids = named["grid_thw"] if "grid_thw" in named else given[1]
        seen.append(len(grids))

    network.register_forward_pre_hook(prompts_read, with_kwargs=True)
    network.model.visual.register_forward_pre_hook(media_seen, with_kwargs=True)
    return read, seen


@pytest.mark.parametrize(
    "given", [{"temperature": 1.0}, {}, {"temperature": 1.0, "repetition_penalty": 1.4}]
)
@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_a_prompt_of_several_requests_is_made_and_read_once(
    request, ask, checkpoint, given, monkeypatch
):
    folder = str(request.getfixturevalue(checkpoint))
    requested = votes(ask)
    alone = transformers(
        checkpoint=folder, batch_size=1, continuous_batching=False, seed=2, **given
    )
    expected = [alone.generate([one])[0] for one in requested]
    if given:
        assert len({response.text for response in expected[::2][:VOTES]}) > 1
    made = []

    def noted(processor, chosen):
        made.extend(one.key for one in chosen)
        return processor_inputs(processor, chosen)

    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", noted)
    # Fewer rows than votes, a prompt's votes in two parts, room for all.
    for size, prefetch in ((1, True), (3, True), (4, True), (4, False), (20, True)):
        made.clear()
        rolled = transformers(
            checkpoint=folder, batch_size=size, seed=2, prefetch=prefetch, **given
        )
        read, seen = counted(rolled.network)
        assert rolled.generate(requested) == expected
        assert (sum(read), sum(seen)) == (5, 4)
        assert sorted(made) == ["a", "f", "p0", "q0", "r"]


def test_votes_fill_all_rows_and_no_more(tiny_qwen, ask):
    """The last one's prompt is read before there is a row for all of its votes."""
    rolled = transformers(checkpoint=str(tiny_qwen), batch_size=4, temperature=1.0)
    rows = []
    rolled.network.register_forward_pre_hook(
        lambda module, given, named: rows.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    one = ChatRequest(key="", text="what is it?", media=ask().media, max_new_tokens=6)
    requested = [replace(one, key=f"{text}{vote}", text=text) for text in "ab" for vote in range(3)]
    rolled.generate(requested)
    assert rows[0][0] == 2 and rows[0][1] > 1
    assert {count for count, width in rows if width == 1} <= {1, 2, 3, 4}
    assert rows[1] == (4, 1)
    assert sum(width > 1 for _, width in rows) == 1


def test_with_fewer_rows_for_want_of_memory_prompts_are_read_once_more_at_most(tiny_qwen, ask):
    requested = votes(ask)
    expected = transformers(
        checkpoint=str(tiny_qwen), batch_size=1, continuous_batching=False
    ).generate(requested)
    made = transformers(checkpoint=str(tiny_qwen), batch_size=8)
    full_above(made.network, 2)
    assert made.generate(requested) == expected


def parts_taken(waiting, rows, adding, length):
    """(rows free, prompts) of each part, as rows of these lengths come and go."""
    running, read, parts = [], [], []
    added = started = 0
    while True:
        while free := rows - len(running):
            if not read:
                part = waiting.take(free)
                if part is None:
                    assert free < max(1, rows // 4) or started == added, "rows are left empty"
                    break
                parts.append((free, part))
                read = [place for places in part for place in places]
                started += len(read)
            running.append(length(read.pop(0)))
        if not running:
            if not adding:
                return parts
            several = adding.pop(0)
            added += sum(map(len, several))
            waiting.add(several)
        first = min(running, default=0)
        running = [left - first for left in running if left > first]


def singles(number):
    return [[place] for place in range(number)]


@given(
    st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=12), max_size=2),
    st.integers(1, 12),
    st.lists(st.integers(1, 5), min_size=1),
)
def test_what_waits_is_begun_once_in_whole_prompts_and_fills_the_rows_first(calls, rows, lengths):
    places = iter(range(1000))
    adding = [[[next(places) for _ in range(count)] for count in call] for call in calls]
    several = [one for call in adding for one in call]
    waiting = PrefillQueue(
        lambda chosen: [*chosen],
        lambda chosen, made: [*chain(*made)],
        size=rows,
        worker=None,
        timer=WaitTimer(),
    )
    parts = parts_taken(waiting, rows, adding, lambda place: lengths[place % len(lengths)])
    assert [one for _, part in parts for one in part] == several
    for free, part in parts:
        assert sum(map(len, part[:-1])) < free, "no more prompts than are needed"


@pytest.mark.parametrize(
    ("length", "sizes"),
    [
        (lambda place: 5, [8] * 5),
        (lambda place: 5 + place, [8, *[2] * 16]),
        (lambda place: 5 if place < 24 else 5 + place, [8, 8, 8, 8, *[2] * 4]),
    ],
)
@pytest.mark.parametrize("threads", [0, 1])
def test_as_many_prompts_are_read_together_as_rows_are_free(length, sizes, threads):
    """Of responses that end together, whole batches; of others, a quarter as soon as it is free."""
    made = []

    def make(chosen):
        made.append(chosen)
        return [*chosen]

    with ThreadPoolExecutor(1) as pool:
        waiting = PrefillQueue(
            make,
            lambda chosen, shares: [*chain(*shares)],
            size=8,
            worker=pool if threads else None,
            timer=WaitTimer(),
        )
        parts = parts_taken(waiting, 8, [singles(40)], length)
    assert [one for _, part in parts for one in part] == singles(40)
    assert [len(part) for _, part in parts] == sizes
    assert [*chain(*made)] == singles(40), "the tensors of each prompt are made once"


def test_tensors_of_no_more_requests_than_rows_wait():
    made, taken = [], []

    def part(chosen, shares):
        taken.extend(chosen)
        return chosen

    with ThreadPoolExecutor(1) as pool:
        waiting = PrefillQueue(
            lambda chosen: made.extend(chosen), part, size=8, worker=pool, timer=WaitTimer()
        )
        waiting.add(singles(40))
        while waiting.take(2 if taken else 8):
            pool.submit(lambda: None).result()  # all that was begun is made
            assert len(made) == min(len(taken) + 8, 40)


def test_what_had_to_be_waited_for_is_counted():
    still = WaitTimer()
    slow = PrefillQueue(
        lambda chosen: time.sleep(0.02),
        lambda chosen, made: chosen,
        size=2,
        worker=None,
        timer=still,
    )
    slow.add(singles(4))
    assert [slow.take(2) for _ in range(3)] == [[[0], [1]], [[2], [3]], None]
    assert 0.06 <= still.seconds < 5


def positioned(chat, asked):
    made = processor_inputs(chat.processor, asked)
    made[POSITIONS] = token_positions.token_positions(chat.network, made)
    return made


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_tokens_stand_where_generate_has_them_and_the_network_remembers_nothing(
    request, ask, checkpoint
):
    chat = transformers(checkpoint=str(request.getfixturevalue(checkpoint)))
    requested = requests(ask)
    for some in (requested, *([one] for one in requested)):
        made = processor_inputs(chat.processor, some)
        chat.network.model.rope_deltas = None
        found = token_positions.token_positions(chat.network, made)
        assert chat.network.model.rope_deltas is None
        expected = chat.network._prepare_position_ids_for_generation(made["input_ids"], made)
        assert torch.equal(found, expected)


@pytest.mark.parametrize("prefetch", [True, False])
def test_positions_are_made_with_the_tensors_while_others_are_answered(
    tiny_qwen, ask, monkeypatch, prefetch
):
    threads = []
    positions_of_prompts = token_positions.token_positions

    def seen(network, made):
        threads.append(threading.current_thread().name.startswith("inputs"))
        return positions_of_prompts(network, made)

    monkeypatch.setattr(continuous_generation, "token_positions", seen)
    chat = transformers(
        checkpoint=str(tiny_qwen), batch_size=2, continuous_batching=True, prefetch=prefetch
    )
    chat.generate(requests(ask))
    assert len(threads) >= 4 and set(threads) == {prefetch}


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_tensors_of_shares_are_joined_to_those_of_all(request, ask, checkpoint):
    chat = transformers(checkpoint=str(request.getfixturevalue(checkpoint)))
    requested = requests(ask)
    for cuts in ([2, 5], [1, 2, 3, 4, 5, 6], [6], []):
        shares = [requested[a:b] for a, b in pairwise([0, *cuts, len(requested)])]
        made = [positioned(chat, share) for share in shares]
        whole = positioned(chat, requested)
        joined = joined_inputs(chat.processor, made)
        assert joined.keys() == whole.keys()
        assert all(torch.equal(joined[name], whole[name]) for name in whole)


@pytest.mark.parametrize("prefetch", [True, False])
def test_a_network_that_waits_for_images_says_how_long(tiny_qwen, ask, monkeypatch, prefetch):
    def slow(processor, chosen):
        time.sleep(0.05)
        return processor_inputs(processor, chosen)

    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", slow)
    for roll in (True, False):
        chat = transformers(
            checkpoint=str(tiny_qwen), batch_size=2, continuous_batching=roll, prefetch=prefetch
        )
        assert chat.wait_seconds == 0.0
        chat.generate(requests(ask))
        assert chat.wait_seconds >= (0.05 if prefetch else 0.15)


@pytest.mark.parametrize("roll", [True, False])
def test_a_wait_for_what_was_expected_is_counted(tiny_qwen, ask, monkeypatch, roll):
    """From when it is asked for: what was made before that took no time of the network's."""
    asked_for, taken = threading.Event(), PreparedInputs.take_if_same

    def slow(processor, chosen):
        if threading.current_thread().name.startswith("expected"):
            assert asked_for.wait(60)
            time.sleep(0.3)
        return processor_inputs(processor, chosen)

    def noted(expected, some):
        asked_for.set()
        return taken(expected, some)

    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", slow)
    monkeypatch.setattr(PreparedInputs, "take_if_same", noted)
    chat, some = (
        transformers(checkpoint=str(tiny_qwen), batch_size=8, continuous_batching=roll),
        requests(ask)[:2],
    )
    chat.prepare()
    chat.prepare_next(some)
    chat.generate(some)
    assert 0.3 <= chat.wait_seconds < 30


@pytest.mark.parametrize(
    ("checkpoint", "roll", "sliding", "grows"),
    [
        ("tiny_qwen", True, False, True),
        ("tiny_qwen", False, False, False),
        ("tiny_qwen", True, True, False),
        ("tiny_qwen35", True, False, False),
    ],
)
def test_a_batch_that_ends_together_has_a_growing_cache_where_rolling_is_possible(
    request, ask, monkeypatch, checkpoint, roll, sliding, grows
):
    folder = str(request.getfixturevalue(checkpoint))
    made = transformers(checkpoint=folder, batch_size=2, continuous_batching=roll)
    text = made.network.config.get_text_config()
    monkeypatch.setattr(text, "use_sliding_window", sliding, raising=False)
    caches = []
    generate = made.network.generate

    def noted(*given, past_key_values, **options):
        caches.append(past_key_values)
        return generate(*given, past_key_values=past_key_values, **options)

    monkeypatch.setattr(made.network, "generate", noted)
    media = ask(size=(40, 40)).media
    made.generate([ChatRequest(key="a", text="a", media=media, max_new_tokens=2)])
    (cache,) = caches
    assert (cache is not None) == grows
    if grows:
        assert {type(layer) for layer in cache.layers} == {PreallocatedCache}
