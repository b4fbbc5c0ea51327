"""A world with labels, and test servers as real processes that speak real HTTP."""

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.plugins import build
from harness.spec import parse
from harness.testing import make_shapes

NEEDED = ("starlette", "uvicorn", "cryptography", "sqlalchemy")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["*"]  # the extra `server`

REPOSITORY = Path(__file__).resolve().parents[2]
TASKS = ("counting", "reason_seg(split=val)", "refcoco(protocol=rec/expression)")
SIZE = 12
WAIT = 120  # seconds within which a busy machine answers
START = """
import sys
from harness.leaderboards.server import app, connections
connections.WAITING, app.IDLE, connections.MAX_CONNECTIONS = {waiting}, {waiting}, {connections}
from harness.cli.main import main
raise SystemExit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def labels(shared):
    """A data root with ground truth; to be read only."""
    with shared("labels") as out:
        if not out.exists():
            make_shapes(out, tasks=("counting", "reason_seg", "refcoco"), size=SIZE)
    return out


@pytest.fixture(scope="session")
def hosted(labels):
    from harness.leaderboards.server.hosted import host

    return host([parse(text) for text in TASKS], labels)


@pytest.fixture(scope="session")
def samples(labels):
    """The samples of each task, with their targets."""
    return {
        task.name: list(task.samples())
        for task in (build("tasks", parse(text), labels) for text in TASKS)
    }


def lines(rows):
    """Bytes of a file of JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture(scope="session")
def counts(samples):
    """Returns a file of counts, of which the first `right` are those of the labels."""

    def made(right=SIZE, tag=0):
        rows = []
        for place, sample in enumerate(samples["counting"]):
            count = sample.target.answer.count
            wrong = count + 1000 + tag
            rows.append({"id": sample.id, "answer": count if place < right else wrong})
        return lines(rows)

    return made


class Running:
    """A server's process, its folder and its accounts."""

    def __init__(self, labels, folder, *options, db=None, waiting=10.0, connections=500):
        self.labels, self.folder, self.options = labels, folder, options
        self.db = db or f"sqlite:///{folder / 'server.sqlite'}"
        self.code = START.format(waiting=waiting, connections=connections)
        self.start()

    def start(self):
        tasks = [word for text in TASKS for word in ("--tasks", text)]
        line = ["server", "start", *tasks, "--labels", self.labels, "--state", self.folder]
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.code, *map(str, line), "--db", self.db, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        address = self.process.stdout.readline()
        if not address:
            raise AssertionError(self.process.stderr.read())
        self.port = int(address.rpartition(":")[2].strip("/\n"))

    def token(self, name):
        from harness.leaderboards.server.store import Store

        return Store(self.db).renew_token(name)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        """Interrupt the server; return its exit code and what it told its owner."""
        self.process.send_signal(signal.SIGINT)
        _, told = self.process.communicate(timeout=WAIT)
        return self.process.returncode, told

    def ask(self, method, path, body=None, token="", **headers):
        """Send a request; return the status, the body (of JSON its value) and the headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        if token:
            headers.setdefault("Authorization", f"Bearer {token}")
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        plain = "application/json" in answer.headers.get("Content-Type", "")
        return answer.status, json.loads(content) if plain else content, dict(answer.headers)

    def upload(self, token, body, query="", task="counting"):
        status, plain, _ = self.ask(
            "POST", f"/tasks/{task}/uploads?method=mine{query}", body, token
        )
        return status, plain

    def scored(self, token, count):
        """Wait until all of an account's uploads are scored; return them."""
        while True:
            _, uploads, _ = self.ask("GET", "/uploads", token=token)
            assert len(uploads) == count
            if all(upload["state"] == "scored" for upload in uploads):
                return uploads
            assert self.process.poll() is None


@pytest.fixture(scope="module")
def server(labels, tmp_path_factory):
    """A server that tests of a module share; each has accounts of its own."""
    made = Running(labels, tmp_path_factory.mktemp("state"), "--per-day", "3", waiting=1.0)
    yield made
    code, told = made.end()
    assert code == 0 and "Ctrl-C" in told and "note:" not in told, told


@pytest.fixture
def running(labels, tmp_path):
    """Returns a new server for the options of `harness server start`."""
    started = []

    def made(*options, **settings):
        started.append(Running(labels, tmp_path / f"state{len(started)}", *options, **settings))
        return started[-1]

    yield made
    for one in started:
        with suppress(ProcessLookupError):
            one.kill()
        for stream in (one.process.stdout, one.process.stderr):
            stream.close()
