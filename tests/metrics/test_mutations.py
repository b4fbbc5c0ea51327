"""The golden files are sharp: every plausible mistake in the metrics makes them differ.

Each mutation changes one place in the source of one module. All modules are then executed anew, so
that those above the changed one use it, and one comparison with the golden files has to differ.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import harness.metrics

sys.path.insert(0, str(Path(__file__).parents[1] / "mutations"))

from place import in_memory, replaced

pytestmark = pytest.mark.slow
ORDER = (
    "bits",
    "overlap",
    "boundary",
    "polygons",
    "boxes",
    "counting",
)
FOLDER = Path(harness.metrics.__file__).parent

MUTATIONS = in_memory("metrics")

ASKED = {
    "bits": ("davis_boundary", "disks"),
    "boundary": ("davis_radius", "davis_boundary", "mevis_tracks"),
    "overlap": ("davis_region", "lisa_samples", "visionreasoner_samples", "thresholds"),
    "polygons": ("lisa_polygons",),
    "boxes": ("boxes_exclusive", "boxes_inclusive", "visionreasoner_samples", "thresholds"),
    "counting": ("counts",),
}


def executed(changed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """All metric modules executed anew, some of them from another source."""
    fresh: dict[str, ModuleType] = {}
    for name in ORDER:
        module = ModuleType(f"harness.metrics.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        source = changed.get(name) or (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def test_unchanged_modules_executed_anew_differ_nowhere(comparisons, monkeypatch):
    modules = executed({}, monkeypatch)
    assert {name: list(compare(modules)) for name, compare in comparisons.items()} == {
        name: [] for name in comparisons
    }


def test_every_module_that_has_golden_files_is_mutated():
    assert {name for name, *_ in MUTATIONS.values()} == {*ORDER} == {*ASKED}


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_makes_the_golden_files_differ(
    name, function, old, new, comparisons, monkeypatch
):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    changed = replaced(source, function, old, new)
    modules = executed({name: changed}, monkeypatch)
    assert any(found_by(comparisons[requested], modules) for requested in ASKED[name])


def found_by(comparison, modules) -> bool:
    """Whether a comparison differs, or cannot even be made with wrong arithmetic."""
    try:
        return next(comparison(modules), None) is not None
    except (ArithmeticError, ValueError, IndexError, RuntimeWarning):
        return True
