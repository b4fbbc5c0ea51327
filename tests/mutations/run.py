"""Change the code by one plausible mistake at a time, and see whether the named tests find it.

    python tests/mutations/run.py [--only ROOM] [--match TEXT] [--dry]

A room is a list `tests/mutations/<room>.toml`. Each mutant has a `name`, a `file`, the `function`
(or class) it changes, the `old` text, which occurs once in that function, and the `new` one;
`tests`, of the room or of the mutant, have to fail with it. Texts are compared token by token, so
that formatting and line breaks do not matter. The tests run in a copy of the repository. `killed`:
they fail; `survived`: they pass, so that a test is missing; `stale`: the function no longer has the
text, or has it several times: write the mutant anew.

`metrics` and `statistics` are not lists: their tests make mutants in memory.
"""

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest
from place import span

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
IN_MEMORY = {
    "metrics": sorted((REPOSITORY / "tests/metrics").glob("test_*mutations.py")),
    "statistics": [REPOSITORY / "tests/statistics/test_mutations.py"],
}
COPIED = (
    "harness",
    "tasks",
    "models",
    "trainers",
    "leaderboards",
    "tests",
    "benchmarks",
    "docs",
    "examples",
)
PACKAGES = (
    "cv2",
    "hypothesis",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    "peft",
    "trl",
)
LIMIT = 180  # seconds of one run of the tests; a mutant may never end
NOTHING_RUN = (4, 5)  # pytest's exit codes for a wrong argument and for no test


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    room: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    function: str = ""
    """Qualified name of the function or class it changes; empty: the module."""

    def applied(self, source: str) -> str:
        """Return the source with the mistake.

        Raises:
            ValueError: the function does not have the text exactly once.
        """
        try:
            start, end = span(source, self.function, self.old)
        except ValueError as error:
            raise ValueError(f"{self.file}: {error}") from None
        return source[:start] + self.new + source[end:]


def rooms() -> dict[str, list[Mutant]]:
    """Return the mutants of each list."""
    lists = {}
    for path in sorted(HERE.glob("*.toml")):
        room = tomllib.loads(path.read_text(encoding="utf-8"))
        tests = room.get("tests", ())
        lists[path.stem] = [
            Mutant(room=path.stem, **{**mutant, "tests": tuple(mutant.get("tests", tests))})
            for mutant in room["mutant"]
        ]
    return lists


class Tree:
    """A copy of the repository that is changed and tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self.log = folder / "log.txt"
        """What pytest printed last."""
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, self.folder / name, symlinks=True, ignore=ignored)
        for path in REPOSITORY.iterdir():
            if path.is_file() and not path.is_symlink() and path.name != ".git":
                shutil.copy2(path, self.folder / path.name)

    def outcome(self, mutant: Mutant) -> str:
        """Return what the tests say of a mutant."""
        path = self.folder / mutant.file
        before = path.read_text(encoding="utf-8")
        try:
            changed = mutant.applied(before)
            compile(changed, mutant.file, "exec")
        except (ValueError, SyntaxError) as error:
            return f"stale: {error}"
        try:
            self._write(path, changed)
            return "survived" if self.passes(mutant.tests) else "killed"
        finally:
            self._write(path, before)

    def passes(self, tests: Iterable[str]) -> bool:
        """Return True if tests pass in the copy."""
        line = ["-q", "-x", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", *tests]
        child = os.fork()  # with the packages that are imported already
        if not child:
            self._test(line)
        end = time.monotonic() + LIMIT
        ended, status = 0, 0
        while not ended and time.monotonic() < end:
            time.sleep(0.05)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        code = os.waitstatus_to_exitcode(status)
        if code in NOTHING_RUN:
            raise RuntimeError(f"pytest {' '.join(line)}: exit code {code}, see {self.log}")
        return code == 0

    def _test(self, line: Sequence[str]) -> NoReturn:
        """Run pytest in this process, and end it."""
        code = 70
        try:
            os.setsid()
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for descriptor in (1, 2):
                os.dup2(log, descriptor)
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.folder)
            sys.path.insert(0, str(self.folder))
            sys.argv = ["pytest"]
            code = int(pytest.main([*line]))
        finally:
            sys.stdout.flush()
            os._exit(code)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Python takes compiled code for current if second and size are those of the source.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()


def preload() -> object:
    """Import packages that most tests need; return what has to live as long as they do.

    Nothing of the harness stays, of which each child imports its own, mutated one.
    """
    kept = None
    os.environ["OMP_NUM_THREADS"] = "1"  # as tests/conftest.py sets it, but before torch is loaded
    with suppress(ImportError):
        kept = import_module("harness.models.backends.torchvision_cpu")
        kept.ensure_torchvision()
        for name in PACKAGES:
            import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "harness"]:
        del sys.modules[name]
    return kept


def outcomes(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str, float]]:
    """Yield what the tests say of each mutant, and the seconds; first they have to pass without."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree(Path(folder))
        for test in dict.fromkeys(test for one in mutants for test in one.tests):
            if not tree.passes([test]):
                raise SystemExit(f"{test} fails without a mistake:\n{tree.log.read_text()[-2000:]}")
        for mutant in mutants:
            began = time.monotonic()
            yield mutant, tree.outcome(mutant), time.monotonic() - began


