"""docs/bad-input.md lists every case that goes on, and each test is a case."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("bad_input_page", HERE / "page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def listed(made):
    return [one for name in made.ROOMS for one in made.cases(HERE / name)]


def test_the_page_is_the_one_that_is_generated(made):
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run `make docs`"


def test_every_file_of_tests_has_its_part_of_the_page(made):
    there = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    assert there == set(made.ROOMS)


def test_every_test_is_a_case(made):
    for name in made.ROOMS:
        text = (HERE / name).read_text(encoding="utf-8")
        tests = {
            line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("def test_")
        }
        assert tests == {one.test.partition("::")[2] for one in made.cases(HERE / name)}


def test_each_of_the_forty_is_tested_or_named_as_missing(made, listed):
    numbers = {one.number for one in listed} | set(made.NOT_YET)
    assert set(range(1, 41)) <= numbers
    assert numbers == set(range(1, max(numbers) + 1)), "a number is left out"


def test_a_number_is_used_in_one_way(listed):
    """Tests of one number lie in one file, or say in what they differ."""
    rows = [(one.number, one.bad_input) for one in listed]
    assert len(rows) == len(set(rows))
