"""What commands say: no control character of a terminal, no command of a job's log, one line."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.output import say, show_json
from harness.cli.tables import show_columns, show_results, wrap_lines
from harness.errors import CONTROL_CHARACTERS, HarnessError, one_line, printable
from harness.leaderboards.render.markdown import escape

COMMANDS = ("::stop-commands::x", "::warning file=a::b", "##[add-mask]x", " \u2003::error::x")
HOSTILE = [
    "a\x1b[2Jb",
    "a\x1b]0;title\x07",
    "a\x9b31mb",
    "a\u202eb",
    "a\rb",
    *COMMANDS,
    *(f"name\n{command}" for command in COMMANDS),
    *(f"name\u2028{command}" for command in COMMANDS),
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))


def check_lines(text, lines):
    """Check what GitHub's runner reads: lines, whose blanks at the beginning it skips."""
    assert text.count("\n") == lines
    assert not CONTROL_CHARACTERS.search(text)
    assert "##[" not in text
    assert not any(line.strip().startswith("::") for line in text.split("\n"))


@given(st.lists(texts, min_size=1, max_size=4))
def test_each_thing_that_is_said_is_one_harmless_line(said):
    out = io.StringIO()
    say(*said, to=out)
    check_lines(out.getvalue(), len(said))


@given(texts)
def test_harmless_lines_stay_as_they_are(text):
    assert printable(printable(text)) == printable(text)
    assert one_line(one_line(text)) == one_line(text)


@given(texts)
def test_a_json_value_holds_what_it_held_and_no_control_character(text):
    import contextlib

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show_json({"a": text.encode("utf-8", "replace").decode()})
    assert json.loads(out.getvalue()) == {"a": text.encode("utf-8", "replace").decode()}
    assert not CONTROL_CHARACTERS.search(out.getvalue())


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("columns", ["40", "200"])
def test_tables_of_hostile_names_are_lines(text, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    show_columns([("name", "about"), (text, f"{'word ' * 9}{text}")])
    shown = capsys.readouterr().out
    check_lines(shown, shown.count("\n"))
    assert shown.count("\n") <= 12
    results = {
        **{"protocol": text, "n_scored": 1, "n_total": 1, "headline": text},
        **{"metrics": {text: 0.5}, "intervals": {}, "failures": {text: 1}},
    }
    show_results(text, {text: results})
    check_lines(shown := capsys.readouterr().out, shown.count("\n"))


def test_a_command_that_folding_brings_to_a_lines_beginning_is_none(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    say(*wrap_lines("a word of some length, then ::error::x and ##[group]y"))
    check_lines(shown := capsys.readouterr().out, shown.count("\n"))


@pytest.mark.parametrize("text", HOSTILE)
def test_an_error_and_markdown_are_harmless_too(text):
    check_lines(shown := str(HarnessError(text, found=text)), shown.count("\n"))
    check_lines(escape(text), 0)
