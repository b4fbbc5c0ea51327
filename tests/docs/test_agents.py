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


def test_what_the_pages_link_to_is_there(made):
    for page in made.PAGES.values():
        paths = re.findall(rf"\({re.escape(made.SOURCE)}/([^)#]+)", page())
        assert paths and all((made.ROOT / path).is_file() for path in paths)
