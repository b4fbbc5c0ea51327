"""What tests of several rooms use: a small world in official layouts, real data, the command."""

import fcntl
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from forked import Forked

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "commands"))  # of the processes that start there, too
REAL = REPOSITORY.parent / "shared" / "real"

# Tests have to pass on a busy machine, where a fast example may take a second, and a change is
# judged by the same examples each time; `--hypothesis-profile=search` looks for new ones.
BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("busy", BUSY, derandomize=True)
settings.register_profile("search", BUSY, print_blob=True)
settings.load_profile("busy")

# Before anything loads torch, and for all processes that tests start: several threads wait for each
# other where others want the same cores, many times as long as they compute.
os.environ["OMP_NUM_THREADS"] = "1"

# Nor do they keep compiled code to themselves, whatever the shell says: hundreds of commands would
# compile all modules that they import, and take three times as long.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where official code lies that some tests run; they are skipped where it is not named."""
    for name in ("xmem", "cutie", "eee"):
        variable = f"HARNESS_{name.upper()}_REPO"
        parser.addoption(
            f"--{name}-repo",
            type=Path,
            metavar="PATH",
            default=os.environ.get(variable) or None,
            help=f"a checkout of its official code, which is used (default: ${variable})",
        )


MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
"""A folder in memory, and the bytes that have to be free there."""


def pytest_configure() -> None:
    """Keep files in memory where there is room: thousands of runs are written, synced and removed.

    Ctrl-C is taken again where a shell started the tests in the background, and ignores it.
    """
    fits = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
    if "TMPDIR" not in os.environ and fits and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # asked for anew
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector away from what all tests import: a million objects live to the end.

    It would look through them again and again, in a quarter of the time that importing takes.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the tests' own, which worker processes and commands inherit."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HARNESS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated world, eight samples a split; to be read only, for all workers share it."""
    from harness.testing import make_shapes

    with made_once(tmp_path_factory, "shapes") as out:
        if not out.exists():
            make_shapes(out)
    return out


@pytest.fixture(scope="session")
def evaluated(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three models on three tasks of the generated world; to be read only, as it is."""
    from harness.cli.main import main

    models, tasks = "saliency,random,whole_frame", "reason_seg,mevis,counting"
    with made_once(tmp_path_factory, "evaluated") as out:
        if not out.exists():
            given = ["--model", models, "--tasks", tasks, "--data", str(shapes), "--out", str(out)]
            assert main(["eval", *given, "--quiet"]) == 0
    return out


@contextmanager
def made_once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Yield a path of all workers; one of them makes it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield base / name


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], AbstractContextManager[Path]]:
    """`made_once` by name alone, for other rooms' fixtures."""
    return partial(made_once, tmp_path_factory)


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Any]]:
    """Return the comparisons of a family of golden files, made once for all workers."""
    golden = REPOSITORY / "tests" / "golden"

    def comparisons(family: str) -> list[Any]:
        with pytest.MonkeyPatch.context() as patched:
            patched.syspath_prepend(str(golden))
            module = importlib.import_module(f"compare_{family}")
            kind = importlib.import_module("comparison").Comparison
        with made_once(tmp_path_factory, f"compared-{family}.json") as path:
            if not path.exists():
                path.write_text(json.dumps(list(module.comparisons())))
            return [kind(*one) for one in json.loads(path.read_text())]

    return comparisons


@pytest.fixture(scope="session")
def real() -> Path:
    """Real photographs and videos in official layouts, where they are at hand."""
    if not REAL.is_dir():
        pytest.skip("no real photographs beside the repository")
    return REAL


class Process:
    """Runs `harness` in a process of its own, as a user does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: list[Path] = []
        self.started: list[Forked] = []

    def environment(self) -> dict[str, str]:
        before = [str(path) for path in self.path]
        joined = os.pathsep.join([*before, os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PYTHONPATH": joined, "COLUMNS": "200"}

    def __call__(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "harness", *map(str, arguments)]
        return subprocess.run(
            line,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment(),
            timeout=300,
        )

    def start(self, *arguments: Any, largest: int | None = None, **variables: str) -> "Forked":
        """Start `harness` without waiting for it; no file grows beyond `largest` bytes."""
        from forked import Forked

        environment = self.environment() | variables
        words = list(map(str, arguments))
        self.started.append(Forked(words, cwd=self.folder, env=environment, largest=largest))
        return self.started[-1]

    def end(self) -> None:
        """Kill what was started and its workers, which may outlive it; pytest waits for them."""
        for one in self.started:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(one.pid, signal.SIGKILL)

    def json(self, *arguments: Any, code: int = 0) -> Any:
        done = self(*arguments, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)


class Command(Process):
    """Runs `harness` in this process, where most of what it needs has been imported."""

    def __init__(self, folder: Path, captured: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder)
        self.captured = captured

    def __call__(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        from harness.cli.main import main

        line = [*map(str, arguments)]
        self.captured.readouterr()
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("COLUMNS", "200")
            patched.chdir(self.folder)
            code = main(line)
        return subprocess.CompletedProcess(line, code, *self.captured.readouterr())


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    yield made
    made.end()


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)
