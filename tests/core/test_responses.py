"""Model text is parsed within limits, and nothing but ParseError comes out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ParseError
from harness.responses import (
    STRICT,
    finite_numbers,
    loads_lenient,
    loads_strict,
    storable,
    tag_text,
)


def test_the_first_tag_wins():
    assert tag_text("<answer> 1 </answer><answer>2</answer>", "answer") == "1"
    assert tag_text("<answer>1", "answer") is None
    assert tag_text("", "answer") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "NaN",
        "[Infinity]",
        '{"a": 1, "a": 2}',
        "[1] and more",
        "1" * 100_000,
        "[" * 100_000,
        '{"a":' * 50_000,
        "\ud800",
        "[" * 64 + "1" + "]" * 65,
        "'x'",
    ],
)
def test_strict_reading_refuses_what_is_not_plain_json(text):
    with pytest.raises(ParseError):
        loads_strict(text)


@given(st.text(max_size=200))
def test_only_parse_errors_come_out_of_any_text(text):
    for read in (loads_strict, loads_lenient):
        try:
            read(text)
        except ParseError:
            continue


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ('[{"a": 1}]', ()),
        ("[{'a': 1}]", ("single quotes",)),
        ('```json\n[{"a": 1},]\n```', ("code fence", "trailing comma")),
        ('[{"a\\_b": 1}]', ("escaped underscore",)),
    ],
)
def test_repairs_are_reported(text, notes):
    value, made = loads_lenient(text)
    assert made == notes and isinstance(value, list)


@pytest.mark.parametrize("value", [[1, True], [1], [1, "2"], [1, float("nan")], [1, 1e300], None])
def test_coordinates_are_finite_numbers_and_nothing_else(value):
    with pytest.raises(ParseError):
        finite_numbers(value, 2, "point")


@given(st.text(alphabet=st.characters(), max_size=100))
def test_stored_text_survives_utf8(text):
    storable(text + "\ud800\x00").encode("utf-8")
    assert "\x00" not in storable(text + "\x00")


@pytest.mark.parametrize("size", [60, 61, 99, 100, 101, 12_345])
def test_stored_text_keeps_its_limit_and_is_stored_again_unchanged(size):
    stored = storable("a" * size, 60)
    assert len(stored) <= 60 and storable(stored, 60) == stored
    kept = stored.count("a", 0, stored.find("…")) if size > 60 else size
    assert size == kept or f"[{size - kept} characters cut]" in stored


def test_the_error_of_a_number_out_of_bounds_names_the_bound():
    with pytest.raises(ParseError, match=r"below 1e\+09"):
        finite_numbers([1e9], 1, "number")
    assert finite_numbers([1e9 - 1], 1, "number") == (1e9 - 1,)


@pytest.mark.parametrize("opening", ["<answer>", "```json"])
def test_blanks_after_an_open_mark_cost_no_time(opening):
    text = opening + " " * 190_000
    assert tag_text(text, "answer") is None
    with pytest.raises(ParseError):
        loads_lenient(text)


@pytest.mark.parametrize(
    "text", ["1e999", "[-1e400]", '{"a": 9e9999}', "1" * 65, "NaN", "Infinity"]
)
def test_strict_json_has_no_number_that_a_float_does_not_hold(text):
    with pytest.raises(ParseError):
        loads_strict(text)
    with pytest.raises(ValueError):
        json.loads(text, **STRICT)
    assert loads_strict("[1e308, -0.0, 1e-999]") == [1e308, -0.0, 0.0]
