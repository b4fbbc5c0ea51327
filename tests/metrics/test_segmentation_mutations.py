"""The golden files of segmentation are sharp: plausible mistakes in the modules are found.

Each mutation changes one place in the source of one module. The modules are executed anew, and one
comparison with the golden files has to differ.
"""

import contextlib
import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import harness.metrics
from harness.errors import HarnessError

sys.path.insert(0, str(Path(__file__).parents[1] / "mutations"))

from place import in_memory, replaced

pytestmark = pytest.mark.slow
FOLDER = Path(harness.metrics.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"
ORDER = (
    "overlap",
    "boundary",
    "boxes",
    "normalised",
    "referring",
    "generalised",
    "grec",
    "unsupervised",
    "revos",
)
ASKED = {
    "normalised": ("llmseg_samples", "llmseg_squares"),
    "referring": ("lisa_referring",),
    "generalised": ("rela_samples", "rela_totals", "nonobject_samples"),
    "grec": ("grec_pairs", "grec_samples", "grec_totals"),
    "unsupervised": ("davis_unsupervised", "referformer_argmax"),
    "revos": ("revos_visa", "revos_sa2va", "revos_foreground"),
}
CANNOT = (ArithmeticError, IndexError, KeyError, TypeError, ValueError, HarnessError)
"""Raised where a changed module cannot even compute; that is found as well."""

MUTATIONS = in_memory("segmentation")


@pytest.fixture
def checks(monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    modules = [importlib.import_module(f"compare_{name}") for name in ("segmentation", "objects")]
    return {name: check for module in modules for name, (_, _, check) in module.CHECKS.items()}


def executed(changed, monkeypatch):
    """All modules executed anew, one of them from another source."""
    fresh = {}
    for name in ORDER:
        module = ModuleType(f"harness.metrics.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        source = changed.get(name) or (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def differ(pairs):
    return any(ours != official and abs(ours - official) > 1e-12 for ours, official in pairs)


def test_every_module_is_mutated():
    assert {name for name, *_ in MUTATIONS.values()} == {*ASKED}


@pytest.mark.parametrize("name", ASKED)
def test_unchanged_modules_executed_anew_differ_nowhere(name, checks, monkeypatch):
    modules = executed({}, monkeypatch)
    assert not any(differ(checks[requested](modules)) for requested in ASKED[name])


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_is_found(name, function, old, new, checks, monkeypatch):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    modules = executed({name: replaced(source, function, old, new)}, monkeypatch)
    with contextlib.suppress(*CANNOT):
        assert any(differ(checks[requested](modules)) for requested in ASKED[name])
