"""Recognition of requests by the templates of their prompts, for rehearsals.

A `Pattern` finds out if a text was made from a template, and what filled its gaps. A `Grammar` has
the pattern of one kind of request (`Asked`), and writes and reads the responses.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

GAP = re.compile(r"\{([A-Za-z][A-Za-z_ ]*)\}")
"""Gap in a template, such as `{Question}`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template, which is matched in time linear in a text's length."""

    literals: tuple[str, ...]
    """Texts before, between and after the gaps."""
    gaps: tuple[str, ...]
    """Names of the gaps, blanks as `_`."""

    def filled(self, text: str) -> dict[str, str] | None:
        """Return the texts in the gaps by name; None: the text does not hold a filled template.

        Each literal is found at its first place, so that a gap is as short as possible; a gap at
        the end takes the rest of the text. Of two gaps of one name the first counts.

        >>> pattern_of('Find "{Question}" now.').filled('Please. Find "a cup" now. Or not.')
        {'Question': 'a cup'}
        """
        start = text.find(self.literals[0])
        if start < 0:
            return None
        place, filling = start + len(self.literals[0]), dict[str, str]()
        for number, name in enumerate(self.gaps, start=1):
            literal = self.literals[number]
            is_last = number == len(self.gaps) and not literal
            end = len(text) if is_last else text.find(literal, place)
            if end < 0:
                return None
            filling.setdefault(name, text[place:end])
            place = end + len(literal)
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
    """A request as a stand-in sees it, from any backend."""

    text: str
    """The user's last turn."""
    system: str = ""
    extent: tuple[int, int] = (1000, 1000)
    """(width, height) of the first image in the coordinates of a response."""
    written: str = ""
    """Beginning of the response: earlier turns and injected texts, or a prefix."""
    key: str = ""
    """Name of the sample and rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """One kind of request, and its well-formed responses."""

    name: str
    pattern: Pattern
    write: Callable[[Asked, Mapping[str, str], random.Random], str]
    """Return a well-formed response to a request; the texts in its gaps are given by name."""
    reads: Callable[[Asked, Mapping[str, str], str], bool]
    """Return True if the method that sends such requests can read a response."""
    in_system: bool = False
    """True if the pattern is that of the system message."""

    def filled(self, asked: Asked) -> Mapping[str, str] | None:
        """Return the texts in the gaps of a request; None: it is another kind of request."""
        return self.pattern.filled(asked.system if self.in_system else asked.text)
