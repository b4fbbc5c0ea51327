"""The toy package, findable like an installed one."""

import sys
from pathlib import Path

import pytest

TOYS = Path(__file__).parent / "toys"


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Put the toy package where plugins are found, here and in commands."""
    monkeypatch.syspath_prepend(str(TOYS))
    yield
    sys.modules.pop("toys", None)


@pytest.fixture
def dots(toys, tmp_path):
    """A data root with forty images."""
    import toys as package

    return package.write_dots(tmp_path / "data", 40)


@pytest.fixture
def toy_command(process):
    """The command, with the toy package installed."""
    process.path.append(TOYS)
    return process


@pytest.fixture
def start(toy_command):
    """Starts the command, with the toy package installed; keywords are variables for it."""
    return toy_command.start
