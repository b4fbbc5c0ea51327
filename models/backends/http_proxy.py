"""Open HTTP connections to a server, through the proxy that environment variables name for it.

The `openai` backend uses it instead of an HTTP library.
"""

import os
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from http.client import HTTPConnection, HTTPSConnection
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from harness.errors import UsageError


class Proxy(NamedTuple):
    """A proxy, with the environment variable that names it and the header with its password."""

    variable: str
    host: str
    port: int
    headers: Mapping[str, str]


def connection_to(
    server: SplitResult, timeout: float
) -> tuple[HTTPConnection, str, Mapping[str, str]]:
    """Return (connection to a server, prefix of the paths in its requests, headers).

    Prefix and headers are for the proxy of an `http` address, which reads requests and key. The
    proxy of an `https` address forwards encrypted bytes (a tunnel).

    Args:
        server: The server's address.
        timeout: Seconds that an operation on the connection may take.

    Raises:
        UsageError: the proxy is not an HTTP proxy.
    """
    host = server.hostname
    assert host is not None, "`checked_url` ensures it"
    connect: Callable[..., HTTPConnection] = HTTPConnection
    if server.scheme == "https":
        connect = partial(
            HTTPSConnection, context=_tls(*map(os.environ.get, CERTIFICATE_VARIABLES))
        )
    proxy = proxy_for(server)
    if proxy is None:
        return connect(host, server.port, timeout=timeout), "", {}
    connection = connect(proxy.host, proxy.port, timeout=timeout)
    if server.scheme != "https":
        return connection, f"http://{server.netloc}", proxy.headers
    connection.set_tunnel(host, server.port, proxy.headers)
    return connection, "", {}


def proxy_for(server: SplitResult) -> Proxy | None:
    """Return the proxy for a server; None: it is reached directly, as localhost always is.

    The proxy is `HTTPS_PROXY` or `HTTP_PROXY`, else `ALL_PROXY`, unless `NO_PROXY` names the
    server: by its name or the end of it, with or without a port, by its address, or by a range such
    as 10.0.0.0/8.

    Raises:
        UsageError: the proxy is not an HTTP proxy.
    """
    host = server.hostname or ""
    proxies = getproxies_environment()
    name = server.scheme if server.scheme in proxies else "all"
    address = proxies.get(name)
    if address is None or proxy_bypass(server.netloc) or _is_direct(host, proxies.get("no", "")):
        return None
    variable = f"{name.upper()}_PROXY"
    try:
        proxy = urlsplit(address if "://" in address else f"http://{address}")
        is_http = proxy.scheme == "http" and bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        is_http = False
    if not is_http:
        raise UsageError(
            f"environment variable {variable}",
            expected="a proxy that speaks HTTP, http://host:port",
            found=re.sub(r"(?s)^(\w+://)?.*@", r"\1…@", address)[:80],
            fix=f"NO_PROXY={host} reaches the server without it.",
        )
    headers = {}
    if proxy.username is not None:
        account = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {b64encode(account).decode()}"
    return Proxy(variable, proxy.hostname or "", proxy.port or 80, headers)


CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name the certificates which OpenSSL trusts."""


@cache
def _tls(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return TLS settings for values of `CERTIFICATE_VARIABLES`; cached, as reading takes 20 ms."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _is_direct(host: str, excepted: str) -> bool:
    """Return True if a host is this machine, or its address is in a range of `excepted`.

    `excepted` is the value of `NO_PROXY`, separated by commas.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    if address.is_loopback or address.is_unspecified:  # servers print that they are at 0.0.0.0
        return True
    for name in excepted.split(","):
        with suppress(ValueError):  # raised for a host's name
            if address in ip_network(name.strip().strip("[]"), strict=False):
                return True
    return False
