"""A refusal of a request that is about its settings, and not about what it asks.

The next request has the same settings: it would fare no better, and no failure of it is the
network's.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from harness.errors import UsageError

WORDS = frozenset({"seed", "stop"})
"""Names that are words too: a sentence must call them a setting."""
NO_SETTING = (
    "It is always sent: such a server needs a proxy before it that leaves it out, as LiteLLM does "
    "with drop_params."
)
FEWER = "A smaller max_new_tokens= leaves room for the prompt"
FIXES: Mapping[str, str] = MappingProxyType(
    {
        "model": "model= is the name at the server.",
        "max_tokens": f"server=openai sends max_completion_tokens in its place. {FEWER}.",
        "max_completion_tokens": f"server=plain sends max_tokens in its place. {FEWER}.",
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
        "seed": NO_SETTING,
        "stop": NO_SETTING,
    }
)
"""Advice, by the field of a request (`request_format`)."""


def refused_setting(data: bytes, body: bytes) -> str | None:
    """Return the setting of a request that a server's error names; None if it names none.

    Args:
        data: The server's answer.
        body: The request.

    >>> body = b'{"model": "m", "messages": [], "max_tokens": 9, "stop": ["."]}'
    >>> refused_setting(b'{"error": {"message": "no", "param": "max_tokens"}}', body)
    'max_tokens'
    >>> refused_setting(b'{"detail": [{"loc": ["body", "stop"], "msg": "extra"}]}', body)
    'stop'
    >>> refused_setting(b'{"error": {"message": "stop sending such images"}}', body) is None
    True
    """
    names = {*FIXES, *json.loads(body)} - {"messages"}
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return _in_words(data[:1000].decode("utf-8", "replace"), names - {"model"})
    places = [place for place in _places(plain) if place]
    if places:
        named = next((place for place in places if place in names), None)
        if named or "messages" in places:
            return named
    return next(
        filter(None, (_in_words(text, names - {"model"}) for text in messages_in(plain))), None
    )


def setting_in_answer(answer: Mapping[str, object], data: bytes, body: bytes) -> str | None:
    """Return the refused setting where a status of 400 stands in an answer, as routers have it."""
    error = answer.get("error")
    code = error.get("code") if isinstance(error, dict) else answer.get("code")
    return refused_setting(data, body) if str(code) in ("400", "422") else None


def refusal_of_setting(url: str, name: str, words: str) -> UsageError:
    """Return the error that ends a run, with the setting to change."""
    return UsageError(
        f"server {url}",
        expected=f"one that takes {name} as it was sent",
        found=words,
        fix=FIXES.get(name, "Change the setting that it comes from."),
    )


def _places(plain: object) -> Iterator[str]:
    """The fields that an error names in OpenAI's form (`param`), or in FastAPI's (`loc`)."""
    if isinstance(plain, list):
        for item in plain:
            yield from _places(item)
    if not isinstance(plain, dict):
        return
    if isinstance(param := plain.get("param"), str):
        yield re.split(r"[.\[]", param.removeprefix("body."))[0]
    if isinstance(place := plain.get("loc"), list):
        yield next((part for part in place if isinstance(part, str) and part != "body"), "")
    for name in ("error", "detail"):
        yield from _places(plain.get(name))


def messages_in(plain: object) -> Iterator[str]:
    """Yield a server's own words in its JSON, wherever vLLM, SGLang, OpenAI or FastAPI put them.

    What an error repeats of the request is none of them.

    >>> [*messages_in({"error": {"message": "a"}}), *messages_in({"message": "b", "param": "c"})]
    ['a', 'b']
    >>> [*messages_in({"detail": [{"msg": "c"}]}), *messages_in({"error": "d"}), *messages_in([])]
    ['c', 'd']
    """
    if isinstance(plain, str):
        with suppress(ValueError, RecursionError):  # of a server behind the server
            plain = json.loads(plain)
        if isinstance(plain, str):
            yield plain
            return
    for item in plain if isinstance(plain, list) else ():
        yield from messages_in(item)
    for name in ("error", "message", "detail", "msg", "metadata", "raw"):
        if isinstance(plain, dict) and name in plain:
            yield from messages_in(plain[name])


def _in_words(text: str, names: set[str]) -> str | None:
    """Return the first of the names that a sentence has as a name."""
    starts = {}
    for name in names:
        quoted = rf"[\"'`‘“]{name}[\"'`’”]"
        said = (
            rf"(?:parameter|argument|field|property|setting)s?:? {name}\b|\b{name}(?: is| must|:)"
        )
        plain = rf"(?<![\w.]){name}(?![\w])"
        match = re.search(f"{quoted}|{said}" if name in WORDS else plain, text)
        if match:
            starts[name] = match.start()
    return min(starts, key=starts.__getitem__, default=None)
