"""llms.txt and the skill are those that are generated; what they name is there."""

import importlib.util
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("agents", HERE / "agents.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_those_that_are_generated(made):
    for name, page in made.PAGES.items():
        assert (made.ROOT / name).read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_option_of_every_command_is_on_a_page(made):
    page = made.PAGES["docs/commands.md"]()
    for _, commands in made.described():
        for name, parser in commands:
            part = page.partition(f"### {name}\n")[2].partition("\n### ")[0]
            options = {option for action in parser._actions for option in action.option_strings}
            assert options - {"-h", "--help"} <= set(re.findall(r"-[\w-]+", part)), name


def test_what_the_pages_link_to_is_there(made):
    for page in (made.index, made.skill):
        paths = re.findall(rf"\({re.escape(made.SOURCE)}/([^)#]+)", page())
        assert paths and all((made.ROOT / path).is_file() for path in paths)
