"""The response and the tokens of a chat completion, and a check of the model that wrote it."""

import re
from collections.abc import Mapping
from typing import Any

from harness.errors import ModelError, UsageError
from harness.model import ChatRequest, ChatResponse
from harness.models.backends.nan_guard import refuse_broken
from harness.models.backends.openai_http import RetryableError
from harness.models.backends.remote_processor import RemoteProcessor
from harness.models.backends.stop_strings import until_stop
from harness.responses import storable

FILTERED = "content_filter"
DATED = re.compile(r"[-@](20\d\d-?\d\d-?\d\d|[01]\d[0-3]\d|0\d\d)")
UNNAMED = "@main"
"""The revision that `transformers serve` puts behind a name which has none."""
LISTED = 5  # models of a server that an error names


def read_answer(
    answer: Mapping[str, Any], request: ChatRequest, network: RemoteProcessor
) -> ChatResponse:
    """The response in a chat completion.

    Reasoning that the server has taken out of the text is put back in `<think>` tags, which the
    grammars read. No text at all is an empty response, which no grammar has.

    Raises:
        RetryableError: it is no chat completion.
        ModelError: a filter of the server has withheld the response, or the rest of it; or the
            logits were no numbers.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text = message.get("content") or message.get("refusal") or ""
        thoughts = message.get("reasoning_content") or message.get("reasoning") or ""
        ended = choice.get("finish_reason")
        if not (isinstance(text, str) and isinstance(thoughts, str)):
            raise TypeError("content that is no text")
    except (LookupError, TypeError, AttributeError) as error:
        raise RetryableError(f"an answer without a message ({type(error).__name__})") from error
    if ended == FILTERED:
        raise ModelError(
            "response",
            expected="all that the network says",
            found=f"a content filter of the server (finish_reason {FILTERED})",
            fix="The network's own words are had from a server without one.",
        )
    output = f"<think>{thoughts}</think>{text}" if thoughts else text
    refuse_broken(text or thoughts, cut=ended == "length", request=request)
    prompt, completion = _counts(answer.get("usage"))
    response = ChatResponse(
        text=f"{request.prefix}{output}",
        prompt_tokens=prompt or 0,
        completion_tokens=network.count_tokens(output) if completion is None else completion,
        cut=ended == "length",
        canvases=network.canvases(request),
    )
    return until_stop(response, request)


def _counts(usage: object) -> tuple[int | None, int | None]:
    """Tokens of prompt and completion, as far as a server counts them."""
    given = usage if isinstance(usage, Mapping) else {}
    values = [given.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (one if type(one) is int and one >= 0 else None for one in values)
    return prompt, completion


def check_model(name: object, *, wanted: str, url: str) -> None:
    """Raise UsageError if an answer is another model's.

    A server may answer for a release of what was asked for (`NAME-2024-08-06`, `NAME-0613`,
    `NAME-002`, `NAME@main`), and for nothing else that begins like it (`NAME-mini`, `NAME-7B`,
    `NAME-AWQ`, `NAME@v2`).
    """
    if not isinstance(name, str) or name in (wanted, f"{wanted}{UNNAMED}"):
        return
    if not (name.startswith(wanted) and DATED.fullmatch(name[len(wanted) :])):
        raise UsageError(
            f"server {url}",
            expected=f"responses of {wanted}",
            found=f"one of {storable(name, 100)}",
            fix="Give its own name as model=.",
        )


def check_listed(listed: Mapping[str, object], *, wanted: str, url: str) -> None:
    """Raise UsageError if a server lists its models and the one wanted is not among them."""
    data = listed.get("data")
    rows = data if isinstance(data, list) else []
    names = [str(one["id"]) for one in rows if isinstance(one, dict) and "id" in one]
    if names and wanted not in names:
        shown = storable(", ".join(names[:LISTED]), 200)
        raise UsageError(
            f"openai(model={wanted})",
            expected=f"a model of the server at {url}",
            found=f"it has {shown}",
        )
