"""The examples on the page about segmentation are right."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics" / "segmentation.md"


def test_examples_on_the_page_are_right():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted > 5
    assert found.failed == 0
