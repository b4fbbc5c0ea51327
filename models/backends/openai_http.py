"""One request to a server over HTTP: a strict deadline, a bounded answer, a key kept secret.

Python's own client, one connection a request: an answer takes seconds, opening a connection does
not, and no connection that died meanwhile can be mistaken for a fault of the server. Redirections
are not followed, so that the key goes to the address that was typed and to no other.
"""

import io
import json
import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from harness.errors import MissingDependency, ModelError, Unavailable, UsageError
from harness.models.backends.http_proxy import connection_to, proxy_for
from harness.models.backends.key_redaction import redact_key, without_key
from harness.models.backends.openai_refusal import (
    messages_in,
    refusal_of_setting,
    refused_setting,
    setting_in_answer,
)
from harness.responses import storable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_BODY = 32 * 2**20  # bytes of an answer
CONNECTING = 30.0  # seconds at most until a connection stands
SHOWN = 200  # characters of a server's own words in an error
TAG = re.compile(r"<[^<>]*>")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*\Z")
UNCLEAR = frozenset({400, 413, 422})  # the request is not one that this model takes
PASSING = frozenset({408, 409, 425, 429})  # and a 5xx: it may go better next time
LASTING = frozenset({501, 505})  # the 5xx of a server that cannot do this, and never will
CROWDED = frozenset({408, 429, 502, 503, 504, 529})
UNPAID = frozenset({"insufficient_quota", "billing_not_active"})
"""Codes of a 429 of OpenAI's form that no waiting helps."""


