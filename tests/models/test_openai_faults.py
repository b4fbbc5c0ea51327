"""A server that hangs, refuses, breaks off or talks nonsense: each has one defined outcome.

What servers say in their own forms, and what comes of each, is in tests/serving: faults.jsonl was
written after their documentation, recorded.jsonl has what real ones sent (record_faults.py).
"""

import json
import sys
import threading
import time
from contextlib import nullcontext
from itertools import chain, repeat
from pathlib import Path

import pytest

from harness.errors import HarnessError, MissingDependency, ModelError, UsageError
from harness.masks import Rle
from harness.models.backends import openai_session
from harness.models.backends.openai import openai
from harness.models.backends.openai_http import MAX_BYTES, Endpoint, RetryableError, ServerError
from harness.models.backends.openai_response import check_model, read_answer
from harness.models.backends.rate_limiter import CallCancelled, RateLimiter, back_off
from harness.models.qwen_vl.model import qwen_vl
from harness.responses import MAX_TEXT
from harness.run.predict import predict
from harness.run.timing import Stage
from harness.spec import Spec
from harness.types import AnswerForm, FailureKind

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract
import record_faults
from chat_server import HUGE, Scripted, serving

SERVING = Path(__file__).parents[1] / "serving"


def rows(name):
    return [json.loads(line) for line in (SERVING / name).read_text(encoding="utf-8").splitlines()]


WRITTEN, RECORDED = rows("faults.jsonl"), rows("recorded.jsonl")
REQUEST = contract.requests()["first"]


def reached(served, **settings):
    plain = {
        "model": served.model,
        "base_url": served.url,
        "coordinates": "pixels",
        "wait": 0.01,
        "retries": 2,
        "timeout": 10.0,
    }
    return openai(**(plain | settings))


PASSING = [
    "500",
    "503",
    "429",
    "closes",
    "closes_half_way",
    "garbage",
    "no_json",
    "no_object",
    "no_choices",
]


@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_tried_again_and_then_answered(fault):
    with serving(Scripted(), faults=[fault, fault]) as served:
        chat = reached(served)
        assert chat.generate([REQUEST]) == Scripted().generate([REQUEST])
        assert chat.usage.retries == 2


@pytest.mark.parametrize("fault", PASSING)
def test_what_does_not_pass_is_no_fault_of_the_model(fault):
    with serving(Scripted(), faults=repeat(fault)) as served:
        with pytest.raises(ServerError, match="3 tries"):
            reached(served).generate([REQUEST])
        assert len(served.moments) == 3


@pytest.mark.parametrize("fault", ["hang", "trickle"])
def test_a_server_that_does_not_end_its_answer_is_left_after_the_time_given(fault):
    with serving(Scripted(), faults=[fault]) as served:
        chat = reached(served, timeout=0.4)
        began = time.monotonic()
        assert chat.generate([REQUEST]) == Scripted().generate([REQUEST])
        assert 0.4 <= time.monotonic() - began < 8
        with pytest.raises(ServerError, match=r"in 0\.4 s"):
            served.faults = repeat(fault)
            reached(served, timeout=0.4, retries=0).generate([REQUEST])


def test_the_time_that_a_server_asks_for_is_waited():
    with serving(Scripted(), faults=["429"], retry_after="0.3") as served:
        reached(served).generate([REQUEST])
    first, second = served.moments
    assert second - first >= 0.3


def test_the_time_that_a_server_asks_for_is_waited_by_all_requests():
    """The first of two under way is answered when the second was told to wait; two are to come."""

    def slowly():
        until = time.monotonic() + 60.0
        while not chat.usage.retries and time.monotonic() < until:
            time.sleep(0.01)

    requested = [contract.replace(REQUEST, key=str(number)) for number in range(4)]
    with serving(Scripted(slowly=slowly), faults=["", "429"], retry_after="0.3") as served:
        chat = reached(served, concurrency=2, timeout=120.0)
        assert chat.generate(requested) == Scripted().generate(requested)
    _, refused, *others = served.moments
    assert len(others) == 3  # what was refused, and the two
    assert min(others) - refused >= 0.3


