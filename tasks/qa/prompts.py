"""Published wordings of questions, stored as data beside the task that uses them."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files


@lru_cache
def templates(package: str) -> Mapping[str, str]:
    """The texts of a package's `prompts.toml`, with their fields in braces."""
    return tomllib.loads(files(package).joinpath("prompts.toml").read_text("utf-8"))
