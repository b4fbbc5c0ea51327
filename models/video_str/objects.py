"""Find the objects that a question names, for prompts that ask for a graph or map of objects.

They are the objects that the benchmark lists beside the text. If it lists none, a rule finds them
in the text: nouns after an article or "how many", lists after a colon or in brackets, and the
options of "which of these …". The rule contains no categories, and is applied to questions about
places only.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

from harness.types import Query

Source: TypeAlias = Literal["query", "question", "none"]
"""Origin of the objects: listed by the query, found in its text, or there are none."""

MAX_WORDS = 3  # most words of an object's name
MAX_QUESTION = 2_000  # characters of a question that are searched
MARKED = re.compile(
    # Phrases may overlap ("the stove and the tv"): the lookahead consumes nothing.
    r"\b(?:the|an?|how many|number of|each)\s+(?=((?:[\w'-]+(?:\(s\))?[ ]?){1,4}))"
)
"""Matches up to four words after an article: "stove and the tv" in "by the stove and the tv"."""
LISTED = re.compile(r"(?::\s*|\()([^():.?!]{3,200})(?=[)?.]|$)")
"""Matches a list: "table, chair" in "(table, chair)" or in "objects: table, chair"."""
ONE_OF = re.compile(r"\bwhich of (?:these|the following)\b")
WORD = re.compile(r"[a-z]+")
SEPARATOR = re.compile(r",\s*(?:and |or )?|\s+(?:and|or)\s+")
"""Matches what separates the items of a list: ", ", ", and ", " or "."""


@lru_cache
def _word_lists() -> dict[str, frozenset[str]]:
    """Return the lists of words of `objects.toml`, by name."""
    text = files("harness.models.video_str").joinpath("objects.toml").read_text("utf-8")
    return {key: frozenset(word_list) for key, word_list in tomllib.loads(text).items()}


def objects_of(query: Query, *, in_text: bool = True) -> tuple[tuple[str, ...], Source]:
    """Return the objects that a query lists or its question names, each once, and their source.

    With `in_text`, a query that lists none is searched, if it asks for places: in other questions
    the rule would find objects such as "man picks".
    """
    if query.objects:
        return tuple(dict.fromkeys(query.objects)), "query"
    spatial = in_text and asks_for_places(query.text)
    names = named_in(query.text, query.options) if spatial else ()
    return (names, "question") if names else ((), "none")


def asks_for_places(text: str) -> bool:
    """Return True if a question has a word of place, size, number or motion.

    >>> asks_for_places("How far is the chair from the table?")
    True
    >>> asks_for_places("Why did the boy look at the camera?")
    False
    """
    return not _word_lists()["places"].isdisjoint(WORD.findall(text[:MAX_QUESTION].lower()))


def named_in(text: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the objects that a question names, in order, each once.

    >>> named_in("If I am standing by the stove and facing the tv, is the sofa to my left?")
    ('stove', 'tv', 'sofa')
    >>> named_in("Which of these objects (table, chair) is the closest to the trash can?")
    ('table', 'chair', 'trash can')
    >>> named_in("What is the size of this room (in square meters)?")
    ()
    """
    question = text[:MAX_QUESTION].lower()
    positions = [*_list_items(question), *_marked_items(question)]
    names = [name for _, name in sorted(positions, key=lambda position: position[0])]
    if ONE_OF.search(question):
        option_names = (_noun(option.lower()) for option in options)
        names += filter(None, option_names)
    return tuple(dict.fromkeys(names))


def _marked_items(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, name) of the nouns after an article or "how many"."""
    for match in MARKED.finditer(text):
        name = _noun(match[1])
        if name:
            yield match.start(1), name


def _list_items(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, name) of the items of lists with two or more items that are all objects."""
    for match in LISTED.finditer(text):
        parts = [part.strip() for part in SEPARATOR.split(match[1]) if part.strip()]
        names = [_noun(part, complete=True) for part in parts]
        if len(names) > 1 and all(names):
            yield from ((match.start(1) + index, name) for index, name in enumerate(names))


def _noun(phrase: str, *, complete: bool = False) -> str:
    """Return the object's name at the beginning of a phrase; "" if it names no object.

    It ends before a stop word of `objects.toml` ("and", "is"). With `complete`, nothing may follow
    the name.
    """
    phrase_words, name = phrase.replace("(s)", "").split(), list[str]()
    word_lists = _word_lists()
    for word in phrase_words:
        if word.strip(".,") in word_lists["stop"] or not re.fullmatch(r"[a-z][\w'-]*[.,]?", word):
            break
        name.append(word.strip(".,").removesuffix("'s"))
        if word.endswith("'s"):
            break
    if complete and len(name) < len(phrase_words):
        return ""
    while name and name[0] in word_lists["lead"]:  # words such as "large" or "same"
        name = name[1:]
    if not name or len(name) > MAX_WORDS or name[-1] in word_lists["not_objects"]:
        return ""
    return " ".join(name)
