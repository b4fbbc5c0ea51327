"""Templates of prompts read backwards: whether a text was made from one, and what was put in."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

GAP = re.compile(r"\{([A-Za-z][A-Za-z_ ]*)\}")
"""Place in a template that is filled, such as `{Question}`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template, read backwards in time linear in a text's length."""

    literals: tuple[str, ...]
    """Texts before, between and after the gaps."""
    gaps: tuple[str, ...]
    """Names of the gaps, blanks as `_`."""

    def filled(self, text: str) -> dict[str, str] | None:
        """Return what fills the gaps in a text that holds the template; None: it does not.

        The first place of each literal counts, so that a gap holds as little as it can; one at
        the end holds all that follows. Of a name that occurs twice, the first one counts.

        >>> pattern_of('Find "{Question}" now.').filled('Please. Find "a cup" now. Or not.')
        {'Question': 'a cup'}
        """
        start = text.find(self.literals[0])
        if start < 0:
            return None
        at, filling = start + len(self.literals[0]), dict[str, str]()
        for number, name in enumerate(self.gaps, start=1):
            literal = self.literals[number]
            last = number == len(self.gaps) and not literal
            end = len(text) if last else text.find(literal, at)
            if end < 0:
                return None
            filling.setdefault(name, text[at:end])
            at = end + len(literal)
        return filling


def pattern_of(template: str) -> Pattern:
    """Return the pattern of texts that hold a filled template."""
    literals, gaps, at = list[str](), list[str](), 0
    template = template.strip()
    for gap in GAP.finditer(template):
        literals.append(template[at : gap.start()])
        gaps.append(gap[1].replace(" ", "_"))
        at = gap.end()
    return Pattern((*literals, template[at:]), tuple(gaps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as any backend has it."""

    text: str
    """The user's last turn."""
    system: str = ""
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
    pattern: Pattern
    write: Callable[[Asked, Mapping[str, str], random.Random], str]
    """Return a well-formed response to a request, whose filled gaps are given by name."""
    reads: Callable[[Asked, Mapping[str, str], str], bool]
    """Return True if the method that sends such requests can read a response."""
    in_system: bool = False
    """True if the pattern is that of the system message."""

    def filled(self, asked: Asked) -> Mapping[str, str] | None:
        """Return what fills the gaps of the template in a request; None: it is another request."""
        return self.pattern.filled(asked.system if self.in_system else asked.text)
