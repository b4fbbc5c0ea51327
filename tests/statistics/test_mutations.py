"""The checks are sharp: every plausible mistake in the statistics makes one of them differ.

Each mutation changes one place in the source of one module. All modules are then executed anew, so
that those above the changed one use it, and one check has to differ.
"""

import sys
import warnings
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace

import pytest

import harness.statistics

sys.path.insert(0, str(Path(__file__).parents[1] / "mutations"))

from place import in_memory, replaced

pytestmark = pytest.mark.slow
ORDER = (
    "quantiles",
    "clusters",
    "resampling",
    "jackknife",
    "analytic",
    "shares",
    "bootstrap",
    "power",
    "swaps",
    "sequential",
    "detection",
    "paired",
    "holm",
    "repeats",
    "variance",
    "pseudo",
)
FOLDER = Path(harness.statistics.__file__).parent

MUTATIONS = in_memory("statistics")


ASKED = {
    "quantiles": ("tables", "bootstrap_by_units"),
    "clusters": (
        "sums_are_exact",
        "bootstrap_by_units",
        "left_out_by_units",
        "formulas",
        "pairs_of_corpora",
        "left_out_in_blocks",
    ),
    "resampling": ("draws_are_multinomial",),
    "jackknife": ("left_out_by_units", "left_out_in_blocks"),
    "bootstrap": ("bootstrap_by_units", "swaps_of_units", "answers_right_or_wrong"),
    "analytic": ("formulas",),
    "shares": ("answers_right_or_wrong",),
    "power": ("detectable",),
    "swaps": ("swaps_of_units", "studentised", "directions"),
    "sequential": ("stopped",),
    "detection": ("answers_lost",),
    "paired": ("directions", "swaps_of_units", "pairs_of_corpora"),
    "holm": ("corrected",),
    "repeats": ("choices_of_k",),
    "variance": ("alternating", "analysis_of_variance"),
    "pseudo": ("stand_ins",),
}


@cache
def compiled(name: str) -> CodeType:
    return compile((FOLDER / f"{name}.py").read_text(encoding="utf-8"), f"{name}.py", "exec")


def executed(changed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """All modules executed anew, some of them from another source."""
    fresh: dict[str, ModuleType] = {}
    for name in ORDER:
        module = ModuleType(f"harness.statistics.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(harness.statistics, name, module)
        source = changed.get(name)
        exec(compile(source, f"{name}.py", "exec") if source else compiled(name), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def test_unchanged_modules_executed_anew_differ_nowhere(checks, monkeypatch):
    modules = executed({}, monkeypatch)
    assert {name: list(check(modules)) for name, check in checks.items()} == {
        name: [] for name in checks
    }


def test_every_module_is_mutated():
    assert {name for name, *_ in MUTATIONS.values()} == {*ORDER} == {*ASKED}
    modules = {path.stem for path in FOLDER.glob("*.py")}
    assert modules == {*ORDER, "__init__", "text"}  # which computes nothing


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_makes_a_check_differ(name, function, old, new, checks, monkeypatch):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    modules = executed({name: replaced(source, function, old, new)}, monkeypatch)
    assert any(found_by(checks[requested], modules) for requested in ASKED[name])


def found_by(check, modules) -> bool:
    """Whether a check differs, or cannot even be made with wrong arithmetic."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            return next(check(modules), None) is not None
    except (ArithmeticError, ValueError, LookupError, TypeError, RuntimeWarning, AttributeError):
        return True
