"""Load the published prompts of a benchmark, which are data in the folder of its task."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files


@lru_cache
def templates(package: str) -> Mapping[str, str]:
    """Return the texts of a package's `prompts.toml` by name; their fields are in braces."""
    return tomllib.loads(files(package).joinpath("prompts.toml").read_text("utf-8"))
