"""Send one request to a server over HTTP: a strict deadline, a bounded answer, a key kept secret.

`Endpoint.post` turns a JSON body into the JSON object of the answer; `openai_pool` calls it. Each
request opens a connection of its own: that is short beside an answer of seconds, and a connection
that died meanwhile is never mistaken for a fault of the server. Redirections are not followed, so
that the key goes to no other address than the one that was typed.
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

MAX_BYTES = 32 * 2**20  # bytes of an answer
CONNECT_SECONDS = 30.0  # seconds at most until a connection stands
MAX_EXCERPT = 200  # characters of a server's message in an error
HTML_TAG = re.compile(r"<[^<>]*>")  # an HTML tag: "<h1>"
VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]*\Z")  # "OPENAI_API_KEY"
REFUSED_STATUSES = frozenset({400, 413, 422})
"""Statuses of a refused request: its content, its length or one of its settings is at fault."""
RETRY_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which a further try may succeed."""
PERMANENT_STATUSES = frozenset({501, 505})
"""The only statuses from 500 on after which no further try is made: "not implemented" and "HTTP
version not supported"."""
OVERLOADED_STATUSES = frozenset({408, 429, 502, 503, 504, 529})
"""Statuses of an overloaded server, which is then sent fewer requests at once."""
UNPAID_CODES = frozenset({"insufficient_quota", "billing_not_active"})
"""Codes in the body of a 429 of OpenAI's form for which waiting does not help."""