def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for():
    with serving(Scripted(), faults=["429"], retry_after="86400") as served:
        with pytest.raises(ServerError, match="86400 s"):
            reached(served).generate([REQUEST])
        assert len(served.moments) == 1


@pytest.mark.parametrize("fault", ["empty", "null"])
def test_an_empty_response_is_a_response(fault):
    with serving(Scripted(), faults=[fault]) as served:
        (response,) = reached(served).generate([REQUEST])
    assert (response.text, response.completion_tokens) == ("", 0)


def test_a_response_of_ten_megabytes_is_taken_and_an_endless_one_is_not():
    with serving(Scripted(), faults=["huge", "endless"]) as served:
        (response,) = reached(served).generate([REQUEST])
        assert len(response.text) == HUGE
        with pytest.raises(ModelError, match=str(MAX_BYTES)):
            reached(served).generate([REQUEST])
        assert len(served.moments) == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("wrong_model", r"\bserved, .*another\. .*model="),
        ("401", "key"),
        ("404", r"status 404.*base_url=.*model="),
        ("302", "status 302"),
    ],
)
def test_what_no_request_would_survive_ends_the_run_at_once(fault, words):
    requested = [contract.replace(REQUEST, key=str(number)) for number in range(12)]
    with serving(Scripted(), faults=repeat(fault)) as served:
        with pytest.raises(UsageError, match=words):
            reached(served, concurrency=2).generate(requested)
        assert len(served.moments) <= 3


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("gpt-4o", True),
        ("gpt-4o-2024-08-06", True),
        ("gpt-4o-20240806", True),
        ("gpt-4o@20240806", True),
        ("gpt-4o-0806", True),
        ("gpt-4o-002", True),
        ("gpt-4o@main", True),  # transformers serve
        ("gpt-4o@other", False),
        ("gpt-4o-mini@main", False),
        ("gpt-4o-7B", False),
        ("gpt-4o-405", False),
        ("gpt-4o-mini", False),
        ("gpt-4o-mini-2024-07-18", False),
        ("gpt-4o-AWQ", False),
        ("gpt-4o-2024-08-06-AWQ", False),
        ("gpt-4", False),
        (None, True),  # some servers do not say
    ],
)
def test_a_dated_release_is_the_model_asked_for_and_another_size_is_not(name, same):
    with nullcontext() if same else pytest.raises(UsageError, match=rf"gpt-4o, .*{name}\."):
        check_model(name, wanted="gpt-4o", url="here")


@pytest.mark.parametrize(
    ("text", "ended", "most", "broken"),
    [
        ("<think>It" + "!" * 60, "length", 64, True),
        ("<think>It" + "!" * 60, "stop", 64, False),
        ("!" * 16, "length", 16, True),
        ("Well!" * 16, "length", 64, False),
        ("<think>a</think><answer>B</answer>" + "!" * 60, "length", 64, False),
    ],
)
def test_what_is_written_for_logits_that_are_no_numbers_is_no_response(text, ended, most, broken):
    known = openai(
        model="m", base_url="http://127.0.0.1:9/v1", coordinates="pixels"
    ).remote_processor
    choice = {"message": {"content": text}, "finish_reason": ended}
    answer = {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 62}}
    request = contract.replace(REQUEST, max_new_tokens=most, stop=())
    with pytest.raises(ModelError, match="NaN") if broken else nullcontext():
        read_answer(answer, request, known)


def test_a_request_that_the_server_refuses_is_the_models_failure_and_is_not_repeated():
    with serving(Scripted(), faults=["400"]) as served:
        with pytest.raises(ModelError, match="fault 400"):
            reached(served).generate([REQUEST])
        assert len(served.moments) == 1


def test_a_server_that_is_not_there_is_missing_before_the_first_question():
    with serving(Scripted()) as served:
        url = served.url
    chat = openai(model="m", base_url=url, coordinates="pixels", retries=1, wait=0.01)
    with pytest.raises(MissingDependency, match="vllm serve"):
        chat.prepare()
    with pytest.raises(ServerError):
        chat.generate([REQUEST])


@pytest.fixture
def give_up(monkeypatch):
    """Failures in a row that end a run here."""
    assert openai_session.MAX_FAILURES == 20
    monkeypatch.setattr(openai_session, "MAX_FAILURES", 5)
    return 5


