"""Templates of prompts read backwards: whether a text was made from one, and what was put in."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

GAP = re.compile(r"\{([A-Za-z][A-Za-z_ ]*)\}")
"""Place in a template that is filled, such as `{Question}`."""


def pattern_of(template: str) -> re.Pattern[str]:
    """Return the pattern of texts that hold a filled template; its gaps are groups.

    >>> pattern_of('Find "{Question}" now.').search('Please. Find "a cup" now. Or not.')["Question"]
    'a cup'
    """
    parts, seen = list[str](), set[str]()
    at = 0
    template = template.strip()
    for gap in GAP.finditer(template):
        parts.append(re.escape(template[at : gap.start()]))
        name = gap[1].replace(" ", "_")
        lazy = "" if gap.end() == len(template) else "?"
        parts.append(f"(?P<{name}>.*{lazy})" if name not in seen else f"(?:.*{lazy})")
        seen.add(name)
        at = gap.end()
    parts.append(re.escape(template[at:]))
    return re.compile("".join(parts), re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as any backend has it."""

    text: str
    """The user's last turn."""
    system: str = ""
    earlier: int = 0
    """Number of turns before this one."""
    images: int = 0
    """Number of images or frames shown."""
    extent: tuple[int, int] = (1000, 1000)
    """(width, height) of the first image in the numbers of a response."""
    written: str = ""
    """Beginning of the response: earlier turns and what was injected, or a prefix."""
    key: str = ""
    """Name of the sample and rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """One kind of request, and its well-formed responses."""

    name: str
    pattern: re.Pattern[str]
    write: Callable[[Asked, Mapping[str, str], random.Random], str]
    """Return a well-formed response to a request, whose filled gaps are given by name."""
    reads: Callable[[Asked, Mapping[str, str], str], bool]
    """Return True if the method that sends such requests can read a response."""
    in_system: bool = False
    """True if the pattern is that of the system message."""

    def filled(self, asked: Asked) -> Mapping[str, str] | None:
        """Return what fills the gaps of the template in a request; None: it is another request."""
        found = self.pattern.search(asked.system if self.in_system else asked.text)
        return None if found is None else found.groupdict("")
