"""Recognise the family of VLMs in whose notation a response writes places.

A grammar that cannot read a response names that family in its error. What only one family writes
is the regular expression `sign` of its dialect (`vlm/dialects/*.toml`).
"""

import re
import tomllib
from functools import cache
from importlib.resources import files


@cache
def _signs() -> dict[str, re.Pattern[str]]:
    """Return the sign of each dialect that has one, by the dialect's name."""
    folder = files("harness.models").joinpath("vlm", "dialects")
    dialects = {
        path.name.removesuffix(".toml"): tomllib.loads(path.read_text("utf-8"))
        for path in folder.iterdir()
        if path.name.endswith(".toml")
    }
    return {
        name: re.compile(dialects[name]["sign"])
        for name in sorted(dialects)
        if "sign" in dialects[name]
    }


def families_of(response: str) -> list[str]:
    """Return the names of the dialects whose sign occurs in a response.

    >>> families_of('<point x="61.5" y="40.2" alt="a dog">a dog</point>'), families_of("[1, 2]")
    (['molmo'], [])
    """
    return [name for name, sign in _signs().items() if sign.search(response)]
