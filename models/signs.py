"""Families of VLMs that a response's places show, for the errors of other grammars.

The signs stand in the families' dialects (`harness.models.vlm`), as `sign`.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files


@cache
def _signs() -> dict[str, re.Pattern[str]]:
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
    """Return the names of the dialects that alone write a place as a response does.

    >>> families_of('<point x="61.5" y="40.2" alt="a dog">a dog</point>'), families_of("[1, 2]")
    (['molmo'], [])
    """
    return [name for name, sign in _signs().items() if sign.search(response)]
