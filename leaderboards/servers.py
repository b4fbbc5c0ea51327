"""Find the servers and packages that a command of a board needs, and whether they are available.

`table_commands` names them in a plan (`harness reproduce`); commands without them are left out.
"""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from harness.spec import Spec

TIMEOUT = 2.0  # seconds to wait for a connection
BACKEND = "openai"
ADDRESS_VARIABLE = "OPENAI_BASE_URL"


@dataclass(frozen=True)
class Server:
    """A server of the backend `openai`, as a SPEC names it."""

    url: str
    model: str
    key_variable: str
    """Environment variable with the key; empty: the server needs no key."""

    def __str__(self) -> str:
        if self.key_variable:
            return f"{self.model} at {self.url}, with the key in ${self.key_variable}"
        return f"a server with {self.model} at {self.url}, such as one of: vllm serve {self.model}"

    @property
    def is_given(self) -> bool:
        """True if its key is in the environment or, for a server without key, its port is open."""
        if self.key_variable:
            return bool(os.environ.get(self.key_variable))
        address = urlsplit(self.url)
        try:
            port = address.port or {"https": 443}.get(address.scheme, 80)
            socket.create_connection((address.hostname or "", port), timeout=TIMEOUT).close()
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
        """True if it is installed."""
        return find_spec(self.name) is not None


def servers(spec: Spec) -> Iterator[Server]:
    """Yield the servers that a SPEC names, at any depth."""
    arguments = spec.arguments
    if spec.name == BACKEND:
        model = arguments.get("model") or arguments.get("checkpoint")
        yield Server(
            url=str(
                arguments.get("base_url")
                or os.environ.get(ADDRESS_VARIABLE)
                or f"${ADDRESS_VARIABLE}"
            ),
            model=str(model or "the checkpoint's network"),
            key_variable=str(arguments.get("key_variable") or ""),
        )
    for value in arguments.values():
        if isinstance(value, Spec):
            yield from servers(value)
