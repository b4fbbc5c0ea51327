"""Databases for tests: an SQLite file, and a PostgreSQL server where its programs are installed."""

import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

PROGRAMS = ("initdb", "pg_ctl", "postgres")


def programs():
    """Folder of PostgreSQL's programs; None where they are not installed."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((one for one in places if all((one / name).exists() for name in PROGRAMS)), None)


class Server:
    """A PostgreSQL server of this test session, on a free port of loopback."""

    def __init__(self, folder):
        self.folder = folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        folder.chmod(0o777)
        self.run("initdb", "-D", self.folder, "-U", "harness", "-A", "trust", "--no-sync")
        self.start()

    def run(self, program, *arguments):
        line = [str(programs() / program), *map(str, arguments)]
        if Path("/proc/self").stat().st_uid == 0:  # the server refuses to run as root
            line = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *line]
        subprocess.run(line, check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=120)

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -k ''"
        self.run(
            "pg_ctl", "-D", self.folder, "-o", options, "-l", self.folder / "log", "-w", "start"
        )

    def stop(self):
        self.run("pg_ctl", "-D", self.folder, "-m", "immediate", "-w", "stop")

    def new(self, name):
        plain = f"postgresql+psycopg://harness@127.0.0.1:{self.port}"
        sa = pytest.importorskip("sqlalchemy")
        engine = sa.create_engine(f"{plain}/postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f'CREATE DATABASE "{name}"'))
        engine.dispose()
        return f"{plain}/{name}"


@pytest.fixture(scope="session")
def server():
    if programs() is None:
        pytest.skip("PostgreSQL's programs are not installed (apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="the extra `db` is not installed")
    # Not below pytest's own folders, which are closed to the user that the server runs as.
    with tempfile.TemporaryDirectory(prefix="harness-postgres-") as folder:
        made = Server(Path(folder))
        yield made
        made.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'index.sqlite'}"
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)[:50]
    return request.getfixturevalue("server").new(name)
