"""docs/bad-input.md has a part for every file of tests, and each test says what is bad."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "bad-input.md"
FILES = sorted(path for path in HERE.glob("test_*.py") if path != Path(__file__))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_page_names_the_file_and_every_test_in_it_is_a_case(path):
    assert f"`tests/bad_input/{path.name}`" in PAGE.read_text(encoding="utf-8")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            made = [one.func for one in node.decorator_list if isinstance(one, ast.Call)]
            assert "case" in map(ast.unparse, made), node.name
