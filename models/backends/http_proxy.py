"""Connections to a server, through the proxy that the environment names for it."""

import re
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from harness.errors import UsageError


def connection_to(
    server: SplitResult, timeout: float
) -> tuple[HTTPConnection, str, Mapping[str, str]]:
    """Return a connection to a server, what a route begins with on it, and headers for the proxy.

    `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` mean what they mean to curl, and this
    machine is reached directly. To an `https` address the proxy passes on what it cannot read; of
    an `http` one it sees requests and key.

    Raises:
        UsageError: the proxy is none that speaks HTTP.
    """
    host = server.hostname
    assert host is not None, "checked_url has seen to it"
    kind = HTTPSConnection if server.scheme == "https" else HTTPConnection
    found = _proxy(server.scheme, host)
    if found is None:
        return kind(host, server.port, timeout=timeout), "", {}
    proxy, headers = found
    connection = kind(proxy.hostname or "", proxy.port or 80, timeout=timeout)
    if kind is HTTPConnection:
        return connection, f"http://{server.netloc}", headers
    connection.set_tunnel(host, server.port, headers)
    return connection, "", {}


def _proxy(scheme: str, host: str) -> tuple[SplitResult, dict[str, str]] | None:
    """Return the proxy for a host with the header that holds its password; None: there is none."""
    proxies = getproxies_environment()
    name = scheme if scheme in proxies else "all"
    address = proxies.get(name)
    if address is None or _is_this_machine(host) or proxy_bypass(host):
        return None
    try:
        proxy = urlsplit(address if "://" in address else f"http://{address}")
        fine = proxy.scheme == "http" and bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(
            f"environment variable {name.upper()}_PROXY",
            expected="a proxy that speaks HTTP, http://host:port",
            found=re.sub(r"[^/@]*@", "…@", address)[:80],
            fix=f"NO_PROXY={host} reaches the server without it.",
        )
    if proxy.username is None:
        return proxy, {}
    account = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return proxy, {"Proxy-Authorization": f"Basic {b64encode(account.encode()).decode()}"}


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
