"""The examples on the pages about answers and places are right."""

import doctest
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "metrics"


@pytest.mark.parametrize("name", ["answers.md", "places.md"])
def test_examples_on_the_page_are_right(name):
    found = doctest.testfile(str(PAGES / name), module_relative=False, encoding="utf-8")
    assert found.attempted > 5
    assert found.failed == 0
