"""How many requests are under way, how long they wait, and keys and addresses."""

import json
import sys
import threading
import time
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import plugins
from harness.errors import ModelError, UsageError
from harness.models.backends import openai_http, rate_limiter
from harness.models.backends.openai import openai
from harness.models.backends.openai_http import checked_url, retry_after
from harness.models.backends.rate_limiter import RateLimiter, back_off
from harness.models.qwen_vl.model import qwen_vl
from harness.spec import parse as parse_spec
from harness.types import AnswerForm

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))
from chat_server import Scripted, serving

from .openai_requests import one, reached

KEY = "sk-very-secret-0123456789"


def test_requests_are_under_way_at_once_and_no_more_than_allowed():
    requested = [one(key=str(number)) for number in range(24)]

    with serving(Scripted(slowly=lambda: time.sleep(0.05))) as served:
        served.one_at_a_time = threading.Semaphore(100)
        began = time.monotonic()
        responses = reached(served, concurrency=6).generate(requested)
        took = time.monotonic() - began
    assert len(responses) == 24
    assert 2 <= served.busiest <= 6
    assert took < 24 * 0.05 * 0.9


def test_the_pace_doubles_until_a_crowd_then_grows_by_one_a_round_and_halves_once_a_crowd():
    pace = RateLimiter(start=4, limit=10)
    with pace.turn(threading.Event()) as began:
        pass
    for _ in range(4):
        pace.went_well()
    assert pace.limit == 8
    pace.was_crowded(began)
    pace.was_crowded(began)
    assert pace.limit == 4
    for _ in range(4):
        pace.went_well()
    assert 4.8 < pace.limit < 5.1
    for half in (2.5, 1.25):
        with pace.turn(threading.Event()) as later:
            pace.was_crowded(later)
        assert pace.limit == pytest.approx(half, abs=0.1)
    for _ in range(1000):
        pace.went_well()
    assert pace.limit == 10


