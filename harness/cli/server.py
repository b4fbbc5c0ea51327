"""`harness server`: serve tasks whose ground truth stays here, and print tokens of accounts."""

import sys
from argparse import Namespace
from contextlib import suppress
from types import ModuleType

from harness.cli.output import note
from harness.cli.spec_arguments import require, require_minimum, specs
from harness.errors import MissingDependency, UsageError

MIB = 2**20


def _server() -> ModuleType:
    """Import the server; raise MissingDependency if a package of its extra is missing."""
    try:
        from harness.leaderboards.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("harness"):
            raise
        raise MissingDependency.package(error.name, extra="server") from error
    return serve


def start(arguments: Namespace) -> int:
    """Serve tasks until Ctrl-C."""
    server = _server()
    from harness.leaderboards.server.hosted import host

    require(arguments, "tasks", labels="the folder of the benchmarks, with their ground truth")
    require_minimum(arguments, 1, "per_day", "max_mib")
    if not arguments.labels.is_dir():
        raise UsageError(f"--labels {arguments.labels}", expected="a folder", found="none")
    step = arguments.step
    if step is not None and (step <= 0 or arguments.release != "ladder"):
        raise UsageError("--step", expected="a number > 0, with --release ladder", found=str(step))
    tasks = host(
        specs(arguments.tasks, "--tasks"),
        arguments.labels,
        step if arguments.release == "ladder" else 0.0,
    )

    def ready(address: str) -> None:
        print(address, flush=True)
        print("Ctrl-C ends it.", file=sys.stderr)

    with suppress(KeyboardInterrupt):
        server.serve(
            tasks,
            arguments.state,
            url=arguments.db,
            host=arguments.host,
            port=arguments.port,
            title=arguments.title,
            per_day=arguments.per_day,
            max_bytes=arguments.max_mib * MIB,
            reveals_samples=arguments.release == "samples",
            note=note,
            ready=ready,
        )
    return 0


def token(arguments: Namespace) -> int:
    """Print a new token of an account, or void its token."""
    store = _server().store_of(arguments.state, arguments.db)
    if arguments.revoke:
        store.revoke(arguments.name)
    else:
        print(store.renew_token(arguments.name))
    return 0
