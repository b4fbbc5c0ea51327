"""Faults of responses, as real networks make them: each function spoils a well-formed text.

A grammar may still read some spoilt texts, as it repairs them: `responses` tries the functions in
random order, and takes the first whose text the grammar cannot read.
"""

import random
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

TAG = re.compile(r"</?[A-Za-z_.]+>")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def cut(text: str, draw: random.Random) -> str:
    """Return the first part of the text, as if the limit of tokens was reached."""
    return text[: max(1, round(len(text) * draw.uniform(0.2, 0.8)))]


def untagged(text: str, draw: random.Random) -> str:
    """Return the text without tags, brackets and braces."""
    return re.sub(r"[\[\]{}\"]", "", TAG.sub(" ", text))


def unclosed(text: str, draw: random.Random) -> str:
    """Return the text without the last closing bracket, brace or tag."""
    place = max(text.rfind("]"), text.rfind("}"), text.rfind("</"))
    return text if place < 0 else text[:place]


def short(text: str, draw: random.Random) -> str:
    """Return the text without the last number of every list, and with other names of keys."""
    fewer = re.sub(r",\s*-?\d+(?:\.\d+)?\]", "]", text)
    return fewer.replace("bbox", "place").replace("percent", "part").replace("start", "from")


def worded(text: str, draw: random.Random) -> str:
    """Return prose in place of an answer."""
    return draw.choice(
        [
            "I am sorry, but this cannot be told from what is shown.",
            "<think>It is not clear</think> Nothing to say here.",
        ]
    )


def empty(text: str, draw: random.Random) -> str:
    """Return an empty text."""
    return ""


def nameless(text: str, draw: random.Random) -> str:
    """Return the text with other names for nodes, tasks and tools, and without numbers."""
    renamed = re.sub(r"SAM2|segment_phrase|visual question|grounding|reasoning seg", "Other", text)
    return NUMBER.sub("many", renamed)


KINDS: Mapping[str, Callable[[str, random.Random], str]] = MappingProxyType(
    {kind.__name__: kind for kind in (cut, untagged, unclosed, short, worded, empty, nameless)}
)
"""Every kind of fault by its name."""
