"""Servers and packages that a command needs beside the rest of its board, if they are here."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from harness.spec import Spec

PATIENCE = 2.0  # seconds
BACKEND = "openai"
ADDRESS = "OPENAI_BASE_URL"


@dataclass(frozen=True)
class Server:
    """A server of the backend `openai`, as a SPEC names it."""

    url: str
    model: str
    key_variable: str

    def __str__(self) -> str:
        if self.key_variable:
            return f"{self.model} at {self.url}, with the key in ${self.key_variable}"
        return f"a server with {self.model} at {self.url}, such as one of: vllm serve {self.model}"

    @property
    def is_given(self) -> bool:
        """Return True if its key is in the environment or, of one without, if its port is open."""
        if self.key_variable:
            return bool(os.environ.get(self.key_variable))
        place = urlsplit(self.url)
        try:
            port = place.port or {"https": 443}.get(place.scheme, 80)
            socket.create_connection((place.hostname or "", port), timeout=PATIENCE).close()
        except (OSError, ValueError):
            return False
        return True


@dataclass(frozen=True)
class Package:
    """A package that only some rows need."""

    name: str

    def __str__(self) -> str:
        return f'the package {self.name}: pip install "visual-reasoning-harness[{self.name}]"'

    @property
    def is_given(self) -> bool:
        """Return True if it is installed."""
        return find_spec(self.name) is not None


def servers(spec: Spec) -> Iterator[Server]:
    """Yield the servers that a SPEC names, at any depth."""
    given = spec.arguments
    if spec.name == BACKEND:
        yield Server(
            url=str(given.get("base_url") or os.environ.get(ADDRESS) or f"${ADDRESS}"),
            model=str(given.get("model") or given.get("checkpoint") or "the checkpoint's network"),
            key_variable=str(given.get("key_variable") or ""),
        )
    for value in given.values():
        if isinstance(value, Spec):
            yield from servers(value)