class ServerError(Unavailable):
    """A server did not answer in any try; a resumed run asks its sample again."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"server {url}", expected="an answer", found=reason)
        self.url, self.reason = url, reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.url, self.reason)


class RetryableError(Exception):
    """A fault that the next try of the same request may not meet.

    `wait`: delay in seconds that the server asks for; `crowded`: the server is overloaded.
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
        return self._json_object("GET", route, None)

    def post(self, route: str, body: bytes) -> dict[str, object]:
        """Return the JSON object with which a server answers a JSON body.

        Raises:
            RetryableError: there is no answer, half of one, no JSON, or a status that says "later".
            UsageError: address, key, model or a setting are wrong for every request.
            MissingDependency: the account behind the key has no credit left.
            ModelError: the server refuses this request, or its answer has over `MAX_BYTES`.
        """
        return self._json_object("POST", route, body)

    def _json_object(self, method: str, route: str, body: bytes | None) -> dict[str, object]:
        """Return the JSON object of an answer, the key removed from it; raises as `post` does."""
        status, headers, data = self._exchange(method, route, body)
        headers = {name: redact_key(value, self.key) for name, value in headers.items()}
        if status != 200:
            raise self._refusal(status, headers, data, body)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            content_type = storable(headers.get("content-type", "of no type"), 60)
            raise RetryableError(
                f"a response that is not JSON ({content_type}): {self._excerpt(data)!r}"
            ) from error
        if not isinstance(answer, dict):
            raise RetryableError(f"a response that is not a JSON object: {self._excerpt(data)!r}")
        if body is not None and (name := setting_in_answer(answer, data, body)):
            raise refusal_of_setting(self.url, name, f"an error: {self._excerpt(data)}")
        if answer.get("object") == "error" or (answer.get("error") and "choices" not in answer):
            raise RetryableError(f"an error in place of an answer: {self._excerpt(data)}")
        redacted: dict[str, object] = without_key(answer, self.key)
        return redacted

    def _exchange(
        self, method: str, route: str, body: bytes | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers (names in lower case) and body of the answer to one request.

        Raises:
            RetryableError: there is no complete answer within the time limits.
        """
        parts = urlsplit(self.url)
        connection, path_start, headers = connection_to(parts, min(CONNECT_SECONDS, self.timeout))
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
            # A server may refuse (the key, the route, the load) and close before it has read a
            # large request: its answer can be read all the same.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, f"{path_start}{parts.path}{route}", body, headers)
            with connection.getresponse() as answer:  # it holds the socket, too
                lower_headers = {name.lower(): value for name, value in answer.headers.items()}
                return answer.status, lower_headers, _read_bounded(answer)
        except (OSError, HTTPException, ValueError) as error:
            # A proxy that refuses a tunnel (https) is reported like one that refuses a request.
            if str(error).startswith("Tunnel connection failed: 407"):
                return 407, {}, b""
            if isinstance(error, TimeoutError):
                raise RetryableError(
                    f"no whole answer in {self.timeout:g} s", crowded=True
                ) from error
            message = str(error) or type(error).__name__
            raise RetryableError(
                f"no whole answer{_proxy_note(parts)}: {self._excerpt(message.encode())}"
            ) from error
        finally:
            connection.close()

    def _refusal(
        self, status: int, headers: Mapping[str, str], data: bytes, body: bytes | None
    ) -> Exception:
        """Return the error for an answer whose status is not 200; `body` is that of the request."""
        proxy = _proxy_note(urlsplit(self.url))
        reason = f"status {status}{proxy}: {self._excerpt(data) or _status_phrase(status)}"
        if status == 429 and _error_code(data) in UNPAID_CODES:
            return MissingDependency(
                f"server {self.url}",
                expected="an account with credit",
                found=reason,
                fix="Add credit and run the same command again to resume.",
            )
        if status in RETRY_STATUSES or (status >= 500 and status not in PERMANENT_STATUSES):
            wait = retry_after(headers.get("retry-after"))
            return RetryableError(reason, wait=wait, crowded=status in OVERLOADED_STATUSES)
        if status in REFUSED_STATUSES:
            if body is not None and (name := refused_setting(data, body)):
                return refusal_of_setting(self.url, name, reason)
            return ModelError("request to the server", expected="one that it takes", found=reason)
        if status == 407:
            expected = "a proxy that accepts our requests"
            fix = "Put the account's name and password into the proxy's address: http://NAME:PASSWORD@host:port."
        elif status in (401, 403):
            expected = "a key that it accepts"
            fix = "key_variable=NAME names the environment variable that holds the key."
        elif 300 <= status < 400:
            expected = "answers at this address"
            fix = "Redirections are not followed: give the final address."
        else:
            expected = "an OpenAI-compatible server with this model"
            fix = "base_url= usually ends with /v1, model= is the name at the server."
        return UsageError(f"server {self.url}", expected=expected, found=reason, fix=fix)

    def _excerpt(self, data: bytes) -> str:
        """Return the first `MAX_EXCERPT` characters of a server's message, without key and tags."""
        text = data[: 16 * MAX_EXCERPT].decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            text = next(messages_in(json.loads(data)), text)
        if text.lstrip().startswith("<"):  # an HTML page, as proxies send
            text = HTML_TAG.sub(" ", text)
        text = redact_key(text, self.key)
        message = storable(" ".join(text.split()))
        return message[:MAX_EXCERPT] + ("…" if len(message) > MAX_EXCERPT else "")


def _status_phrase(status: int) -> str:
    """Return the standard phrase of an HTTP status, for proxies that send the number alone."""
    with suppress(ValueError):
        return HTTPStatus(status).phrase
    return "nothing more"


def _error_code(data: bytes) -> str | None:
    """Return the code of an error in OpenAI's form, `{"error": {"code": …}}`; None without one."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        return str(json.loads(data)["error"]["code"])
    return None


def _proxy_note(server: SplitResult) -> str:
    """Return " through HTTPS_PROXY", for an error that a proxy may have caused; "" without one."""
    proxy = proxy_for(server)
    return f" through {proxy.variable}" if proxy else ""


class TimedResponse(HTTPResponse):
    """A response with a deadline, a moment of `time.monotonic`, after which reading times out.

    A socket's own time-out starts anew with every byte, so that a server which sends a byte now and
    then would never meet it. Reading after the deadline raises TimeoutError.
    """

    def __init__(self, sock: socket.socket, *, end: float, method: str | None = None) -> None:
        super().__init__(sock, method=method)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, end))


class _TimedReader(io.RawIOBase):
    """Read what a socket receives; TimeoutError after `end`, a moment of `time.monotonic`."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self.sock, self.end = sock, end
        self.received = sock.makefile("rb", buffering=0)  # it keeps the socket open

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        remaining = self.end - monotonic()
        if remaining <= 0:
            raise TimeoutError
        self.sock.settimeout(remaining)
        return self.received.readinto(buffer)

    def close(self) -> None:
        self.received.close()
        super().close()


def _read_bounded(answer: HTTPResponse) -> bytes:
    """Return the body of an answer.

    Raises:
        ModelError: it is longer than `MAX_BYTES`.
        IncompleteRead: it is shorter than its `Content-Length`.
    """
    data = answer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ModelError(
            "answer of the server", expected=f"at most {MAX_BYTES} bytes", found="a longer one"
        )
    if answer.length:
        raise IncompleteRead(data, answer.length)
    return data


def retry_after(header: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks to wait, from a number or a date; None for others.

    >>> retry_after("1.5"), retry_after("soon"), retry_after("Thu, 01 Jan 1970 00:00:00 GMT")
    (1.5, None, 0.0)
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
            moment = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
            seconds = (moment - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):  # OverflowError: a time zone of many digits
            return None
    return max(0.0, seconds) if seconds < float("inf") else None


def checked_url(url: str) -> str:
    """Return the address of a server, without a slash at its end.

    Raises:
        UsageError: it is not an http(s) address, or holds a name and a password, which would stand
            in the record.
    """
    try:
        parts = urlsplit(url.strip())
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _invalid_address(url) from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "openai(base_url=…)",
            expected="an address without a name or a password",
            found="one with them, which is not shown",
            fix="Give the key through the environment: key_variable=NAME.",
        )
    has_spaces = re.search(r"[\s\x00-\x1f]", url.strip()) is not None  # or control characters
    if not has_host or parts.query or parts.fragment or has_spaces:
        raise _invalid_address(url)
    return url.strip().rstrip("/")


def _invalid_address(url: str) -> UsageError:
    """Return the error for an address that is not one of a server."""
    return UsageError(
        "openai(base_url=…)",
        expected="an address such as http://localhost:8000/v1",
        found=repr(url[:80]),
    )


def key_from(variable: str | None) -> str | None:
    """Return the key that an environment variable holds; None if no variable is named.

    Raises:
        UsageError: the variable is not set, `variable` is not a variable's name (it is not shown:
            it may be the key itself), or the key has characters that no header can hold.
    """
    if variable is None:
        return None
    if not VARIABLE_NAME.match(variable):
        raise UsageError(
            "openai(key_variable=…)",
            expected="the name of an environment variable, in capitals",
            found="something else, which is not shown",
            fix="A key in the command would be written into the record.",
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