def test_many_failures_in_a_row_end_the_run(give_up):
    with serving(Scripted(), faults=repeat("500")) as served:
        chat = reached(served, retries=0, concurrency=1)
        for _ in range(give_up - 1):
            with pytest.raises(ServerError):
                chat.generate([REQUEST])
        with pytest.raises(MissingDependency, match=r"\b5 failed requests .*status 500"):
            chat.generate([REQUEST])


def test_failures_between_answers_do_not(give_up):
    faults = chain.from_iterable(repeat(["500", ""]))
    with serving(Scripted(), faults=faults) as served:
        chat = reached(served, retries=0, concurrency=1)
        for _ in range(give_up + 2):
            with pytest.raises(ServerError):
                chat.generate([REQUEST])
            chat.generate([REQUEST])


def test_a_crowded_server_is_asked_less_at_once():
    with serving(Scripted(), faults=repeat("503", 6)) as served:
        chat = reached(served, retries=8)
        before = chat.session.pace.limit
        requested = [contract.replace(REQUEST, key=str(number)) for number in range(3)]
        assert len(chat.generate(requested)) == 3
        assert chat.session.pace.limit < before


def session_of():
    made = openai(model="m", base_url="http://127.0.0.1:9/v1", coordinates="pixels", concurrency=1)
    return made.session


def test_what_begins_while_all_is_halted_is_given_up_until_another_run_begins():
    session = session_of()
    requested = []

    def ask(request):
        requested.append(request)
        return Scripted().generate([request])[0]

    session.prepare = lambda request: lambda: ask(request)
    session.halt()  # between a run's look whether it ends, and the request that it then begins
    with pytest.raises(CallCancelled):
        session.responses([REQUEST])
    assert requested == []
    session.with_retries(lambda: {}, threading.Event())
    assert session.responses([REQUEST]) == Scripted().generate([REQUEST])


def test_what_one_run_remembers_is_asked_again_by_the_next():
    session = session_of()
    one, other = (contract.replace(REQUEST, key=key) for key in ("one", "other"))
    requested = []

    def ask(request):
        requested.append(request)
        if request is other:
            raise ModelError("request", expected="one that it takes", found="status 400")
        return Scripted().generate([request])[0]

    session.prepare = lambda request: lambda: ask(request)
    for run in (1, 2):
        session.with_retries(lambda: {}, threading.Event())
        with pytest.raises(ModelError):
            session.responses([one, other])
        assert requested.count(one) == run
    assert session.responses([one])
    assert requested.count(one) == 2  # within a run it is remembered


def test_what_is_under_way_when_all_is_halted_is_not_tried_again():
    session = session_of()
    tries = []

    def ask(request):
        tries.append(request)
        session.halt()
        raise RetryableError("busy")

    session.prepare = lambda request: lambda: ask(request)
    with pytest.raises(CallCancelled):
        session.responses([REQUEST])
    assert len(tries) == 1


class Said(Scripted):
    """A network that says VisionReasoner's answer, whatever it is asked."""

    def _response(self, request):
        made = super()._response(request)
        answer = '<answer>[{"bbox_2d": [84, 84, 420, 420], "point_2d": [200, 200]}]</answer>'
        return contract.replace(made, text=f"<think>{made.text}</think>{answer}")


def asked_by_the_engine(ask, faults, texts, **settings):
    """Predictions of the engine for questions that a faulty server is asked, one at a time."""
    with serving(Said(), faults=faults) as served:
        spec = Spec(
            "openai",
            {
                "base_url": served.url,
                "model": "served",
                "coordinates": "normalized_1000",
                "wait": 0.01,
                "retries": 1,
                "concurrency": 1,
                "timeout": 5.0,
                **settings,
            },
        )
        model = qwen_vl(backend=spec, segmenter=Spec("box"))
        queries = [ask(AnswerForm.MASK, text=text) for text in texts]
        outcome = Stage()
        return predict(model, queries, outcome), served, outcome