class ServerError(Unavailable):
    """A server did not answer, whatever was tried; its sample is asked again by a resumed run."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"server {url}", expected="an answer", found=reason)
        self.url, self.reason = url, reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.url, self.reason)


class RetryableError(Exception):
    """A fault of one request that the next try may not meet.

    `wait` is the delay in seconds that the server requests; `crowded`: the server is overloaded.
    """

    def __init__(self, reason: str, *, wait: float | None = None, crowded: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.crowded = crowded


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's address, with the time limit and the key of requests to it."""

    url: str
    """`http(s)://host[:port][/path]`, without a slash at its end."""
    timeout: float
    """Seconds from a standing connection to the last byte of the answer."""
    key: str | None = field(default=None, repr=False)

    def get(self, route: str) -> dict[str, object]:
        """Return the JSON object under a route; raises as `post` does."""
        return self._object("GET", route, None)

    def post(self, route: str, body: bytes) -> dict[str, object]:
        """Return the JSON object with which a server answers a JSON body.

        Raises:
            RetryableError: no answer, half of one, no JSON, or a status that says "later".
            UsageError: address, key, model or a setting are not right; the next request would fare
                no better.
            MissingDependency: the account behind the key is spent.
            ModelError: the server refuses this request, or answers endlessly.
        """
        return self._object("POST", route, body)

    def _object(self, method: str, route: str, body: bytes | None) -> dict[str, object]:
        status, headers, data = self._exchange(method, route, body)
        headers = {name: redact_key(value, self.key) for name, value in headers.items()}
        if status != 200:
            raise self._refusal(status, headers, data, body)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            kind = storable(headers.get("content-type", "of no type"), 60)
            raise RetryableError(
                f"a response that is not JSON ({kind}): {self._excerpt(data)!r}"
            ) from error
        if not isinstance(answer, dict):
            raise RetryableError(f"a response that is not a JSON object: {self._excerpt(data)!r}")
        if body is not None and (name := setting_in_answer(answer, data, body)):
            raise refusal_of_setting(self.url, name, f"an error: {self._excerpt(data)}")
        if answer.get("object") == "error" or (answer.get("error") and "choices" not in answer):
            raise RetryableError(f"an error in place of an answer: {self._excerpt(data)}")
        clean: dict[str, object] = without_key(answer, self.key)
        return clean

    def _exchange(
        self, method: str, route: str, body: bytes | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(self.url)
        connection, start, headers = connection_to(parts, min(CONNECTING, self.timeout))
        headers = {"Accept": "application/json", "Connection": "close", **headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            connection.connect()
            connection.sock.settimeout(self.timeout)
            end = monotonic() + self.timeout
            connection.response_class = partial(TimedResponse, end=end)  # type: ignore[assignment]
            # Some refuse (a key, a route, a crowd) before they have read a large request, and
            # close: what they said is there all the same.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, f"{start}{parts.path}{route}", body, headers)
            with connection.getresponse() as answer:  # it holds the socket, too
                named = {name.lower(): value for name, value in answer.headers.items()}
                return answer.status, named, _read_bounded(answer)
        except (OSError, HTTPException, ValueError) as error:
            if str(error).startswith("Tunnel connection failed: 407"):  # as without a tunnel
                return 407, {}, b""
            if isinstance(error, TimeoutError):
                raise RetryableError(
                    f"no whole answer in {self.timeout:g} s", crowded=True
                ) from error
            output = str(error) or type(error).__name__
            raise RetryableError(
                f"no whole answer{_way(parts)}: {self._excerpt(output.encode())}"
            ) from error
        finally:
            connection.close()

    def _refusal(
        self, status: int, headers: Mapping[str, str], data: bytes, body: bytes | None
    ) -> Exception:
        way = _way(urlsplit(self.url))
        words = f"status {status}{way}: {self._excerpt(data) or _phrase(status)}"
        if status == 429 and _code(data) in UNPAID:
            return MissingDependency(
                f"server {self.url}",
                expected="an account with credit",
                found=words,
                fix="Add credit and run the same command again to resume.",
            )
        if status in PASSING or (status >= 500 and status not in LASTING):
            wait = retry_after(headers.get("retry-after"))
            return RetryableError(words, wait=wait, crowded=status in CROWDED)
        if status in UNCLEAR and body is not None and (name := refused_setting(data, body)):
            return refusal_of_setting(self.url, name, words)
        if status in UNCLEAR:
            return ModelError("request to the server", expected="one that it takes", found=words)
        if status == 407:
            expected = "a proxy that lets us through"
            fix = "Its account belongs into the proxy's address: http://NAME:PASSWORD@host:port."
        elif status in (401, 403):
            expected = "a key that it accepts"
            fix = "key_variable=NAME names the environment variable that holds the key."
        elif 300 <= status < 400:
            expected = "answers at this address"
            fix = "Redirections are not followed: give the address that they lead to."
        else:
            expected = "an OpenAI-compatible server with this model"
            fix = "base_url= usually ends with /v1, model= is the name at the server."
        return UsageError(f"server {self.url}", expected=expected, found=words, fix=fix)

    def _excerpt(self, data: bytes) -> str:
        """Return the beginning of a server's message, fit to be shown."""
        text = data[: 16 * SHOWN].decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            text = next(messages_in(json.loads(data)), text)
        if text.lstrip().startswith("<"):  # the page of a proxy
            text = TAG.sub(" ", text)
        text = redact_key(text, self.key)
        shown = storable(" ".join(text.split()))
        return shown[:SHOWN] + ("…" if len(shown) > SHOWN else "")


def _phrase(status: int) -> str:
    """Return the standard phrase of an HTTP status, for proxies that send the number alone."""
    with suppress(ValueError):
        return HTTPStatus(status).phrase
    return "nothing more"


def _code(data: bytes) -> str | None:
    """Return the code of an error in OpenAI's form; None: there is none."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        return str(json.loads(data)["error"]["code"])
    return None


def _way(server: SplitResult) -> str:
    """Return the proxy on the way to a server, which may be what speaks, for an error."""
    proxy = proxy_for(server)
    return f" through {proxy.variable}" if proxy else ""


class TimedResponse(HTTPResponse):
    """A response that has to be read by a moment of `time.monotonic`; then it raises TimeoutError.

    A socket's own time-out starts anew with every byte: a server that sends one now and then
    would never meet it.
    """

    def __init__(self, sock: socket.socket, *, end: float, method: str | None = None) -> None:
        super().__init__(sock, method=method)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, end))


class _TimedReader(io.RawIOBase):
    """Reads what a socket receives up to a moment."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self.sock, self.end = sock, end
        self.received = sock.makefile("rb", buffering=0)  # it keeps the socket open

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        left = self.end - monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left)
        return self.received.readinto(buffer)

    def close(self) -> None:
        self.received.close()
        super().close()


def _read_bounded(answer: HTTPResponse) -> bytes:
    data = answer.read(MAX_BODY + 1)
    if len(data) > MAX_BODY:
        raise ModelError(
            "answer of the server", expected=f"at most {MAX_BODY} bytes", found="a longer one"
        )
    if answer.length:
        raise IncompleteRead(data, answer.length)
    return data


def retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a date. None if it is neither.

    >>> retry_after("1.5"), retry_after("soon"), retry_after("Thu, 01 Jan 1970 00:00:00 GMT")
    (1.5, None, 0.0)
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            seconds = (aware - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):  # a time zone of many digits
            return None
    return max(0.0, seconds) if seconds < float("inf") else None


def checked_url(url: str) -> str:
    """The address of a server, without a slash at its end.

    Raises:
        UsageError: it is none, or holds a name and a password, which would stand in the record.
    """
    try:
        parts = urlsplit(url.strip())
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _no_address(url) from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "openai(base_url=…)",
            expected="an address without a name or a password",
            found="one with them, which is not shown",
            fix="Give the key through the environment: key_variable=NAME.",
        )
    if not fine or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", url.strip()):
        raise _no_address(url)
    return url.strip().rstrip("/")


def _no_address(url: str) -> UsageError:
    return UsageError(
        "openai(base_url=…)",
        expected="an address such as http://localhost:8000/v1",
        found=repr(url[:80]),
    )


def key_from(variable: str | None) -> str | None:
    """The key that an environment variable holds; None if no variable is named.

    Raises:
        UsageError: the variable is not set, or what was given is not a variable's name. Neither is
            shown, for it may be the key itself.
    """
    if variable is None:
        return None
    if not VARIABLE.match(variable):
        raise UsageError(
            "openai(key_variable=…)",
            expected="the name of an environment variable, in capitals",
            found="something else, which is not shown",
            fix="A key that is typed would stand in the record.",
        )
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"openai(key_variable={variable})",
            expected="a key in this environment variable",
            found="none",
            fix=f"export {variable}=…",
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(
            f"environment variable {variable}",
            expected="a key of plain characters",
            found="something else, which is not shown",
        )
    return key
