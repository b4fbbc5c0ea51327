"""Every mistake of tests/mutations can be made in today's code."""

import importlib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def test_every_mutant_applies_once_and_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "tests" / "mutations"))
    rooms = importlib.import_module("run").rooms()
    assert sum(map(len, rooms.values())) >= 150
    for mutant in (one for several in rooms.values() for one in several):
        source = (REPOSITORY / mutant.file).read_text("utf-8")
        changed = mutant.applied(source)  # ValueError where its text is not there exactly once
        compile(changed, f"{mutant.room}: {mutant.name}", "exec")
        assert changed != source
        assert all((REPOSITORY / test).exists() for test in mutant.tests), mutant.name
