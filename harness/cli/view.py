"""`harness view`: serve the site of runs, also unfinished ones, to a browser on this machine."""

import sys
from argparse import Namespace

from harness.errors import StoreError, UsageError
from harness.record import MANIFEST


def view(arguments: Namespace) -> int:
    """Serve the site until Ctrl-C.

    Raises:
        StoreError: a folder holds no run.
        UsageError: the port is not free.
    """
    from harness.leaderboards.site.live import LiveSite
    from harness.leaderboards.site.server import SiteServer

    for folder in arguments.runs:
        if not folder.is_dir() or next(folder.rglob(MANIFEST), None) is None:
            raise StoreError(
                f"folder {folder}",
                expected="a run, or a folder of runs, finished or not",
                found="none",
                fix="A run folder holds manifest.json.",
            )
    site = LiveSite(arguments.runs, title=arguments.title, data_root=arguments.data)
    try:
        server = SiteServer(site, port=arguments.port)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"--port {arguments.port}",
            expected="a free port of this machine",
            found=str(error),
            fix="Without --port, a free one is chosen.",
        ) from error
    with server:
        print(server.url, flush=True)
        print("Ctrl-C ends it.", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
