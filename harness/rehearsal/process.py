"""Replacement of checkpoints, servers and devices in a rehearsed process, before its command runs.

Functions of other modules are replaced at run time: checkpoints named as on the hub become
stand-ins, which are made when they are first looked up, all servers become one on this machine, and
networks generate the texts that `responses` draws. The rest of the command is as typed.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from harness.provenance import REHEARSAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """Addresses of the stand-ins and of the server."""

    cache: Path
    """Cache of the hub, with stand-ins."""
    port: int
    """Port of the server that answers for every server."""

    def enter(self) -> None:
        """Set the variables for this process and those that it starts; call it before imports."""
        os.environ.update(self.environment)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of a rehearsed process."""
        return {
            REHEARSAL: str(self.cache),
            "HF_HUB_CACHE": str(self.cache),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "TOKENIZERS_PARALLELISM": "false",
            "WANDB_MODE": "offline",
        }


def play(replacements: Replacements, arguments: Sequence[str], *, seed: int = 0) -> int:
    """Run a command of `harness` in this process, with everything replaced; return its code.

    Args:
        replacements: The stand-ins and the server.
        arguments: Those of the command.
        seed: Another seed draws other responses.
    """
    from harness.cli.main import main
    from harness.rehearsal import checkouts, responses

    replacements.enter()
    find_stand_ins(replacements.cache)
    checkouts.replace_checkouts(replacements.cache / "checkouts")
    redirect_servers(replacements.port)
    undo = responses.install(seed)
    try:
        return main(arguments)
    finally:
        undo()


def find_stand_ins(cache: Path) -> None:
    """Make `snapshot_download` of the hub create the stand-in of a published checkpoint first."""
    from harness.rehearsal import standins

    hub: Any = import_module("huggingface_hub")
    original: Callable[..., str] = hub.snapshot_download
    names = frozenset(standins.names())

    def snapshot_download(name: str, *, revision: str | None = None, **settings: Any) -> str:
        if name in names:
            standins.make(name, revision, cache)
            # The hub may have been imported with another cache.
            settings = {**settings, "cache_dir": str(cache)}
        return original(name, revision=revision, **settings)

    hub.snapshot_download = snapshot_download


def redirect_servers(port: int) -> None:
    """Send every request to the server on this machine, with a key that opens nothing."""
    openai: Any = import_module("harness.models.backends.openai")
    openai_http: Any = import_module("harness.models.backends.openai_http")

    def connection_to(
        server: SplitResult, timeout: float
    ) -> tuple[HTTPConnection, str, dict[str, str]]:
        del server
        return HTTPConnection("127.0.0.1", port, timeout=timeout), "", {}

    openai_http.connection_to = connection_to
    openai.key_from = lambda variable: None if variable is None else "rehearsal"
