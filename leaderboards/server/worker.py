"""The queue: a thread that scores accepted uploads one after the other, each in a child process."""

import json
import threading
from collections.abc import Callable, Mapping

from harness.errors import HarnessError
from harness.leaderboards.server.children import Children
from harness.leaderboards.server.folders import Folders
from harness.leaderboards.server.hosted import Hosted, Settings
from harness.leaderboards.server.store import Store, Upload

PAUSE = 5.0
"""Seconds between two looks at the queue, also after an error of the database."""
ATTEMPTS = 3  # of an upload, before it is set aside until the next start


class Worker(threading.Thread):
    """Scores queued uploads until the process ends; an interrupted upload stays queued."""

    def __init__(
        self,
        store: Store,
        folders: Folders,
        children: Children,
        tasks: Mapping[str, Hosted],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(daemon=True)
        self._store, self._folders, self._children = store, folders, children
        self._tasks, self._note = tasks, note
        self._news = threading.Event()
        self._attempts: dict[int, int] = {}

    def wake(self) -> None:
        """Look at the queue now."""
        self._news.set()

    def run(self) -> None:
        """Score uploads as they come."""
        while True:
            self._news.clear()
            try:
                upload = self._store.next_queued()
                if upload is not None:
                    self._score(upload)
                    continue
            except Exception as error:  # noqa: BLE001 - the database may be away for a while
                self._note(f"the queue: {type(error).__name__}: {error}")
            self._news.wait(PAUSE)

    def _score(self, upload: Upload) -> None:
        """Score one upload and store the result; give up after `ATTEMPTS` failures."""
        hosted = self._tasks.get(upload.task)
        try:
            if hosted is None:
                raise HarnessError(
                    f"task {upload.task}", expected="to be served", found="it is not"
                )
            with self._folders.work(self._folders.uploads / upload.file) as folder:
                settings = Settings(**json.loads(upload.settings))
                # Boards tell runs of predictions apart by their names.
                name = f"{upload.method} ({upload.account} {upload.number})"
                score = self._children.score(folder, hosted, settings, name)
                self._folders.keep_run(folder, upload.number)
            self._store.finish(upload, score, hosted)
        except Exception as error:  # noqa: BLE001 - one upload does not hold up the others
            attempts = self._attempts[upload.number] = self._attempts.get(upload.number, 0) + 1
            self._note(f"upload {upload.number}, attempt {attempts}: {error}")
            if attempts >= ATTEMPTS:
                self._store.fail(upload)
