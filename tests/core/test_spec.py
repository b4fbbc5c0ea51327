"""SPECs: the one way to name a plugin with its arguments."""

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.spec import Spec, convert, parse, parse_list

names = st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}\Z")
values = st.one_of(
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.none(),
    st.text(max_size=12),
    names,
    st.floats(allow_nan=False, allow_infinity=False),
)
specs = st.recursive(
    st.builds(Spec, names, st.dictionaries(names, values, max_size=3)),
    lambda inner: st.builds(
        Spec, names, st.dictionaries(names, st.one_of(values, inner), max_size=3)
    ),
    max_leaves=6,
)


def bare(value):
    """A nested SPEC without arguments cannot be told from a word, and need not be."""
    if isinstance(value, Spec):
        arguments = {key: bare(one) for key, one in value.arguments.items()}
        return Spec(value.name, arguments) if arguments else value.name
    return value


@given(specs)
def test_what_is_written_is_read_again(spec):
    inner = {key: bare(value) for key, value in spec.arguments.items()}
    assert parse(str(spec)) == Spec(spec.name, inner)


@given(st.lists(specs, min_size=1, max_size=4))
def test_lists_split_at_commas_outside_parentheses(several):
    joined = ",".join(map(str, several))
    assert [str(spec) for spec in parse_list(joined)] == list(map(str, several))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:b=1,c=x/y,d", [Spec("a", {"b": 1, "c": "x/y"}), Spec("d")]),
        ("a , b( c = 1e-4 )", [Spec("a"), Spec("b", {"c": 1e-4})]),
        ("a(p=runs/x-1,q=true)", [Spec("a", {"p": "runs/x-1", "q": True})]),
        ("a(s='x, (y)')", [Spec("a", {"s": "x, (y)"})]),
        ("a()", [Spec("a")]),
        ("a(b=c(d=e(f=1)))", [Spec("a", {"b": Spec("c", {"d": Spec("e", {"f": 1})})})]),
    ],
)
def test_forms_that_people_type(text, expected):
    assert parse_list(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a(",
        "a)",
        "a(b)",
        "a(b=1",
        "a(b=1,b=2)",
        "a(=1)",
        "1a",
        "a b",
        "a((b=1))",
        "a(b='x)",
        "a,,b",
        "a(" * 30 + ")" * 30,
        "a" * 20_000,
    ],
)
def test_what_is_no_spec_is_an_error_that_shows_it(text):
    with pytest.raises(UsageError, match="expected"):
        parse_list(text)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, float, 3.0),
        (3, int, 3),
        (3, str, "3"),
        ("x/y", Path, Path("x/y")),
        ("sam2", Spec, Spec("sam2")),
        (None, int | None, None),
        ("val", Literal["val", "test"], "val"),
        (True, bool, True),
        (Spec("a", {"b": 1}), Spec | None, Spec("a", {"b": 1})),
    ],
)
def test_values_are_converted_to_the_annotated_type(value, hint, expected):
    converted = convert(value, hint, "x")
    assert converted == expected and type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1e-4x", float),
        (1.5, int),
        (True, int),
        ("yes", bool),
        ("dev", Literal["val", "test"]),
        (None, str),
        (Spec("a", {"b": 1}), str),
        (1, bool),
    ],
)
def test_a_value_of_another_type_is_an_error(value, hint):
    with pytest.raises(UsageError, match="expected"):
        convert(value, hint, "plugin(key=…)")


def test_the_word_none_is_to_be_quoted_where_text_is_expected():
    with pytest.raises(UsageError, match=r"key=….*'none'"):
        convert(None, str, "plugin(key=…)")


@pytest.mark.parametrize(
    "number", ["9" * 19, "-" + "1" * 5000, "1e999", "-1e400", "9" * 400 + ".5"]
)
def test_a_number_that_does_not_fit_is_refused_and_never_another(number):
    for text in (f"a(b={number})", f"a:b={number}", f"a(c=d(b={number}))"):
        with pytest.raises(UsageError, match="In quotes it is a text"):
            parse(text)
    spec = parse(f'a(b="{number}")')
    assert spec.arguments == {"b": number} and parse(str(spec)) == spec
