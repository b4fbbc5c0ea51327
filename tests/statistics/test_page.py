"""The examples of docs/metrics/statistics.md."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics" / "statistics.md"


def test_examples_on_the_page_are_true():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.failed == 0
    assert found.attempted > 10