def in_memory(room: str) -> Counter[str]:
    """Return how many mutants of a room that has no list the test suite kills."""
    line = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "mistake", "-rN"]
    done = subprocess.run(
        [*line, *map(str, IN_MEMORY[room])], cwd=REPOSITORY, capture_output=True, text=True
    )
    last = done.stdout.strip().rpartition("\n")[2].split()
    counts = {
        name.strip(","): int(number)
        for number, name in itertools.pairwise(last)
        if number.isdigit()
    }
    return Counter(killed=counts.get("passed", 0), survived=counts.get("failed", 0))


def report_stale(lists: dict[str, list[Mutant]]) -> int:
    """Print the number of mutants of each list, and those that are stale; return 1 if any is."""
    stale = 0
    for room, mutants in lists.items():
        print(f"{room}: {len(mutants)} mutants")
        for one in mutants:
            try:
                one.applied((REPOSITORY / one.file).read_text(encoding="utf-8"))
                missing = [test for test in one.tests if not (REPOSITORY / test).exists()]
                fault = f"no {missing[0]}" if missing else ""
            except (OSError, ValueError) as error:
                fault = str(error)
            if fault:
                stale += 1
                print(f"{room}: {one.name}: stale: {fault}")
    return int(stale > 0)


def main() -> int:
    """Run the list; return 1 if a mutant survives or is stale."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    lists = rooms()
    parser.add_argument("--only", choices=[*lists, *IN_MEMORY], metavar="ROOM")
    parser.add_argument("--match", default="", metavar="TEXT", help="a part of mutants' names")
    parser.add_argument("--dry", action="store_true", help="run no tests, only look for the texts")
    options = parser.parse_args()
    if options.dry:
        return report_stale(lists)
    kept = preload()
    table = {}
    for room in [options.only] if options.only else [*lists, *IN_MEMORY]:
        began = time.monotonic()
        if room in IN_MEMORY:
            table[room] = in_memory(room)
        else:
            chosen = [one for one in lists[room] if options.match in one.name]
            table[room] = Counter()
            for mutant, outcome, seconds in outcomes(chosen):
                table[room][outcome.partition(":")[0]] += 1
                if outcome != "killed" or options.only:
                    print(f"{room}: {mutant.name}: {outcome} ({seconds:.0f} s)", flush=True)
        counts = ", ".join(f"{number} {name}" for name, number in table[room].items())
        print(f"{room}: {counts} ({time.monotonic() - began:.0f} s)", flush=True)
    del kept
    total = sum(table.values(), Counter())
    print("all:", ", ".join(f"{number} {name}" for name, number in total.items()))
    return int(any(name != "killed" and number for name, number in total.items()))


if __name__ == "__main__":
    sys.exit(main())
