"""The examples on the page about text are right."""

import doctest
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "metrics" / "text.md"


@pytest.mark.skipif(find_spec("pycocoevalcap") is None, reason="needs the extra [text]")
def test_examples_on_the_page_are_right():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted > 3
    assert found.failed == 0
