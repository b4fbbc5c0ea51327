"""A 400 that names a setting ends the run with what to change; others are of the sample."""

import json
import sys
from itertools import chain, repeat
from pathlib import Path

import pytest

from harness.errors import ModelError, UsageError
from harness.models.backends.openai import openai
from harness.models.backends.openai_refusal import FIXES, refused_setting

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract
from chat_server import Scripted, serving

REQUEST = contract.requests()["first"]
SENT = ("model", "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "top_k")
BODY = json.dumps(dict.fromkeys(SENT, 1)).encode()


def error(message, **others):
    return {"error": {"message": message, "type": "invalid_request_error", **others}}


SETTINGS = [
    (
        "max_tokens",
        error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        ),
    ),
    (
        "max_tokens",
        error(
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's "
            "maximum context length is 2048 tokens and your request has 1733 input tokens"
        ),
    ),
    ("max_tokens", error("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]")),
    (
        "temperature",
        error(
            "Unsupported value: 'temperature' does not support 0.0 with this model. "
            "Only the default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        ),
    ),
    ("temperature", {"object": "error", "message": "temperature must be non-negative, got -1.0."}),
    ("temperature", {"type": "error", "error": {"message": "temperature: range: 0..1"}}),
    ("top_k", error("Unrecognized request argument supplied: top_k")),
    ("top_k", {"message": "top_k must be -1 (disable), or at least 1, got 0.", "param": None}),
    ("top_p", error("top_p must be in (0, 1], got 0.0.", param="top_p")),
    (
        "seed",
        [
            {
                "error": {
                    "code": 400,
                    "message": "Invalid JSON payload received. Unknown name "
                    '"seed": Cannot find field.',
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
    ),
    (
        "seed",
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "seed"],
                    "msg": "Extra inputs are not permitted",
                    "input": 7,
                }
            ]
        },
    ),
    ("stop", error("property 'stop' is unsupported")),
    ("repetition_penalty", {"detail": "Unexpected fields in the request: {'repetition_penalty'}"}),
    ("reasoning_effort", error("Unknown parameter: 'reasoning_effort'.", param="reasoning_effort")),
    ("chat_template_kwargs", error("chat_template_kwargs: Extra inputs are not permitted")),
    (
        "max_tokens",
        error(
            "Provider returned error",
            metadata={"raw": json.dumps(error("Unknown parameter: 'max_tokens'"))},
        ),
    ),
    ("model", error("The model `x` is not available", param="model")),
    ("max_tokens", "max_tokens is not supported"),
]
OTHERS = [
    error(
        "This model's maximum context length is 4096 tokens. However, you requested 5120 tokens "
        "(4096 in the messages, 1024 in the completion).",
        param="messages",
    ),
    error(
        "You uploaded an unsupported image. Please make sure your image is valid.",
        param="messages.[0].content.[0].image_url",
        code="invalid_image_format",
    ),
    error("The decoder prompt (length 5120) is longer than the maximum model length of 4096."),
    error("Please stop sending images of this kind; the model does not seed them."),
    {
        "detail": [
            {
                "loc": ["body", "messages", 0, "content"],
                "msg": "max_tokens of text",
                "input": {"max_tokens": 9, "temperature": 0},
            }
        ]
    },
    {"detail": [{"loc": ["body", 33], "msg": "JSON decode error", "input": {"seed": 1}}]},
    {"error": {"message": None, "param": None}},
    "<html>Bad Request</html>",
    [],
    None,
]


@pytest.mark.parametrize(("name", "plain"), SETTINGS, ids=repr)
def test_a_setting_is_found_in_the_words_of_servers(name, plain):
    data = plain if isinstance(plain, str) else json.dumps(plain)
    assert refused_setting(data.encode(), BODY) == name
    assert FIXES[name]


@pytest.mark.parametrize("plain", OTHERS, ids=repr)
def test_what_is_wrong_with_a_sample_is_no_setting(plain):
    data = plain if isinstance(plain, str) else json.dumps(plain)
    assert refused_setting(data.encode(), BODY) is None


def chat(served, **settings):
    plain = {"model": served.model, "base_url": served.url, "coordinates": "pixels"}
    return openai(**plain, server="plain", wait=0.01, **settings)


def test_a_refused_setting_ends_the_run_at_the_first_request():
    fault = {"status": 400, "body": json.dumps(SETTINGS[0][1])}
    requested = [contract.replace(REQUEST, key=str(number)) for number in range(9)]
    with serving(Scripted(), faults=repeat(fault)) as served:
        with pytest.raises(UsageError, match=r"max_tokens as it was sent.*server=openai"):
            chat(served, concurrency=2).generate(requested)
        assert len(served.moments) <= 2


def test_a_refused_setting_in_an_answer_of_a_router_ends_the_run():
    plain = error("Provider returned error", code=400, metadata={"raw": "top_k is not supported"})
    fault = {"status": 200, "body": json.dumps(plain)}
    with serving(Scripted(), faults=repeat(fault)) as served:
        with pytest.raises(UsageError, match=r"top_k.*Leave top_k= out"):
            chat(served).generate([REQUEST])
        assert len(served.moments) == 1


def test_another_400_fails_the_sample_alone():
    faults = chain([{"status": 400, "body": json.dumps(OTHERS[1])}], repeat(""))
    with serving(Scripted(), faults=faults) as served:
        with pytest.raises(ModelError, match="unsupported image"):
            chat(served).generate([REQUEST])
        assert chat(served).generate([REQUEST]) == Scripted().generate([REQUEST])


def test_every_setting_that_is_sent_has_a_remedy():
    with serving(Scripted()) as served:
        for server in ("vllm", "sglang", "openai", "plain"):
            of_kind = {} if server in ("openai", "plain") else {"repetition_penalty": 1.1}
            made = openai(
                model=served.model,
                base_url=served.url,
                coordinates="pixels",
                server=server,
                temperature=1.0,
                presence_penalty=0.5,
                reasoning_effort="low",
                **of_kind,
            )
            request = contract.replace(REQUEST, stop=("end",), prefix="x" if of_kind else "")
            assert {*json.loads(made.form.body(request))} - {"messages"} <= {*FIXES}
