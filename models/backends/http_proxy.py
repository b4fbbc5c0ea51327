"""Connections to a server, through the proxy that the environment names for it."""

import os
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from http.client import HTTPConnection, HTTPSConnection
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from harness.errors import UsageError


class Proxy(NamedTuple):
    """A proxy, with the variable that names it and the header that holds its password."""

    variable: str
    host: str
    port: int
    headers: Mapping[str, str]


def connection_to(
    server: SplitResult, timeout: float
) -> tuple[HTTPConnection, str, Mapping[str, str]]:
    """Return a connection to a server, what a route begins with on it, and headers for the proxy.

    To an `https` address the proxy passes on what it cannot read; of an `http` one it sees requests
    and key.

    Raises:
        UsageError: the proxy is none that speaks HTTP.
    """
    host = server.hostname
    assert host is not None, "checked_url has seen to it"
    kind = (
        partial(HTTPSConnection, context=_tls(*map(os.environ.get, CERTIFICATES)))
        if server.scheme == "https"
        else HTTPConnection
    )
    proxy = proxy_for(server)
    if proxy is None:
        return kind(host, server.port, timeout=timeout), "", {}
    connection = kind(proxy.host, proxy.port, timeout=timeout)
    if kind is HTTPConnection:
        return connection, f"http://{server.netloc}", proxy.headers
    connection.set_tunnel(host, server.port, proxy.headers)
    return connection, "", {}


def proxy_for(server: SplitResult) -> Proxy | None:
    """Return the proxy for a server; None: it is reached directly, as this machine always is.

    `HTTPS_PROXY` or `HTTP_PROXY`, else `ALL_PROXY`, unless `NO_PROXY` names the server: by its
    name or the end of it, with or without a port, by an address, or by a range such as 10.0.0.0/8.

    Raises:
        UsageError: the proxy is none that speaks HTTP.
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
        fine = proxy.scheme == "http" and bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        fine = False
    if not fine:
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


CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name the certificates which OpenSSL trusts."""


@cache
def _tls(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the settings of encrypted connections, by the values of `CERTIFICATES`.

    To read the certificates takes some 20 ms.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _is_direct(host: str, excepted: str) -> bool:
    """Return True if a host is this machine, or its address in a range that is excepted."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    if address.is_loopback or address.is_unspecified:  # servers print that they are at 0.0.0.0
        return True
    for name in excepted.split(","):
        with suppress(ValueError):  # a name of a host
            if address in ip_network(name.strip().strip("[]"), strict=False):
                return True
    return False