@pytest.mark.parametrize(
    "header",
    [
        "20",
        "20.0",
        "Fri, 02 Jan 2026 03:04:25 GMT",
        "Fri, 02 Jan 2026 04:04:25 +0100",
        "Fri, 02 Jan 2026 03:04:25 -0000",
    ],
)
def test_seconds_or_a_date_to_come_are_waited_for_by_what_has_not_begun(monkeypatch, header):
    class Calendar(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    clock = count()
    monkeypatch.setattr(openai_http, "datetime", Calendar)
    monkeypatch.setattr(rate_limiter, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(rate_limiter, "POLL_SECONDS", 0.0)
    pace = RateLimiter(start=4, limit=4)
    requested = retry_after(header)
    assert requested == 20.0
    pace.was_crowded(0.0, wait=requested)  # at 0
    pace.was_crowded(0.0, wait=1.0)  # one that asks for less makes it no shorter
    with pace.turn(threading.Event()) as began:
        assert 20.0 <= began < 25.0  # in looks at the clock


@given(st.integers(0, 2000), st.floats(0, 10), st.one_of(st.none(), st.floats(0, 1000)))
def test_waits_are_bounded_and_never_shorter_than_asked(attempt, first, asked):
    wait = back_off(attempt, first=first, retry_after=asked)
    assert (asked or 0) <= wait <= max(60.0, asked or 0)


@given(st.text(max_size=40))
@settings(max_examples=50)
def test_whatever_a_server_asks_to_wait_is_seconds_or_nothing(value):
    seconds = retry_after(value)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://a/v1",
        "http://",
        "http://a:b/v1",
        "http://a:99999/v1",
        "http://a/v1?key=1",
        "http://a/v1#x",
        "http://a b/v1",
        "file:///etc/passwd",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="base_url"):
        checked_url(url)


def test_an_address_with_a_password_is_refused_and_not_shown():
    with pytest.raises(UsageError) as raised:
        checked_url(f"http://me:{KEY}@host/v1")
    assert KEY not in str(raised.value)
    assert checked_url("https://host:8443/v1/") == "https://host:8443/v1"


def test_the_key_comes_from_the_environment_and_is_told_to_nobody_else(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(Scripted(), key=KEY) as served:
        chat = reached(served, key_variable="MY_KEY")
        chat.generate([one()])
        assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert KEY not in json.dumps(dict(chat.describe())) + repr(chat)
        with pytest.raises(UsageError, match=r"status 401.*key_variable=NAME"):
            reached(served).generate([one()])
        monkeypatch.setenv("MY_KEY", "another-key")
        with pytest.raises(UsageError) as raised:
            reached(served, key_variable="MY_KEY").generate([one()])
        assert "another-key" not in str(raised.value)
        assert "***" in str(raised.value)


@pytest.mark.parametrize(("variable", "value"), [("MY_KEY", None), ("MY_KEY", "a b"), (KEY, "a")])
def test_a_key_that_is_none_is_refused_and_not_shown(monkeypatch, variable, value):
    if value is None:
        monkeypatch.delenv("MY_KEY", raising=False)
    elif variable == "MY_KEY":
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(UsageError) as raised:
        openai(model="m", base_url="http://h/v1", coordinates="pixels", key_variable=variable)
    assert KEY not in str(raised.value)
    assert "a b" not in str(raised.value)


def test_no_key_is_sent_unless_one_is_named(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(Scripted()) as served:
        reached(served).generate([one()])
    assert "Authorization" not in served.headers[0]


def test_an_address_of_the_environment_is_not_recorded(monkeypatch):
    with serving(Scripted()) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        chat = openai(model="served", coordinates="pixels")
        chat.prepare()
        assert chat.describe()["address"] == "OPENAI_BASE_URL"
        assert reached(served).describe()["address"] == served.url
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UsageError, match="base_url"):
        openai(model="served", coordinates="pixels")


def test_a_model_that_the_server_does_not_have_is_found_before_the_first_question():
    with serving(Scripted(), model="that") as served:
        with pytest.raises(UsageError, match=r"openai\(model=this\): .*\bthat$"):
            reached(served, model="this").prepare()
        reached(served).prepare()


def test_coordinates_are_asked_for_only_where_places_are(ask):
    model = qwen_vl(backend=openai(model="m", base_url="http://h/v1"), segmenter=parse_spec("box"))
    (request,) = model.requests(ask(AnswerForm.CHOICE, options=("red", "blue")))
    assert request.text and model.describe()["coordinates"] is None
    with pytest.raises(UsageError, match=r"asks for boxes: .*coordinates=…, what the numbers"):
        model.requests(ask(AnswerForm.BOXES))


def test_what_is_needed_and_not_known_is_asked_for():
    address = {"base_url": "http://h/v1"}
    with pytest.raises(UsageError, match="model"):
        openai(coordinates="pixels", **address)
    with pytest.raises(UsageError, match=r"openai\(prompt_price=…,completion_price=…\): "):
        openai(model="m", coordinates="pixels", prompt_price=1.0, **address)
    with pytest.raises(ModelError, match=r"^checkpoint '/nowhere': "):
        openai(model="m", tokenizer="/nowhere", **address)
    for name, value in {"quality": 0, "concurrency": 0, "retries": -1, "timeout": 0.0}.items():
        with pytest.raises(UsageError, match=name):
            openai(model="m", coordinates="pixels", **address, **{name: value})


def test_a_spec_names_everything_that_may_be_set():
    text = (
        "openai(model=a/b,base_url=http://localhost:8000/v1,server=sglang,coordinates=normalized_1000,"
        "quality=95,timeout=60)"
    )
    chat = plugins.build("backends", parse_spec(text))
    assert chat.describe()["model"] == "a/b"
    assert chat.describe()["images"] == "jpeg of quality 95"
    json.dumps(dict(chat.describe()), allow_nan=False)
