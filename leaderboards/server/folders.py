"""The test server's folder: its key, its database, uploads, working folders and runs.

server.key, server.pub   the key of receipts
server.sqlite            the database, if no other is named
incoming/                uploads that are being received or checked
uploads/                 accepted files, by the name that the database has
work/                    a working folder for each upload that a process reads
runs/NUMBER/             the run folder of each upload that was scored
"""

import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.leaderboards.server.hosted import RUN, UPLOAD
from harness.store.atomic import sync, writing


class Folders:
    """Paths below the server's folder, which only its owner can enter."""

    def __init__(self, root: Path) -> None:
        """Make the folders.

        Raises:
            StoreError: they cannot be made.
        """
        self.root = root.resolve()
        self.uploads, self.runs = self.root / "uploads", self.root / "runs"
        self._incoming, self._work = self.root / "incoming", self.root / "work"
        with writing(root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.uploads, self.runs, self._incoming, self._work):
                folder.mkdir(mode=0o700, exist_ok=True)

    def tidy(self, accepted: Collection[str]) -> None:
        """Remove files that a killed server left: unfinished ones, and uploads without a row.

        `accepted` are the file names of the uploads in the database.
        """
        for folder in (self._incoming, self._work):
            shutil.rmtree(folder)
            folder.mkdir(mode=0o700)
        for path in self.uploads.iterdir():
            if path.name not in accepted:
                path.unlink()

    @contextmanager
    def incoming(self) -> Iterator[Path]:
        """Yield a new path for a file that is received; remove the file at the end if it is there.

        `keep` moves it away before.
        """
        path = self._incoming / secrets.token_hex(16)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def keep(self, path: Path) -> None:
        """Move a received file to the uploads, and flush the folder to disk."""
        path.rename(self.uploads / path.name)
        sync(self.uploads)

    @contextmanager
    def work(self, path: Path) -> Iterator[Path]:
        """Yield a new working folder with an upload in it."""
        folder = self._work / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            os.link(path, folder / UPLOAD)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep_run(self, folder: Path, number: int) -> None:
        """Move the run folder out of a working folder, in place of one of an earlier attempt."""
        target = self.runs / str(number)
        shutil.rmtree(target, ignore_errors=True)
        (folder / RUN).rename(target)
        sync(self.runs)
