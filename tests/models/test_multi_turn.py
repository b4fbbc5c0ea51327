"""Conversations side by side: none waits for another, and nobody can tell from the responses."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError
from harness.models.backends.ablation import ablation
from harness.models.backends.openai import openai
from harness.models.multi_turn import ConversationScheduler, converse, question

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import Scripted, serving

WAIT = 20.0  # seconds after which a test that would hang fails


@dataclass
class Recorder:
    """A backend without a way of its own to converse."""

    calls: list = field(default_factory=list)

    def generate(self, requests):
        self.calls.append([one.key for one in requests])
        return [ChatResponse(text=f"{one.key}!") for one in requests]


@dataclass
class Without:
    """Another backend, which is asked turn by turn."""

    chat: object

    def generate(self, requests):
        return self.chat.generate(requests)


def talk(name, *turns, told=None):
    """A conversation with as many requests a turn; what it asks hangs on what was said."""
    output = []
    for number, count in enumerate(turns):
        text = "".join(response.text[-3:] for response in output[-1:])
        one = ChatRequest(key="", text=f"{name} {text}", max_new_tokens=20)
        responses = yield [replace(one, key=f"{name}{number}.{vote}") for vote in range(count)]
        if told is not None:
            told.append((name, number))
        assert len(responses) == count
        output += responses
    return name, [response.text for response in output]


def test_a_backend_without_a_way_of_its_own_is_asked_turn_by_turn():
    chat = Recorder()
    ends = converse(chat, [talk("a", 2, 1), talk("b"), talk("c", 1, 0, 2, 1)])
    assert chat.calls == [["a0.0", "a0.1", "c0.0"], ["a1.0", "c2.0", "c2.1"], ["c3.0"]]
    assert ends == [
        ("a", ["a0.0!", "a0.1!", "a1.0!"]),
        ("b", []),
        ("c", ["c0.0!", "c2.0!", "c2.1!", "c3.0!"]),
    ]
    assert converse(chat, []) == []
    assert len(chat.calls) == 3


def test_a_conversation_goes_on_at_its_last_response_in_whatever_order_they_come():
    scheduler = ConversationScheduler([talk("a", 2, 1), question(ChatRequest(key="b", text=""))])
    assert [one.key for one in scheduler.requests] == ["a0.0", "a0.1", "b"]
    output = [ChatResponse(text=one) for one in "xyz"]
    assert not scheduler.receive(1, output[1]) and scheduler.pending_indices() == [0, 2]
    assert list(scheduler.receive(0, output[0])) == [3] and scheduler.requests[3].key == "a1.0"
    assert not scheduler.receive(3, output[2]) and not scheduler.receive(2, output[0])
    assert scheduler.ends() == [("a", ["x", "y", "z"]), output[0]]


# a network in process


def searches(ask, told=None, votes=2):
    """Conversations about images and a clip, of unequal numbers of turns and limits."""
    image, clip = ask(size=(150, 60)).media, ask(frames=6, size=(64, 80)).media

    def search(name, media, frames, limits, votes):
        output = []
        for number, limit in enumerate(limits):
            text = f"{name} {number} " + "".join(response.text[:2] for response in output)
            request = ChatRequest(
                key=name, text=text, media=media, frames=frames, max_new_tokens=limit
            )
            output += yield [
                replace(request, key=f"{name}{number}.{vote}") for vote in range(votes)
            ]
            if told is not None:
                told.append((name, number))
        return output

    return [
        search("long", image, (), (12, 5), votes),
        search("short", clip, ((0, 2, 4),), (1, 2, 3, 1), votes),
        search("one", image, (), (3,), 3),
        search("none", image, (), (), 1),
        search("plain", (), (), (2, 6, 1), 1),
    ]


DRAWN = {"temperature": 1.0, "repetition_penalty": 1.4}


@pytest.mark.parametrize(
    ("checkpoint", "given"),
    [("tiny_qwen", {}), ("tiny_qwen", DRAWN), ("tiny_qwen3", DRAWN), ("tiny_qwen35", DRAWN)],
)
def test_what_is_said_is_what_is_said_turn_by_turn(request, ask, checkpoint, given):
    from harness.models.backends.transformers import transformers

    folder = str(request.getfixturevalue(checkpoint))
    alone = transformers(
        checkpoint=folder, batch_size=1, continuous_batching=False, seed=3, **given
    )
    expected = converse(Without(alone), searches(ask))
    assert [len(output) for output in expected] == [4, 8, 3, 0, 3]
    ways = [{"batch_size": size} for size in (1, 3, 20)] + [{"batch_size": 3, "prefetch": False}]
    if checkpoint != "tiny_qwen35":  # whose rows never roll
        ways.append({"batch_size": 3, "continuous_batching": False})
    for way in ways:
        made = transformers(checkpoint=folder, seed=3, **given, **way)
        assert converse(made, searches(ask)) == expected


@pytest.mark.parametrize("votes", [1, 2])
def test_a_short_conversation_goes_on_while_a_long_response_is_written(tiny_qwen, ask, votes):
    from harness.models.backends.transformers import transformers

    info = []
    made = transformers(checkpoint=str(tiny_qwen), batch_size=8)

    def watch(module, given, named):
        if named["input_ids"].shape[1] > 1:
            info.append("read")

    made.network.register_forward_pre_hook(watch, with_kwargs=True)
    converse(made, searches(ask, info, votes)[:2])
    first, end = info.index(("short", 0)), info.index(("long", 0))
    assert info[first:end].count("read") == 3, "all the other turns of the short one were begun"
    assert ("short", 3) in info[first:end]
    info.clear()
    converse(Without(made), searches(ask, info, votes)[:2])
    assert info.index(("long", 0)) < info.index(("short", 1))


@pytest.mark.parametrize("roll", [True, False])
def test_where_memory_runs_out_fewer_rows_are_tried_and_none_twice(tiny_qwen, ask, roll):
    from harness.models.backends.transformers import transformers

    torch = pytest.importorskip("torch")
    expected = converse(transformers(checkpoint=str(tiny_qwen), batch_size=1), searches(ask))
    made = transformers(checkpoint=str(tiny_qwen), batch_size=8, continuous_batching=roll)
    rows, ended = [], []

    def watch(module, given, named):
        rows.append(named["input_ids"].shape[0])
        if rows[-1] > 3 and ended:  # late, when some are answered
            raise torch.OutOfMemoryError("CUDA out of memory")

    made.network.register_forward_pre_hook(watch, with_kwargs=True)
    output = type(made).to_response

    def noted(self, request, *rest):
        ended.append(request.key)
        return output(self, request, *rest)

    object.__setattr__(made, "to_response", noted.__get__(made))
    assert converse(made, searches(ask)) == expected
    assert len(ended) == len(set(ended)) == sum(map(len, expected))


def test_a_turn_of_more_requests_than_the_first_is_halved_too(tiny_qwen):
    from harness.models.backends.transformers import transformers

    torch = pytest.importorskip("torch")
    expected = converse(transformers(checkpoint=str(tiny_qwen), batch_size=1), [talk("a", 1, 5)])
    made = transformers(checkpoint=str(tiny_qwen), batch_size=8)

    def watch(module, given, named):
        if named["input_ids"].shape[0] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    made.network.register_forward_pre_hook(watch, with_kwargs=True)
    assert converse(made, [talk("a", 1, 5)]) == expected


def test_a_network_whose_images_are_altered_is_asked_turn_by_turn(tiny_qwen, ask):
    from harness.models.backends.transformers import transformers

    alone = transformers(checkpoint=str(tiny_qwen), batch_size=1, continuous_batching=False)
    expected = converse(Without(ablation(chat=alone, images="grey")), searches(ask))
    made = ablation(chat=transformers(checkpoint=str(tiny_qwen)), images="grey")
    assert without_calls(converse(made, searches(ask))) == without_calls(expected)


def without_calls(ends):
    """Take the requests out of responses: equal images are different objects."""
    return [[replace(one, calls=()) for one in responses] for responses in ends]


# a server


@dataclass(frozen=True)
class Held(Scripted):
    """A network whose first response to `slow` is held back until another conversation is over."""

    over: threading.Event = field(default_factory=threading.Event)

    def generate(self, requests):
        if any(one.text == "slow " for one in requests):
            assert self.over.wait(WAIT), "the others wait for it"
        return super().generate(requests)


def reached(served, **settings):
    plain = {"model": served.model, "base_url": served.url, "coordinates": "pixels", "wait": 0.01}
    return openai(**(plain | settings))


@pytest.mark.parametrize("concurrency", [2, 8])
def test_a_slow_response_of_a_server_holds_up_no_other_conversation(concurrency):
    info, network = [], Held()

    def last():
        end = yield from talk("fast", 1, 2, 1, told=info)
        network.over.set()
        return end

    slow = talk("slow", 1, 1, told=info)
    expected = converse(Without(Scripted()), [talk("slow", 1, 1), talk("fast", 1, 2, 1)])
    with serving(network) as served:
        served.one_at_a_time = threading.Semaphore(100)
        chat = reached(served, concurrency=concurrency, retries=0)
        assert converse(chat, [slow, last()]) == expected
        assert served.busiest <= concurrency
        assert chat.usage.requests == 6
    assert info == [("fast", 0), ("fast", 1), ("fast", 2), ("slow", 0), ("slow", 1)]


def test_a_request_that_a_server_refuses_is_the_error_and_the_others_are_not_asked_again():
    with serving(Scripted(), faults=["", "", "400"]) as served:
        chat = reached(served, concurrency=1)
        with pytest.raises(ModelError):
            converse(chat, [talk("a", 2, 1), talk("b", 1, 1), talk("c", 1, 2)])
        before = len(served.moments)
        assert before == 2 + 1 + 1 + 1 + 2, "the others went on to their ends"
        expected = converse(Without(Scripted()), [talk("a", 2, 1), talk("c", 1, 2)])
        assert converse(chat, [talk("a", 2, 1), talk("c", 1, 2)]) == expected
        with pytest.raises(ModelError):
            converse(chat, [talk("b", 1, 1)])
        assert len(served.moments) == before


def test_an_error_of_a_conversation_itself_ends_the_call():
    def broken():
        yield [ChatRequest(key="x", text="x")]
        raise ZeroDivisionError

    with serving(Scripted()) as served:
        for chat in (reached(served), Recorder()):
            with pytest.raises(ZeroDivisionError):
                converse(chat, [talk("a", 1, 1), broken()])


# work in other threads


def works(name, pool, work, turns=1):
    """A conversation that waits for work in another thread between its requests."""
    output = []
    for number in range(turns):
        request = ChatRequest(key=f"{name}{number}", text="".join(output), max_new_tokens=6)
        yield (request,)
        future = pool.submit(work, name, number)
        assert (yield future) == ()
        output.append(future.result())
    return name, output


def chats(request):
    """The three ways to converse: turn by turn, with a server, with a network in process."""
    yield Recorder()
    with serving(Scripted()) as served:
        yield reached(served)
    pytest.importorskip("torch")
    from harness.models.backends.transformers import transformers

    yield transformers(checkpoint=str(request.getfixturevalue("tiny_qwen")), batch_size=2)


def test_a_conversation_may_wait_for_work_while_others_go_on(request):
    for chat in chats(request):
        others = threading.Event()

        def work(name, number, others=others):
            if name == "slow":
                assert others.wait(WAIT), "the others do not go on"
            elif number == 2:
                others.set()
            return f"{name} {number};"

        with ThreadPoolExecutor(2) as pool:
            ends = converse(chat, [works("slow", pool, work), works("fast", pool, work, turns=3)])
        assert ends == [("slow", ["slow 0;"]), ("fast", ["fast 0;", "fast 1;", "fast 2;"])]


def test_what_work_raises_is_raised_in_its_conversation(request):
    def caught(pool):
        yield (ChatRequest(key="a", text="", max_new_tokens=4),)
        future = pool.submit(int, "x")
        yield future
        try:
            future.result()
        except ValueError:
            return "caught"

    for chat in chats(request):
        with ThreadPoolExecutor(1) as pool:
            assert converse(chat, [caught(pool)]) == ["caught"]
