"""Recognize errors of a server that refuse a setting of a request, not its question.

Every request of a run has the same settings, so such an error ends the run, and is not counted as
a failure of the network. `openai_http` passes the server's answer and the request, both as JSON
bytes, and gets the name of the refused field.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from harness.errors import UsageError

ENGLISH_WORDS = frozenset({"seed", "stop"})
"""Fields whose names are English words: a sentence must call them a setting to count."""
ALWAYS_SENT_FIX = (
    "harness always sends it: put a proxy before the server that removes it, such as LiteLLM with "
    "drop_params."
)
TOKENS_FIX = "A smaller max_new_tokens= leaves room for the prompt"
FIXES: Mapping[str, str] = MappingProxyType(
    {
        "model": "model= is the name at the server.",
        "max_tokens": f"server=openai sends max_completion_tokens in its place. {TOKENS_FIX}.",
        "max_completion_tokens": f"server=plain sends max_tokens in its place. {TOKENS_FIX}.",
        "temperature": "Give the temperature= that this model takes, such as 1.",
        "top_p": "Give the top_p= that this model takes, such as 1.",
        "top_k": "Leave top_k= out; server=plain and server=openai do not send it.",
        "presence_penalty": "Leave presence_penalty= out.",
        "repetition_penalty": "Leave repetition_penalty= out; server=plain and server=openai do "
        "not send that of the checkpoint either.",
        "reasoning_effort": "Leave reasoning_effort= out, or give one that this model takes.",
        "chat_template_kwargs": "Leave enable_thinking= and reasoning_effort= out.",
        "media_io_kwargs": "clips=images sends clips without it.",
        "mm_processor_kwargs": "clips=images sends clips without it.",
        "include_stop_str_in_output": "server= says which kind of server it is.",
        "no_stop_trim": "server= says which kind of server it is.",
        "add_generation_prompt": "server= says which kind of server it is.",
        "continue_final_message": "server= says which kind of server it is.",
        "seed": ALWAYS_SENT_FIX,
        "stop": ALWAYS_SENT_FIX,
    }
)
"""Advice, by the field of a request (`request_format`)."""


def refused_setting(data: bytes, body: bytes) -> str | None:
    """Return the setting of a request that a server's error names; None if it does not name one.

    Args:
        data: The server's answer, JSON or any text.
        body: The request's JSON object.

    >>> body = b'{"model": "m", "messages": [], "max_tokens": 9, "stop": ["."]}'
    >>> refused_setting(b'{"error": {"message": "no", "param": "max_tokens"}}', body)
    'max_tokens'
    >>> refused_setting(b'{"detail": [{"loc": ["body", "stop"], "msg": "extra"}]}', body)
    'stop'
    >>> refused_setting(b'{"error": {"message": "stop sending such images"}}', body) is None
    True
    """
    names = {*FIXES, *json.loads(body)} - {"messages"}
    names_in_text = names - {"model"}  # nearly every message says "model"
    try:
        error = json.loads(data)
    except (ValueError, RecursionError):
        return _named_in(data[:1000].decode("utf-8", "replace"), names_in_text)
    fields = [field for field in _stated_fields(error) if field]
    stated = next((field for field in fields if field in names), None)
    if stated or "messages" in fields:  # "messages": the question is refused, not a setting
        return stated
    for message in messages_in(error):
        if name := _named_in(message, names_in_text):
            return name
    return None


def setting_in_answer(answer: Mapping[str, object], data: bytes, body: bytes) -> str | None:
    """Return the refused setting of an answer that holds an error 400 or 422 under status 200.

    Routers pass errors of the server behind them on like this. `data` is the same answer as bytes.
    """
    error = answer.get("error")
    code = error.get("code") if isinstance(error, dict) else answer.get("code")
    return refused_setting(data, body) if str(code) in ("400", "422") else None


def refusal_of_setting(url: str, name: str, reason: str) -> UsageError:
    """Return the error that ends a run: field `name` was refused with the server's `reason`."""
    return UsageError(
        f"server {url}",
        expected=f"one that takes {name} as it was sent",
        found=reason,
        fix=FIXES.get(name, "Change the setting that it comes from."),
    )


def _stated_fields(error: object) -> Iterator[str]:
    """Yield the fields that an error states in OpenAI's form (`param`), or in FastAPI's (`loc`)."""
    if isinstance(error, list):
        for item in error:
            yield from _stated_fields(item)
    if not isinstance(error, dict):
        return
    if isinstance(param := error.get("param"), str):
        yield re.split(r"[.\[]", param.removeprefix("body."))[0]  # "body.stop[0]": "stop"
    if isinstance(path := error.get("loc"), list):  # ["body", "stop", 0]: "stop"
        yield next((part for part in path if isinstance(part, str) and part != "body"), "")
    for name in ("error", "detail"):
        yield from _stated_fields(error.get(name))


def messages_in(error: object) -> Iterator[str]:
    """Yield a server's messages in its JSON, wherever vLLM, SGLang, OpenAI or FastAPI put them.

    Parts of the request that an error repeats (`input`, `param`) are left out.

    >>> [*messages_in({"error": {"message": "a"}}), *messages_in({"message": "b", "param": "c"})]
    ['a', 'b']
    >>> [*messages_in({"detail": [{"msg": "c"}]}), *messages_in({"error": "d"}), *messages_in([])]
    ['c', 'd']
    """
    if isinstance(error, str):
        with suppress(ValueError, RecursionError):  # the JSON of a server behind this one
            error = json.loads(error)
        if isinstance(error, str):
            yield error
            return
    for item in error if isinstance(error, list) else ():
        yield from messages_in(item)
    for name in ("error", "message", "detail", "msg", "metadata", "raw"):
        if isinstance(error, dict) and name in error:
            yield from messages_in(error[name])


def _named_in(text: str, names: set[str]) -> str | None:
    """Return the name that a sentence mentions first as a setting; None without one."""
    starts = {}
    for name in names:
        quoted = rf"[\"'`‘“]{name}[\"'`’”]"  # 'stop'
        called_setting = (  # "parameter stop", "stop must"
            rf"(?:parameter|argument|field|property|setting)s?:? {name}\b|\b{name}(?: is| must|:)"
        )
        anywhere = rf"(?<![\w.]){name}(?![\w])"  # "top_k", but not "my.top_k" or "top_kk"
        match = re.search(f"{quoted}|{called_setting}" if name in ENGLISH_WORDS else anywhere, text)
        if match:
            starts[name] = match.start()
    return min(starts, key=starts.__getitem__, default=None)
