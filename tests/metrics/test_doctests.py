"""The examples in the docstrings of all metric modules."""

import doctest
import importlib
import pkgutil

import pytest

import harness.metrics

NAMES = [module.name for module in pkgutil.iter_modules(harness.metrics.__path__)]
OURS = {"bits", "boundary", "boxes", "counting", "overlap", "polygons"}


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(f"harness.metrics.{name}")
    found = doctest.testmod(module)
    assert found.failed == 0
    assert found.attempted > 0 or name not in OURS


def test_all_modules_are_found():
    assert set(NAMES) >= OURS
