"""Read the response and the token counts of a chat completion, and check which model wrote it.

`openai` hands each answer of a server (a JSON object) to `read_answer` and gets a `ChatResponse`.
"""

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

FILTERED = "content_filter"  # a finish_reason
TEXT_TYPES = ("text", "output_text", "refusal")
"""Types of a message's parts that belong to the response."""
REASONING_TYPES = ("thinking", "reasoning", "reasoning_text", "summary_text", "redacted_thinking")
"""Types of a message's parts that hold reasoning before the response."""
TEXT_KEYS = ("text", "thinking", "reasoning", "summary", "content", "refusal", "data")
"""Keys under which the text of a part stands."""
RELEASE_SUFFIX = re.compile(r"[-@](20\d\d-?\d\d-?\d\d|[01]\d[0-3]\d|0\d\d)")
"""Matches the release behind a model's name: `-2024-08-06`, `-0613`, `-002`, but not `-7B`."""
DEFAULT_REVISION = "@main"
"""Revision that `transformers serve` puts behind a name without one."""
MAX_LISTED = 5  # models of a server that an error names


def read_answer(
    answer: Mapping[str, Any], request: ChatRequest, network: RemoteProcessor
) -> ChatResponse:
    """Return the response of a chat completion (the JSON object of the answer).

    Reasoning that the server has taken out of the text is put before it in `<think>` tags, which
    every grammar removes. Without any text the response is empty, which every grammar rejects.

    Raises:
        RetryableError: the answer is not a chat completion.
        ModelError: a filter of the server has withheld the response or its end; it calls a tool or
            holds something else than text; or a logit was NaN.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content, ended = message.get("content"), choice.get("finish_reason")
    except (LookupError, TypeError, AttributeError) as error:
        raise RetryableError(f"an answer without a message ({type(error).__name__})") from error
    thought_in_content, text_in_content = _reasoning_and_text(content)
    separate_thought, _ = _reasoning_and_text(
        [{"type": "thinking", "thinking": _reasoning(message)}]
    )
    text = text_in_content or _text_of_part(message.get("refusal"))
    thoughts = "\n".join(filter(None, (separate_thought, thought_in_content)))
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
    prompt, completion = _token_counts(answer.get("usage"))
    response = ChatResponse(
        text=f"{request.prefix}{output}",
        prompt_tokens=prompt or 0,
        completion_tokens=network.count_tokens(output) if completion is None else completion,
        cut=ended == "length",
        canvases=network.canvases(request),
    )
    return until_stop(response, request)


def _reasoning(message: Mapping[str, Any]) -> object:
    """Return the reasoning that a message holds beside its content, under any name; None: none."""
    names = ("reasoning_content", "reasoning", "thinking")
    return next((message[name] for name in names if message.get(name)), None)


def _reasoning_and_text(content: object) -> tuple[str, str]:
    """Return (reasoning, text) of a message's content, which is a text or a list of typed parts.

    Raises:
        ModelError: a part is neither reasoning nor text.
    """
    if content is None or isinstance(content, str):
        return "", content or ""
    thoughts: list[str] = []
    text_parts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        part_type = part.get("type", "text") if isinstance(part, Mapping) else "text"
        if part_type in REASONING_TYPES:
            thoughts.append(_text_of_part(part))
        elif part_type in TEXT_TYPES:
            text_parts.append(_text_of_part(part))
        else:
            raise ModelError(
                "response",
                expected=f"parts of the types {', '.join((*TEXT_TYPES, *REASONING_TYPES))}",
                found=f"one of the type {storable(str(part_type), 60)}",
                fix="Use a model that answers in text.",
            )
    return "\n".join(filter(None, thoughts)), "".join(text_parts)


def _text_of_part(part: object) -> str:
    """Return the text of a part, which may stand under one of `TEXT_KEYS`, or in a list.

    Raises:
        ModelError: the part holds something else.
    """
    if part is None or isinstance(part, str):
        return part or ""
    if isinstance(part, list):
        return "".join(map(_text_of_part, part))
    if isinstance(part, Mapping):
        contents = [part[key] for key in TEXT_KEYS if part.get(key) is not None]
        if contents:
            return _text_of_part(contents[0])
        if any(key in part for key in TEXT_KEYS):  # present, and null
            return ""
    content = storable(str(part), 60)
    raise ModelError("response", expected="text", found=f"content that holds {content}")


def _token_counts(usage: object) -> tuple[int | None, int | None]:
    """Return the numbers of tokens of prompt and completion; None where the server states none."""
    stated = usage if isinstance(usage, Mapping) else {}
    counts = [stated.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (n if type(n) is int and n >= 0 else None for n in counts)
    return prompt, completion


def check_model(name: object, *, wanted: str, url: str) -> None:
    """Raise UsageError if the model's `name` in an answer is not the one that was asked for.

    A release of that model is accepted (`NAME-2024-08-06`, `NAME-0613`, `NAME-002`, `NAME@main`),
    other names that begin like it are not (`NAME-mini`, `NAME-7B`, `NAME-AWQ`, `NAME@v2`).
    """
    if not isinstance(name, str) or name in (wanted, f"{wanted}{DEFAULT_REVISION}"):
        return
    if not (name.startswith(wanted) and RELEASE_SUFFIX.fullmatch(name[len(wanted) :])):
        raise UsageError(
            f"server {url}",
            expected=f"responses of {wanted}",
            found=f"one of {storable(name, 100)}",
            fix="Give its own name as model=.",
        )


def check_listed(listed: Mapping[str, object], *, wanted: str, url: str) -> None:
    """Raise UsageError if a server lists its models (JSON of `/models`) without the one wanted."""
    data = listed.get("data")
    rows = data if isinstance(data, list) else []
    names = [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row]
    if names and wanted not in names:
        listed_names = storable(", ".join(names[:MAX_LISTED]), 200)
        raise UsageError(
            f"openai(model={wanted})",
            expected=f"a model of the server at {url}",
            found=f"it has {listed_names}",
        )
