"""Run the test server as a process: lock its folder, and serve until it is interrupted."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote

import uvicorn

from harness.errors import UsageError
from harness.leaderboards.server.app import Server
from harness.leaderboards.server.children import Children, Limits
from harness.leaderboards.server.connections import BoundedProtocol
from harness.leaderboards.server.folders import Folders
from harness.leaderboards.server.hosted import Hosted
from harness.leaderboards.server.receipt import Signer
from harness.leaderboards.server.store import Store
from harness.leaderboards.server.worker import Worker
from harness.store.lease import lease

DATABASE = "server.sqlite"


def store_of(root: Path, url: str | None) -> Store:
    """Return the store of a server that was started once: of its folder, or a database's URL.

    Raises:
        UsageError: no server was started with this folder.
    """
    if url is None and not (root / DATABASE).is_file():
        raise UsageError(
            f"--state {root}",
            expected="the folder of a server",
            found="one without a database" if root.is_dir() else "none",
            fix=f"`harness server start --tasks … --labels ROOT --state {quote(str(root))}` makes "
            "it.",
        )
    return Store(url or _database(root))


def _database(root: Path) -> str:
    return f"sqlite:///{root.resolve() / DATABASE}"


def serve(
    tasks: Mapping[str, Hosted],
    root: Path,
    *,
    url: str | None,
    host: str,
    port: int,
    title: str,
    per_day: int,
    max_bytes: int,
    reveals_samples: bool,
    note: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Serve until the process is interrupted.

    Args:
        tasks: The tasks that are scored, by their names in addresses.
        root: The server's folder.
        url: The database; None: a file in the folder.
        host: Address to listen on.
        port: Port to listen on; 0 chooses a free one.
        title: Heading of the board.
        per_day: Largest number of uploads of an account to a task in a day of UTC.
        max_bytes: Largest size of an upload, and of the files in a zip, in bytes.
        reveals_samples: Show participants the scores of their uploads by sample.
        note: Receives messages for the owner alone.
        ready: Receives the address once connections are accepted.

    Raises:
        Locked: another server uses the folder.
        UsageError: the port is taken, or the folder has scores of a task by other labels.
        StoreError: the folder or the database cannot be used.
    """
    folders = Folders(root)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the child processes
    with (
        lease(folders.root, "--state"),
        socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener,
    ):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"--host {host} --port {port}", expected="a free port", found=str(error)
            ) from error
        store = Store(url or _database(root))
        tasks = {hosted.key: hosted for hosted in map(store.claim, tasks.values())}
        children = Children(tasks.values(), folders.root, Limits(unpacked=max_bytes))
        folders.tidy({upload.file for upload in store.uploads()})
        store.retry_failed()
        worker = Worker(store, folders, children, tasks, note)
        worker.start()
        server = Server(
            tasks=tasks,
            store=store,
            folders=folders,
            children=children,
            signer=Signer(folders.root),
            queued=worker.wake,
            note=note,
            title=title,
            per_day=per_day,
            max_bytes=max_bytes,
            reveals_samples=reveals_samples,
        )
        config = uvicorn.Config(
            server.application(),
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=10,
        )
        listener.listen(1024)
        shown_host = f"[{host}]" if ":" in host else host
        ready(f"http://{shown_host}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])
