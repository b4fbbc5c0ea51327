"""Detection of numbers of another thing than a question's, by the words in the same role.

"The rate of men was 48%" does not answer a question on "the rate of women": both words follow "of",
and neither text has the other's. `harness.stated.numbers` calls `is_of_another_role` with the
response. Counted things are the matter of `kinds_of_things`, proper names that of `asked_things`.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.stated.kinds_of_things import (
    are_excluding,
    are_of_kind,
    are_other_things,
    asked_things,
    begins_with_other,
    is_quality,
    stems_of,
)
from harness.stated.languages import is_foreign
from harness.stated.numerals import SMALL, numerals

LONGEST = 4000
"""Most characters of a response that are compared; the rest is not looked at."""
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|[^\s\w]|\d[\d.,]*")
_PLACES = frozenset(
    "in on at inside outside under underneath below against through across within beneath".split()
)
"""Prepositions of places, of which one may stand for another: "on the table", "under the sofa"."""
_PREPOSITIONS = {**dict.fromkeys(_PLACES, "place"), "of": "of", "for": "for", "to": "to"}
_NOT_BEFORE_TO = ("according", "due", "equal", "compared", "thanks")
_ENDS = frozenset(
    "is are was were be been being has have had do does did can could will would shall should may"
    " might must and or but nor than that which who whom whose where when while if as by with from"
    " there it he she they we you i not no n't into onto up down out off until till before after"
    " during since between among about approximately roughly around exactly only just".split()
)
"""Words that end a noun phrase."""
_DETERMINERS = frozenset(
    "the a an this that these those his her its their my your our each every all both any some"
    " same other given such what which how many much".split()
)
NEUTRAL = stems_of(
    "image picture photo photograph video clip footage scene frame chart graph figure plot diagram"
    " map screen view total all question answer order fact front back left right top bottom middle"
    " center centre side corner edge part half area background foreground distance way number count"
    " amount value sum average mean time times moment second seconds minute minutes hour hours day"
    " year meter metre centimeter centimetre cm m km feet inches degrees percent unit dollar euro"
    " room house case terms addition sight data mark country company product item respondent door"
    " object thing point dimension"
)
"""Stems of words that name the image, its parts, units and quantities: no rival to any word."""
_MODIFIES_ALL = stems_of(
    "total exact approximate estimated final correct overall actual visible whole same entire"
    " different main only distinct individual full precise maximum minimum average displayed shown"
    " see count has have contain show given stated recorded measured reported current following"
    " said listed combined remaining apart away far long tall wide high deep old"
)
"""Stems of words before a noun that do not tell it from others of its name."""
_SAME_PLACES = tuple(
    stems_of(place)
    for place in (
        "street road avenue lane highway path park",
        "beach shore coast sand seaside",
        "field meadow pasture grass lawn grassland plain hill hillside slope mountain",
        "water lake river sea ocean pond pool wave bay harbor dock pier marina port",
        "desk table counter countertop tabletop surface workstation bar island",
        "sofa couch bench seat",
        "branch limb tree twig",
        "wire line cable",
        "vase jar glass pot",
        "shelf bookshelf bookcase rack",
        "bed mattress blanket",
        "umbrella parasol tent canopy",
        "line queue",
        "track rail station",
        "runway tarmac airport",
        "bunch cluster",
        "truck pickup",
        "laptop keyboard computer",
        "shop store market supermarket",
        "wall fence",
        "ground floor",
        "sky air",
        "bowl dish plate basket tray platter box carton package crate container",
    )
)
"""Stems of words for one place."""
_SAME_RANKS = tuple(
    stems_of(rank)
    for rank in (
        "first leftmost",
        "last rightmost",
        "largest biggest tallest longest highest greatest peak maximum",
        "smallest shortest lowest minimum tiniest",
        "dotted dashed",
        "cell mobile smart",
    )
)
"""Stems of words that may mean one thing before a noun."""
_VERB = re.compile(r"[a-z]{2,}(?:ing|ed)")
_COUNTS_OR_DATES = re.compile(
    r"\b(?:how many|number of|count|(?:what|which) (?:time|second|minute)|when)\b", re.IGNORECASE
)
_NUMBER_WORD = re.compile(rf"(?:{SMALL})\Z", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?;])\s|\n")
_QUESTION = re.compile(r"[^.!?\n]*\?")
_LABELLED = re.compile(r"\b([a-z]{3,}) ([A-Z]{1,3})\b(?!['’])")
"""A noun and its letters: "class A", "side AB"."""
_MONTH_OR_DAY = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\b"
)
_INSIDE = re.compile(r"\b(?:in|inside|on)\s(?:the|a|an)\s([a-z]+)\b(?!\sof\b)", re.IGNORECASE)
_ASIDE = r"(?:next to|in front of|beside|behind|outside(?: of)?|near)"
_SHOWS = stems_of(
    "sign display gauge scale clock label tag board counter thermometer speedometer legend text"
    " price reading jersey man woman person people they chart according based"
)
"""Stems of subjects that show the number of something else, or may be anyone."""
_CONTRARIES = tuple(
    tuple(re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in pair.split("/"))
    for pair in (
        "inside|indoors?/outside|outdoors?",
        "left|leftmost/right|rightmost",
        "top|upper/bottom|lower",
        r"behind/in front of",
        "background/foreground",
        r"import\w*/export\w*",
        "largest|biggest|greatest/smallest|least|tiniest",
        "oldest|eldest/youngest",
        "longest/shortest",
        "tallest/shortest",
        "home/away|visiting",
        "north\\w*/south\\w*",
        "east\\w*/west\\w*",
        "morning/evening|afternoon|night",
        "entrance|entry/exit",
        "buy\\w*|bought/sell\\w*|sold",
        "arriv\\w*/depart\\w*",
        "won|wins?|winning/lost|loses?|losing",
        "total/subtotal",
    )
)
"""Words and their contraries."""


class _Phrase(NamedTuple):
    """The words after a preposition, to the end of their noun phrase."""

    role: str
    words: tuple[str, ...]


def is_of_another_role(text: str, question: str) -> bool:
    """Return True if each sentence with a number has another thing in the role of a question's.

    Roles are the words after a preposition, before a noun that both have, or the letter after it,
    contraries such as "inside" and "outside", and the subject unless the question counts. A
    sentence that has the question's word is never of another.

    >>> asked = "What was the unemployment rate of women?"
    >>> [is_of_another_role(text, asked) for text in ("The rate of men was 48%.", "It was 48%.")]
    [True, False]
    >>> is_of_another_role("The red bar is at 40.", "What is the value of the blue bar?")
    True
    """
    questions = _QUESTION.findall(question)
    asked = (questions[-1] if questions else question)[-400:]
    if is_foreign(asked) or is_foreign(text):
        return False
    sentences = [part for part in _SENTENCES.split(text[:LONGEST]) if any(numerals(part))]
    return bool(sentences) and all(_is_of_another(sentence, asked) for sentence in sentences)


def _is_of_another(sentence: str, asked: str) -> bool:
    """Return True if a sentence has another thing than a question in one of its roles."""
    said_words, asked_words = _tokens(sentence), _tokens(asked)
    said, wanted = stems_of(" ".join(said_words)), stems_of(" ".join(asked_words))
    for role in _phrases(asked_words):
        if not _is_rival(role.words, said):
            continue
        for phrase in _phrases(said_words):
            is_rival = phrase.role == role.role and _is_rival(phrase.words, wanted)
            if is_rival and not _are_alike(phrase.words, role.words):
                return True
        if role.role != "place" and _begins_with_rival(said_words, role.words, asked_words):
            return True
    return (
        _has_other_modifier(said_words, asked_words)
        or _has_other_object(said_words, asked_words)
        or _has_other_letter(sentence, asked)
        or _has_other_date(sentence, asked)
        or _is_beside(sentence, asked)
        or any(_is_contrary(sentence, asked, *pair) for pair in _CONTRARIES)
        or _is_of_another_subject(sentence, asked)
    )


def _tokens(text: str) -> list[str]:
    """Return the words, numbers and marks of a text in small letters."""
    return _TOKEN.findall(text.casefold())


def _phrases(tokens: Sequence[str]) -> Iterator[_Phrase]:
    """Yield the noun phrases after prepositions, without determiners."""
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else ""
        if token not in _PREPOSITIONS or before in _NOT_BEFORE_TO:
            continue
        words: list[str] = []
        for word in tokens[place + 1 : place + 6]:
            if not word[0].isalpha() or (is_function_word(word) and word not in _DETERMINERS):
                break
            if word not in _DETERMINERS:
                words.append(word)
        if words:
            yield _Phrase(_PREPOSITIONS[token], tuple(words))


def is_function_word(word: str) -> bool:
    """Return True for prepositions, determiners, auxiliaries, pronouns and words of numbers."""
    is_number = _NUMBER_WORD.match(word) is not None
    return is_number or word in _ENDS or word in _PREPOSITIONS or word in _DETERMINERS


def _is_rival(words: Sequence[str], others: set[str]) -> bool:
    """Return True if no word is neutral, nor among the stems of another text."""
    stems = stems_of(" ".join(words))
    return stems.isdisjoint(NEUTRAL) and stems.isdisjoint(others)


def _begins_with_rival(said: Sequence[str], role: Sequence[str], asked: Sequence[str]) -> bool:
    """Return True if a sentence's first noun is not in a question: "Apple holds 20% of the market".

    `role` are the words of the question, "of Samsung", that the sentence lacks.
    """
    nouns = (word for word in said if word not in _DETERMINERS)
    first = next(nouns, "")
    if not first.isalpha() or is_function_word(first) or len(first) < 4:
        return False
    is_known = not stems_of(first).isdisjoint(NEUTRAL | _SHOWS)
    is_asked = any(word[:4] == first[:4] for word in asked)
    return not (is_known or is_asked or are_of_kind(first, " ".join(role)))


def _are_alike(said: Sequence[str], asked: Sequence[str]) -> bool:
    """Return True if two phrases name one place, or things of one known kind: "car", "vehicle"."""
    words, wanted = " ".join(said), " ".join(asked)
    stems, asked_stems = stems_of(words), stems_of(wanted)
    is_place = any(stems & place and asked_stems & place for place in _SAME_PLACES)
    return is_place or are_of_kind(words, wanted)


def _has_other_modifier(said: Sequence[str], asked: Sequence[str]) -> bool:
    """Return True if a noun of both has another word before it: "the red bar" for "blue bar".

    That the question's own word occurs somewhere else in the sentence is enough to return False.
    Counted things may have any word before them: "7 football players" are soccer players.
    """
    stems = stems_of(" ".join(said))
    counted = {part[-1] for part in asked_things(" ".join(asked))}
    pairs = {
        (next(iter(stems_of(word)), ""), next(iter(stems_of(noun)), "")): word
        for word, noun in _modified(asked)
        if noun not in counted
    }
    wanted = stems_of(" ".join(asked))
    for word, noun in _modified(said):
        stem, head = (next(iter(stems_of(text)), "") for text in (word, noun))
        for asked_stem, asked_head in pairs:
            is_other = stem not in wanted and asked_stem not in stems
            is_other &= stem[:4] != asked_stem[:4]  # "metallic" for "metal"
            is_other &= _are_rivals(stem, asked_stem)
            if head == asked_head and is_other and not are_of_kind(word, pairs[asked_stem, head]):
                return True
    return False


def _are_rivals(stem: str, other: str) -> bool:
    """Return True if two words before a noun tell different things: "home", "away".

    A quality is a rival of another one of its line alone: a "wooden" chair may be the "dining" one.
    """
    if any({stem, other} <= rank for rank in _SAME_RANKS):
        return False
    n_qualities = sum(is_quality(word) for word in (stem, other))
    return n_qualities == 0 or (n_qualities == 2 and are_excluding(stem, other))


def _has_other_object(said: Sequence[str], asked: Sequence[str]) -> bool:
    """Return True if a word of both has another known thing after it: "prefer tea", "coffee"."""
    things = {
        next(iter(stems_of(word)), ""): thing
        for word, thing in pairwise(asked)
        if word.isalpha() and not is_function_word(word)
    }
    rest = " ".join(asked)
    return any(
        (verb := next(iter(stems_of(word)), "")) in things
        and are_other_things(thing, rest)
        and are_other_things(things[verb], " ".join(said))
        for word, thing in pairwise(said)
    )


def _modified(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word that is before a noun and tells it from others, with the noun.

    Denials such as "unripe" are left out: `left_out_group` reads them.
    """
    for word, noun in pairwise(tokens):
        if all(
            len(text) > 2 and text.isalpha() and not is_function_word(text) for text in (word, noun)
        ):
            stems = stems_of(f"{word} {noun}")
            is_rival = stems.isdisjoint(_MODIFIES_ALL) and not _VERB.fullmatch(noun)
            if is_rival and not word.startswith(("un", "non")):
                yield word, noun


