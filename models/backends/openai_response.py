"""The response and the tokens of a chat completion, and a check of the model that wrote it."""

import re
from collections.abc import Mapping
from typing import Any

from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, UsageError
from harness.models.backends.nan_guard import refuse_broken
from harness.models.backends.openai_http import RetryableError
from harness.models.backends.remote_processor import RemoteProcessor
from harness.models.backends.stop_strings import until_stop
from harness.responses import storable

FILTERED = "content_filter"
TEXTS = ("text", "output_text", "refusal")
"""Types of parts of a message that are said."""
REASONING = ("thinking", "reasoning", "reasoning_text", "summary_text", "redacted_thinking")
"""Types of parts that are not."""
KEYS = ("text", "thinking", "reasoning", "summary", "content", "refusal", "data")
"""Keys that the text of a part stands under."""
DATED = re.compile(r"[-@](20\d\d-?\d\d-?\d\d|[01]\d[0-3]\d|0\d\d)")
UNNAMED = "@main"
"""The revision that `transformers serve` puts behind a name which has none."""
LISTED = 5  # models of a server that an error names


def read_answer(
    answer: Mapping[str, Any], request: ChatRequest, network: RemoteProcessor
) -> ChatResponse:
    """The response in a chat completion.

    Reasoning that the server has taken out of the text is put before it in `<think>` tags, which
    every grammar cuts off. No text at all is an empty response, which no grammar has.

    Raises:
        RetryableError: it is not a chat completion.
        ModelError: a filter of the server has withheld the response, or the rest of it; it is a
            call of a tool, or holds something else than text; or a logit was NaN.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content, ended = message.get("content"), choice.get("finish_reason")
    except (LookupError, TypeError, AttributeError) as error:
        raise RetryableError(f"an answer without a message ({type(error).__name__})") from error
    thought, said = _parts(content)
    apart, _ = _parts([{"type": "thinking", "thinking": _reasoning(message)}])
    text = said or _text(message.get("refusal"))
    thoughts = "\n".join(filter(None, (apart, thought)))
    if not text and (calls := message.get("tool_calls") or message.get("function_call")):
        raise ModelError(
            "response",
            expected="text",
            found=f"a call of a tool, {storable(str(calls), 200)}",
            fix="No tool is offered: switch off the server's parser of tool calls.",
        )
    if ended == FILTERED:
        raise ModelError(
            "response",
            expected="the complete response of the network",
            found=f"a content filter of the server (finish_reason {FILTERED})",
            fix="Use a server without a content filter.",
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


def _reasoning(message: Mapping[str, Any]) -> object:
    """Return the reasoning that a server hands beside the content, under whichever name."""
    names = ("reasoning_content", "reasoning", "thinking")
    return next((message[name] for name in names if message.get(name)), None)


def _parts(content: object) -> tuple[str, str]:
    """Return the reasoning and the text of a message's content: a text, or a list of typed parts.

    Raises:
        ModelError: a part is neither.
    """
    if content is None or isinstance(content, str):
        return "", content or ""
    thoughts: list[str] = []
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
        if kind in REASONING:
            thoughts.append(_text(part))
        elif kind in TEXTS:
            texts.append(_text(part))
        else:
            raise ModelError(
                "response",
                expected=f"parts of the types {', '.join((*TEXTS, *REASONING))}",
                found=f"one of the type {storable(str(kind), 60)}",
                fix="Use a model that answers in text.",
            )
    return "\n".join(filter(None, thoughts)), "".join(texts)


def _text(part: object) -> str:
    """Return the text of a part, which may stand under one of several keys, or in a list.

    Raises:
        ModelError: there is none.
    """
    if part is None or isinstance(part, str):
        return part or ""
    if isinstance(part, list):
        return "".join(map(_text, part))
    if isinstance(part, Mapping):
        named = [part[key] for key in KEYS if part.get(key) is not None]
        if named or any(key in part for key in KEYS):
            return _text(named[0]) if named else ""
    content = storable(str(part), 60)
    raise ModelError("response", expected="text", found=f"content that holds {content}")


def _counts(usage: object) -> tuple[int | None, int | None]:
    """Tokens of prompt and completion, as far as a server counts them."""
    given = usage if isinstance(usage, Mapping) else {}
    values = [given.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (count if type(count) is int and count >= 0 else None for count in values)
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
    names = [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row]
    if names and wanted not in names:
        shown = storable(", ".join(names[:LISTED]), 200)
        raise UsageError(
            f"openai(model={wanted})",
            expected=f"a model of the server at {url}",
            found=f"it has {shown}",
        )