def test_one_request_that_fails_costs_the_others_nothing(ask):
    faults = ["", "500", "500", "", ""]
    output, served, outcome = asked_by_the_engine(ask, faults, ["a", "b", "c", "d"])
    kinds = [one.failure and one.failure.kind for one in output]
    assert kinds == [None, FailureKind.INFRASTRUCTURE, None, None]
    assert "status 500" in output[1].failure.message
    assert len(served.moments) == 5  # two tries of one, one of each other: none was paid for twice
    assert outcome.crashed == 0
    assert all(one.answer.masks[0].area for one in output if one.answer)


def test_an_empty_and_a_huge_response_are_failures_of_parsing(ask):
    output, _, _ = asked_by_the_engine(ask, ["empty", "huge"], ["a", "b", "c"])
    kinds = [one.failure and one.failure.kind for one in output]
    assert kinds == [FailureKind.PARSE, FailureKind.PARSE, None]
    assert len(output[1].responses[0]) < MAX_TEXT + 100
    assert isinstance(output[2].answer.masks[0], Rle)


def test_a_refused_request_is_a_failure_of_the_model(ask):
    output, _, _ = asked_by_the_engine(ask, ["", "400"], ["a", "b"])
    assert output[0].failure is None
    assert output[1].failure.kind is FailureKind.MODEL


def test_a_wrong_key_ends_the_run(ask):
    with pytest.raises(UsageError, match="key"):
        asked_by_the_engine(ask, repeat("401"), ["a", "b"])


@pytest.fixture
def quick(monkeypatch):
    """Wait a tenth of what servers ask for; returns the tenth."""
    crowded = RateLimiter.was_crowded
    monkeypatch.setattr(
        RateLimiter,
        "was_crowded",
        lambda self, began, *, wait: crowded(self, began, wait=wait and wait / 10),
    )
    monkeypatch.setattr(
        openai_session, "back_off", lambda *given, **named: back_off(*given, **named) / 10
    )
    return 0.1


@pytest.mark.parametrize(
    "fault", WRITTEN + RECORDED, ids=lambda one: f"{one['server']}: {one['name']}"
)
def test_what_servers_say_in_their_own_forms_has_the_outcome_beside_it(ask, fault, quick):
    outcome = fault["outcome"]
    faults = [fault] * outcome["tries"]
    if outcome["kind"] == "run":
        with pytest.raises(HarnessError) as raised:
            asked_by_the_engine(ask, chain(faults, repeat("hang")), ["a", "b"])
        assert raised.value.exit_code == outcome["exit"]
        assert not isinstance(raised.value, ServerError)
        heard = str(raised.value)
    else:
        (first, second), served, _ = asked_by_the_engine(ask, faults, ["a", "b"])
        assert first.failure.kind is FailureKind(outcome["kind"])
        assert len(served.moments) == outcome["tries"] + 1
        assert served.moments[-2] - served.moments[0] >= quick * outcome.get("waits", 0.0)
        assert second.failure is None  # nothing else is lost
        assert first.responses == ((outcome["response"],) if "response" in outcome else ())
        assert set(outcome.get("notes", ())) <= set(first.notes)
        heard = first.failure.message
    for words in outcome["says"]:
        assert words in heard
    assert "<html" not in heard


TOLD_EARLY = [one for one in RECORDED if one["ends"] == "reset"]


@pytest.mark.parametrize("fault", TOLD_EARLY, ids=lambda one: one["name"])
def test_what_is_said_before_a_large_request_is_read_is_heard(fault):
    with serving(Scripted(), faults=[fault]) as served:
        endpoint = Endpoint(url=served.url, timeout=10.0)
        with pytest.raises((UsageError, RetryableError), match=rf"status {fault['status']}"):
            endpoint.post("/chat/completions", b" " * 16_000_000)


def test_every_row_that_is_recorded_is_of_a_fault_that_the_recorder_provokes():
    known = {(kind, one.name): one.outcome for kind, one in record_faults.faults()}
    for row in RECORDED:
        outcome = {name: output for name, output in row["outcome"].items() if name != "response"}
        assert outcome == known.pop((row["server"].split()[0], row["name"]))
        assert any(character.isdigit() for character in row["server"]), "no version"
    assert known == {}, "not recorded"
