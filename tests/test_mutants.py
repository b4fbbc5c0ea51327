"""Every mistake of tests/mutations can be made in today's code, wherever its function stands."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = """
def first(values):
    return sum(values) + 1


class Later:
    def first(self, values):  # of another kind
        return sum(
            values,  # all of them
        ) + 1
"""


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that makes the mutants."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "tests" / "mutations"))
    return importlib.import_module("run")


def test_lists_of_mutants_can_be_read(mutations: ModuleType) -> None:
    assert sum(map(len, mutations.rooms().values())) >= 150
    folder = REPOSITORY / "tests" / "mutations" / "in_memory"
    lists = {
        path.stem: importlib.import_module("place").in_memory(path.stem)
        for path in folder.glob("*.toml")
    }
    assert sum(map(len, lists.values())) >= 500


def test_a_mutant_is_found_in_its_function_whatever_its_layout(mutations: ModuleType) -> None:
    start, end = mutations.span(SOURCE, "Later.first", "return sum(values) + 1")
    assert SOURCE[:start].endswith("# of another kind\n        ")
    assert SOURCE[end:] == "\n"


@pytest.mark.parametrize(
    ("function", "text", "fault"),
    [
        ("", "sum(values)", "2 places"),
        ("first", "values, 1", "0 places"),
        ("second", "values", "no function or class 'second'"),
    ],
)
def test_a_mutant_without_one_place_is_stale(
    function: str, text: str, fault: str, mutations: ModuleType
) -> None:
    with pytest.raises(ValueError, match=fault):
        mutations.span(SOURCE, function, text)


@pytest.mark.slow
def test_every_mutant_applies_once_and_compiles(mutations: ModuleType) -> None:
    for mutant in (mutant for room in mutations.rooms().values() for mutant in room):
        source = (REPOSITORY / mutant.file).read_text("utf-8")
        changed = mutant.applied(source)  # ValueError unless its function has the text once
        compile(changed, f"{mutant.room}: {mutant.name}", "exec")
        assert changed != source
        assert all((REPOSITORY / test).exists() for test in mutant.tests), mutant.name
