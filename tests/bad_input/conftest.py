"""Runs `harness` on bad things, and looks at what must hold whatever was bad.

A test says with `@pytest.mark.case(bad_input, what_happens, code=…)` what is bad and what
comes of it; the fixture `harness` holds it to that exit code. docs/bad-input.md has the rules.
"""

import importlib
import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main

RESTING = {"reason_seg": "ReasonSeg/val", "mevis": "valid_u", "counting": "counting_pixmo_*"}
PLUGIN = """
import os, signal
from dataclasses import dataclass, field, replace

import numpy as np

from harness import model, plugins
from harness.errors import *
from harness.masks import Rle
from harness.scores import Mean, Metric
from harness.spec import Spec
from harness.task import Ceiling, ExtraMetric
from harness.types import *


@dataclass
class Model(model.Model):
    answer: object
    name: str = "toy"
    batch_size: int = 2
    description: dict = field(default_factory=dict)

    def describe(self):
        return self.description

    def predict(self, queries):
        return [Prediction(query_id=query.id, answer=self.answer(query)) for query in queries]


def counts(query):
    return Answer(count=3)


def raises(error):
    def answer(query):
        raise error

    return answer


def counting(data, **changes):
    return replace(plugins.build("tasks", Spec("counting"), data), **changes)
"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "case(bad_input, what_happens, code): what is bad, and what comes of it"
    )


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str
    folder: Path

    def says(self, *words: str) -> "Done":
        for word in words:
            assert word in self.err, f"{word!r} is not in:\n{self.err}"
        return self

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def task(self, name: str) -> Any:
        """Return the results that are printed, or those that a run without an answer has kept."""
        if self.out:
            return self.json["tasks"][name]
        (path,) = self.folder.rglob(f"{name}*/results.json")
        return json.loads(path.read_text("utf-8"))


class Harness:
    """Runs one command in this process and checks what must hold whatever happens."""

    def __init__(self, folder: Path, expected: int | None, capsys: Any) -> None:
        self.folder = folder
        self.expected = expected
        self.capsys = capsys

    def __call__(self, *arguments: Any, code: int | None = None) -> Done:
        before = self._data()
        done = self.main(*arguments)
        expected = self.expected if code is None else code
        assert done.code == expected, f"exit code {done.code}\n{done.err}"
        self.check(done)
        assert self._data() == before, "a benchmark's files were touched"
        return done

    def main(self, *arguments: Any) -> Done:
        """The command, whatever it does."""
        self.capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:  # argparse
            code = int(error.code or 0)
        return Done(code, *self.capsys.readouterr(), self.folder)

    def check(self, done: Done) -> None:
        """No traceback, no half of a file, no number beside an error, nothing executed."""
        assert "Traceback" not in done.err
        if done.code > 1:  # 1 is the verdict of a check, beside its numbers
            assert done.out == ""
            output = [line for line in done.err.splitlines() if line.startswith("harness")]
            assert len(output) == 1, f"one message, not {len(output)}:\n{done.err}"
        left = [path for path in self.folder.rglob("*") if path.suffix in (".tmp", ".partial")]
        assert left == []
        assert not (self.folder / "canary").exists(), "something was executed"

    def _data(self) -> dict[Path, bytes]:
        return contents(self.folder / "data")

    def eval(
        self,
        *arguments: Any,
        tasks: str = "",
        model: str = "whole_frame",
        out: str = "runs",
        code: int | None = None,
    ) -> Done:
        """`harness eval` on the data of the test, with one JSON value as output."""
        requested = tasks or ",".join(self.benchmarks)
        return self(
            "eval",
            "--model",
            model,
            "--tasks",
            requested,
            "--data",
            self.folder / "data",
            "--out",
            self.folder / out,
            "--quiet",
            "--json",
            *arguments,
            code=code,
        )

    def score(self, rows: Any, *arguments: Any, tasks: str = "", code: int | None = None) -> Done:
        """`harness score` of a predictions file with these rows (or these bytes)."""
        path = self.folder / "said.jsonl"
        path.write_bytes(rows if isinstance(rows, bytes) else lines(rows))
        return self(
            "score",
            "--tasks",
            tasks or ",".join(self.benchmarks),
            "--data",
            self.folder / "data",
            "--predictions",
            path,
            "--json",
            *arguments,
            code=code,
        )

    @property
    def benchmarks(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "data").iterdir() if path.is_dir())

    @property
    def run(self) -> Path:
        """The only run folder."""
        (manifest,) = (self.folder / "runs").rglob("manifest.json")
        return manifest.parent


def lines(rows: list[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def harness(request: pytest.FixtureRequest, tmp_path: Path, capsys: Any) -> Harness:
    cases = list(request.node.iter_markers("case"))
    assert cases, "every test here says what is bad"
    return Harness(tmp_path, cases[0].kwargs["code"], capsys)


@pytest.fixture
def bench(shapes: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copies a benchmark of the generated world; gives its folder with the images."""

    def copied(name: str) -> Path:
        pattern = RESTING[name]
        for place in sorted((shapes / name).glob(pattern)):
            target = tmp_path / "data" / place.relative_to(shapes)
            shutil.copytree(place, target)
        return next(iter((tmp_path / "data" / name).glob(pattern)))

    return copied


@pytest.fixture
def reason_seg(bench: Callable[[str], Path]) -> Path:
    return bench("reason_seg")


@pytest.fixture
def mevis(bench: Callable[[str], Path]) -> Path:
    return bench("mevis")


@pytest.fixture
def counting(bench: Callable[[str], Path]) -> Path:
    return bench("counting")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a package with one module for this test: `plugin("models", toy="def toy(): …")`."""

    def install(kind: str, **functions: str) -> Path:
        place = tmp_path / "plugins"
        information = place / "toy-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Name: toy\nVersion: 1.0\n")
        entries = [f"[harness.{kind}]", *(f"{name} = toys_of_a_test:{name}" for name in functions)]
        (information / "entry_points.txt").write_text("\n".join(entries) + "\n")
        code = "\n".join([PLUGIN, *functions.values()])
        (place / "toys_of_a_test.py").write_text(code)
        monkeypatch.syspath_prepend(str(place))
        importlib.invalidate_caches()
        return place

    yield install
    sys.modules.pop("toys_of_a_test", None)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file."""
    plain = json.loads(path.read_text())
    changed = change(plain)
    path.write_text(json.dumps(plain if changed is None else changed))


@pytest.fixture(name="edit")
def edit_fixture() -> Callable[..., None]:
    return edit


@pytest.fixture(name="contents")
def contents_fixture() -> Callable[[Path], dict[Path, bytes]]:
    return contents


@pytest.fixture
def in_time():
    """Ends the test with an error if it waits for what never comes."""

    def late(*_):
        raise AssertionError("it waits for ever")  # a TimeoutError would be an OSError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