def _has_other_letter(sentence: str, asked: str) -> bool:
    """Return True if a noun of both has another letter: "class B" for "class A"."""
    letters = {noun.casefold(): letter for noun, letter in _LABELLED.findall(asked)}
    said = {(noun.casefold(), letter) for noun, letter in _LABELLED.findall(sentence)}
    return any(
        noun in letters
        and letter != letters[noun]
        and not re.search(rf"\b{letters[noun]}\b", sentence)
        for noun, letter in said
    )


def _is_beside(sentence: str, asked: str) -> bool:
    """Return True if things are beside a place in which a question asks: "next to the boat"."""
    return any(
        re.search(rf"\b{_ASIDE}\s(?:the|a|an)\s{place}(?!\w|['’]s|\s[a-z]+er\b)", sentence, re.I)
        and not re.search(rf"\b(?:in|inside|on)\s(?:the|a|an)\s{place}\b", sentence, re.I)
        for place in _INSIDE.findall(asked)
        if stems_of(place).isdisjoint(NEUTRAL)
    )


def _has_other_date(sentence: str, asked: str) -> bool:
    """Return True if both name months or days, and none in common."""
    said, wanted = (set(_MONTH_OR_DAY.findall(text)) for text in (sentence, asked))
    return bool(said and wanted) and said.isdisjoint(wanted)


def _is_contrary(
    sentence: str, asked: str, first: re.Pattern[str], second: re.Pattern[str]
) -> bool:
    """Return True if a sentence has only one of two contraries, and a question only the other."""
    said = [bool(word.search(sentence)) for word in (first, second)]
    wanted = [bool(word.search(asked)) for word in (first, second)]
    return sum(said) == sum(wanted) == 1 and said != wanted


def _is_of_another_subject(sentence: str, asked: str) -> bool:
    """Return True if a sentence begins with a known thing of another kind than a question's.

    Not if the question counts, since "The table has 4 plates" answers "How many plates?", nor if
    it asks for a moment, at which several things happen.
    """
    if _COUNTS_OR_DATES.search(asked):
        return False
    number = next(numerals(sentence))
    return begins_with_other(sentence[: number.start], asked)
