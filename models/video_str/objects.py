"""Objects that a question names, for graph and map prompts.

They are the objects that a benchmark names beside the text; without any they are parsed from the
text by a rule: nouns after an article or "how many", lists after a colon or in brackets, and the
options of a question "which of these …". The rule knows no category and no benchmark, and is for
questions of places alone.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

from harness.types import Query

Source: TypeAlias = Literal["query", "question", "none"]

MAX_WORDS = 3
LOOKED_AT = 2_000  # characters of a question
MARKED = re.compile(
    # Phrases may follow each other ("the stove and the tv"), so that none is used up.
    r"\b(?:the|an?|how many|number of|each)\s+(?=((?:[\w'-]+(?:\(s\))?[ ]?){1,4}))"
)
LISTED = re.compile(r"(?::\s*|\()([^():.?!]{3,200})(?=[)?.]|$)")
ONE_OF = re.compile(r"\bwhich of (?:these|the following)\b")
WORD = re.compile(r"[a-z]+")
PART = re.compile(r",\s*(?:and |or )?|\s+(?:and|or)\s+")


@lru_cache
def _word_lists() -> dict[str, frozenset[str]]:
    text = files("harness.models.video_str").joinpath("objects.toml").read_text("utf-8")
    return {key: frozenset(words) for key, words in tomllib.loads(text).items()}


def objects_of(query: Query, *, in_text: bool = True) -> tuple[tuple[str, ...], Source]:
    """Return the named objects, each once, and their source: the query, its question, or none.

    `in_text`: look into the question where the query lists none; only into one that asks for
    places, since of others the rule makes lists such as "man picks, phone".
    """
    if query.objects:
        return tuple(dict.fromkeys(query.objects)), "query"
    spatial = in_text and asks_for_places(query.text)
    named = named_in(query.text, query.options) if spatial else ()
    return (named, "question") if named else ((), "none")


def asks_for_places(text: str) -> bool:
    """Return True if a question has a word of place, size, number or motion.

    >>> asks_for_places("How far is the chair from the table?")
    True
    >>> asks_for_places("Why did the boy look at the camera?")
    False
    """
    return not _word_lists()["places"].isdisjoint(WORD.findall(text[:LOOKED_AT].lower()))


def named_in(text: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Objects that a question names, in the order in which it does.

    >>> named_in("If I am standing by the stove and facing the tv, is the sofa to my left?")
    ('stove', 'tv', 'sofa')
    >>> named_in("Which of these objects (table, chair) is the closest to the trash can?")
    ('table', 'chair', 'trash can')
    >>> named_in("What is the size of this room (in square meters)?")
    ()
    """
    opening = text[:LOOKED_AT].lower()
    places = [*_list_items(opening), *_marked_items(opening)]
    names = [name for _, name in sorted(places, key=lambda place: place[0])]
    if ONE_OF.search(opening):
        names += [name for option in options if (name := _noun(option.lower()))]
    return tuple(dict.fromkeys(names))


def _marked_items(text: str) -> Iterator[tuple[int, str]]:
    for match in MARKED.finditer(text):
        name = _noun(match[1])
        if name:
            yield match.start(1), name


def _list_items(text: str) -> Iterator[tuple[int, str]]:
    """Items of a list of at least two; if one is not an object, none is."""
    for match in LISTED.finditer(text):
        parts = [part.strip() for part in PART.split(match[1]) if part.strip()]
        names = [_noun(part, whole=True) for part in parts]
        if len(names) > 1 and all(names):
            yield from ((match.start(1) + place, name) for place, name in enumerate(names))


def _noun(phrase: str, *, whole: bool = False) -> str:
    """The phrase up to the first word that ends it; empty where it names no thing.

    `whole`: the phrase is nothing but a name, or no name at all.
    """
    words, kept = phrase.replace("(s)", "").split(), list[str]()
    known = _word_lists()
    for word in words:
        if word.strip(".,") in known["stop"] or not re.fullmatch(r"[a-z][\w'-]*[.,]?", word):
            break
        kept.append(word.strip(".,").removesuffix("'s"))
        if word.endswith("'s"):
            break
    if whole and len(kept) < len(words):
        return ""
    while kept and kept[0] in known["lead"]:
        kept = kept[1:]
    if not kept or len(kept) > MAX_WORDS or kept[-1] in known["not_objects"]:
        return ""
    return " ".join(kept)
