"""Find the place of a mutant: a text within one function, compared token by token."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def span(source: str, function: str, text: str, *, exact: bool = False) -> tuple[int, int]:
    """Return start and end of a text in a function, whatever its layout.

    Args:
        source: a module.
        function: the qualified name of a function or class, as in `Session.step`; empty: the
            module. Several definitions of one name (a property and its setter) are searched alike.
        text: part of the function; a trailing comma, line breaks and comments do not matter.
        exact: they do matter, and the text may begin or end within a word.

    Raises:
        ValueError: no such function, or it does not have the text exactly once.
    """
    lines = line_starts(source)
    scopes = [
        (lines[first - 1], lines[last])
        for name, first, last in definitions(source)
        if name == function
    ]
    if function and not scopes:
        raise ValueError(f"no function or class {function!r}; its mutants need its new name")
    spans = [
        (start, end)
        for start, end in (exact_places if exact else places)(source, text)
        if not function or any(first <= start and end <= last for first, last in scopes)
    ]
    if len(spans) != 1:
        raise ValueError(f"{len(spans)} places with {text!r} in {function or 'the module'}")
    return spans[0]


def exact_places(source: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a text that may cut words, as it is written."""
    for match in re.finditer(re.escape(text), source):
        yield match.span()


def replaced(source: str, function: str, old: str, new: str) -> str:
    """Return a module with another text in one function; raise ValueError as `span` does."""
    start, end = span(source, function, old, exact=True)
    return source[:start] + new + source[end:]


def in_memory(name: str) -> dict[str, tuple[str, str, str, str]]:
    """Return module, function, old and new text of each mistake of a list, by its name."""
    path = Path(__file__).parent / "in_memory" / f"{name}.toml"
    return {
        mutant["name"]: (mutant["module"], mutant.get("function", ""), mutant["old"], mutant["new"])
        for mutant in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    }


@lru_cache(maxsize=8)
def definitions(source: str) -> list[tuple[str, int, int]]:
    """Return qualified name, first and last line of each function and class, decorators too."""
    return list(_definitions(ast.parse(source), ""))


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield from _definitions(child, prefix)
            continue
        name = f"{prefix}{child.name}"
        first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
        assert child.end_lineno is not None, "a parsed definition ends at a line"
        yield name, first, child.end_lineno
        yield from _definitions(child, f"{name}.")


def places(source: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a text, whatever its layout."""
    bracketed = words(f"({text}\n)")  # without indentation
    wanted = [word for word, _, _ in bracketed][1:-1]
    given = words(source)
    texts = [word for word, _, _ in given]
    for at in range(len(given) - len(wanted) + 1):
        if texts[at : at + len(wanted)] == wanted:
            yield given[at][1], given[at + len(wanted) - 1][2]


@lru_cache(maxsize=8)
def words(source: str) -> list[tuple[str, int, int]]:
    """Return each token with its start and end; no layout, no comma before a closing bracket.

    The last are kept: a file has many mutants, one after the other.
    """
    return list(_words(source))


def _words(source: str) -> Iterator[tuple[str, int, int]]:
    starts = line_starts(source)
    held = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in LAYOUT or not token.string:
                continue
            start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            if held is not None and token.string not in (")", "]", "}"):
                yield held
            held = None
            if token.string == ",":
                held = (",", start, end)
            else:
                yield token.string, start, end
    except tokenize.TokenError:
        return  # a fragment may open a bracket that it does not close


def line_starts(source: str) -> list[int]:
    """Return the offset of each line's first character, and of the end."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
