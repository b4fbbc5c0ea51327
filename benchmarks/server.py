"""Latency of a test server under load, and uploads that it loses when it is killed: none may be.

    python benchmarks/server.py --users 50 --uploads 2 --kills 2

Users upload at once by real HTTP to a server process, which is killed (SIGKILL) and started again
while they do. Whoever has no answer repeats the upload. At the end each upload that was accepted
has to be scored, once, with its own bytes.
"""

import argparse
import hashlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from harness import load_task
from harness.leaderboards.server.store import Store
from harness.testing import make_shapes

ROOT = Path(__file__).resolve().parent.parent
TASK = "counting"
PAUSE = 0.2  # seconds between two questions to the server


class Server:
    """A server process that can be killed."""

    def __init__(self, folder: Path, per_day: int) -> None:
        self.labels, self.state = folder / "labels", folder / "state"
        self.db = f"sqlite:///{self.state / 'server.sqlite'}"
        self.per_day = per_day
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self) -> None:
        line = [sys.executable, "-m", "harness", "server", "start", "--tasks", TASK]
        line += ["--labels", str(self.labels), "--state", str(self.state), "--db", self.db]
        line += ["--port", str(self.port), "--per-day", str(self.per_day)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the server does not start"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(self, method: str, path: str, token: str, body: bytes | None = None) -> Any:
        """Return the status and the value of the answer; repeat while nobody answers."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            try:
                connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(PAUSE)
            finally:
                connection.close()


class User:
    """An account that uploads files of its own, and waits for their scores."""

    def __init__(self, server: Server, number: int, targets: dict[str, int], uploads: int) -> None:
        self.server, self.targets, self.count = server, targets, uploads
        self.random = random.Random(number)
        self.accepted: dict[int, str] = {}
        """SHA-256 of each upload that was accepted, by its number."""
        self.accept_seconds: list[float] = []
        self.score_seconds: list[float] = []

    def upload_all(self, accepted: threading.Semaphore) -> None:
        """Upload all files, one after the other."""
        for _ in range(self.count):
            rows = [
                {"id": name, "answer": count if self.random.random() < 0.5 else 10**6}
                for name, count in self.targets.items()
            ]
            rows[0]["answer"] = self.random.randrange(10**9)  # no two files are equal
            body = "".join(json.dumps(row) + "\n" for row in rows).encode()
            began = time.monotonic()
            path = f"/tasks/{TASK}/uploads?method=benchmark"
            while True:
                status, plain = self.server.ask("POST", path, self.token, body)
                if status == 201:
                    break
                assert status == 429 and "one at a time" in plain["error"], plain
                time.sleep(PAUSE)
            self.accept_seconds.append(time.monotonic() - began)
            self.accepted[plain["receipt"]["number"]] = hashlib.sha256(body).hexdigest()
            accepted.release()
            while plain["state"] != "scored":
                time.sleep(PAUSE)
                number = plain["receipt"]["number"]
                _, plain = self.server.ask("GET", f"/uploads/{number}", self.token)
            self.score_seconds.append(time.monotonic() - began)

    def lost(self) -> int:
        """Return the number of accepted uploads that the server does not have, scored."""
        _, uploads = self.server.ask("GET", "/uploads", self.token)
        kept = {
            upload["receipt"]["number"]: upload["receipt"]["sha256"]
            for upload in uploads
            if upload["state"] == "scored"
        }
        return len(self.accepted.items() - kept.items()) + len(kept.keys() - self.accepted.keys())


def main() -> int:
    """Print latencies and lost uploads; exit code 1 if one is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("users", 50), ("uploads", 2), ("kills", 2), ("samples", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    total = arguments.users * arguments.uploads
    with tempfile.TemporaryDirectory(prefix="harness-server-") as folder:
        server = Server(Path(folder), arguments.uploads)
        make_shapes(server.labels, tasks=(TASK,), size=arguments.samples)
        samples = load_task(TASK, data=server.labels).samples()
        targets = {sample.id: sample.target.answer.count for sample in samples}
        server.start()
        users = [
            User(server, number, targets, arguments.uploads) for number in range(arguments.users)
        ]
        store = Store(server.db)
        for number, user in enumerate(users):
            user.token = store.renew_token(f"user{number}")
        accepted = threading.Semaphore(0)
        began = time.monotonic()
        with ThreadPoolExecutor(len(users)) as threads:
            work = [threads.submit(user.upload_all, accepted) for user in users]
            for _ in range(arguments.kills):
                for _ in range(total // (arguments.kills + 1)):
                    accepted.acquire()
                server.kill()
                server.start()
            for future in work:
                future.result()
        seconds = time.monotonic() - began
        lost = sum(user.lost() for user in users)
        server.kill()
    print(f"{arguments.users} users, {total} uploads, {arguments.kills} kills, {seconds:.1f} s")
    for title, name in (("accepted after", "accept_seconds"), ("scored after", "score_seconds")):
        values = [value for user in users for value in getattr(user, name)]
        middle, most = np.quantile(values, (0.5, 0.95))
        print(f"{title:15}  median {middle:6.2f} s  95 % {most:6.2f} s  all {max(values):6.2f} s")
    print(f"lost or doubled: {lost}")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
