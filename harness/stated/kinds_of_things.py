"""Detection of numbers that count another kind of thing than the question: "3 cats" for dogs.

`harness.stated.numbers` calls `of_asked_kind` with the response. Things are of another kind only if
both are nouns of `_KINDS`, or if the question names them beside what it asks to count; any other
noun may be a synonym.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from harness.stated.languages import NOT_KNOWN, is_foreign
from harness.stated.numerals import Numeral, numerals

MOST = 40
"""Most numbers of a text that are read."""
# A line holds general nouns, which may stand for all kinds of the line, and then its kinds.
_KINDS = """
people person persons individuals humans child children kids人사람 personas personen
 menschen personnes / man men guys / woman women ladies / boys / girls
animals creatures / dogs puppy puppies狗犬 perros hunde chiens / cats kittens猫고양이 gatos katzen
 chats / horses马馬 / cows cattle牛 / sheep lambs羊 / pigs猪豚 / birds鸟鳥 / fish鱼魚
vehicles / cars车車 / trucks / buses / bikes bicycles motorcycles / trains / boats ships / planes
furniture seats / chairs armchairs stools椅 sillas stühle chaises / tables desks桌 / sofas couches
 / beds / lamps / windows / doors / shelves / cups mugs glasses / plates / bottles / books / bowls
plants / trees / flowers / bushes
fruits / apples / oranges / bananas / pears
- / legs / paws / tails / ears / eyes / wheels / houses / benches
- / meters metres m cm inches / seconds minutes hours / years months days / degrees
- / images pictures photos / observations reasons / breeds / steps
"""
_ANYONE = frozenset("people person individual human".split())
_PLURALS = frozenset("people men women children cattle".split())
_COLOURS = frozenset("red orange yellow green blue purple pink brown black white gray".split())
_WORD = re.compile(r"[a-zà-ÿ]+|고양이|사람|[^\W\da-zà-ÿ_]")
"""A word of a Latin script, or one letter of another."""
_PLURAL = re.compile(r"(?<=ch|sh|ss)es\Z|(?<!s)s\Z")
_STOPS = (
    r"(?:in|on|at|with|that|which|who|whose|near|from|to|for|but|than|are|is|was|were|do|the|an?|this|around|along"
    r"|above|below|under|over|inside|outside|beside|through"
    r"|does|did|can|could|has|have|had|will|would|there|next|behind|as|by|per|more|less|fewer)\b"
)
_ASKED = re.compile(
    r"\b(?:how many|(?:number|count) of|count)\b"
    rf"((?:,?\s(?:(?:of|and|or|the)\s){{0,2}}(?!{_STOPS})[a-z-]{{1,20}}){{1,5}})"
)
_BESIDE = re.compile(
    r"\b(?:in|on|of|by|at|with|near|behind)\s(?:the\s|an?\s)?(?!million|billion)([a-z]+)\b"
)
_COUNTED = re.compile(
    r"(?:\s(?:of\s(?:which|whom|them|these|those|the\s\d+\s\w+)\s)?(?:are|is)(?=\s))?"
    rf"(?:[\s*_]{{1,4}}(?!{_STOPS}|(?:of|and|or)\b)[a-zà-ÿ'’-]{{1,20}}){{1,4}}"
    r"|[^\W\da-z_]{1,8}(?:\s[가-힣]{1,8})?",
    re.IGNORECASE,
)
"""Words for the counted things after a number: " brown dogs", " of which are dogs", "只猫"."""
_LABEL = re.compile(
    r"(?:\b(?:number|count) of\s(?:the\s)?([a-z]+(?: [a-z]+)?)(?:\s[a-z]+){0,6}?\s(?:is|are|was)"
    r"|(?:\A|[\n,;{|])[\s\"'*_-]{0,6}([a-z]+)[\"'*_]{0,3}\s?[:=|])[\s\"'*_]{0,4}\Z|([^\W\da-z_]{1,6})(?:的数量|の数)[是为は]\Z",
    re.IGNORECASE,
)
"""Words for the counted things before a number: "the number of dogs is", "Dogs: "."""
_JOINS = re.compile(r"(?:,\s(?:and\s)?|\s(?:and|with|next to|on|beside)\s)\Z")
_JOINED = re.compile(r"(?:,(?:\sand)?|:|\sand|\swith)\s")
_EACH = re.compile(r"\b(?:each|every|per|(?!one\b|1\b)\w+ \w+ with)\b", re.IGNORECASE)
"""Words with which numbers of two kinds multiply: "2 tables with 4 chairs"."""


def _kinds() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each noun with the places of its line and of its kind; general nouns are of kind 0."""
    for line, kinds in enumerate(_KINDS.strip().replace("\n ", " ").split("\n")):
        for kind, nouns in enumerate(kinds.split("/")):
            yield from ((noun, (line, kind)) for noun in _words(nouns))


class _Counted(NamedTuple):
    """A number of a text, from `start` to `end`, which is behind the words for what it counts."""

    value: float
    start: int
    number_end: int
    end: int
    words: Sequence[str]


def of_asked_kind(text: str, question: str) -> str:
    """Return a text in which numbers of other kinds of things than the asked one are `NOT_KNOWN`.

    Where another number counts the asked thing by its name, they are removed.

    >>> asked = "How many dogs are on the chairs?"
    >>> [of_asked_kind(f"There are 3 {things}.", asked) for things in ("cats", "chairs", "pets")]
    ['There are 0/0 cats.', 'There are 0/0 chairs.', 'There are 3 pets.']
    >>> of_asked_kind("There are 5 animals: 3 dogs and 2 cats.", asked)
    'There are 3 dogs.'
    """
    words = _words(question)
    asked = _words(" ".join(phrases := _ASKED.findall(question.casefold())))
    if "non" in asked:  # "non-red"
        asked = [word for word in asked if word not in _COLOURS]
    if not phrases and (is_foreign(question) or not question.isascii()):
        asked = [word for word in words if word in _KIND_OF]
    beside = set(_words(" ".join(_BESIDE.findall(question.casefold())))) if phrases else set()
    numbers = [_counted(text, number) for number in islice(numerals(text), MOST)]
    named = [number.value for number in numbers if _is_asked(number.words, asked)]
    rest = [number for number in numbers if not _is_asked(number.words, asked)] if asked else []
    others = [number for number in rest if _is_other(number.words, asked, beside)]
    known = {*named, sum(named)}
    unlike = [number for number in rest if number.value not in known]
    if sum(number.value for number in unlike) in known:  # "2 adults and 1 child: 3 people"
        unlike = []
    kinds = {_KIND_OF[word] for word in asked if word in _KIND_OF}
    heads = [(number, _head(number.words)) for number in unlike]
    general = [
        number
        for number, head in heads
        if (kind := _KIND_OF.get(head, (0, 1)))[1] == 0 and (kind not in kinds or head in _ANYONE)
    ]
    named_so = [number for number in unlike if re.search(r"[a-z]{2}s\Z", text[: number.end])]
    if not (others or (named and (general or named_so))):
        return text
    for number in reversed(rest):
        if number in others or number in general:
            is_apart = named and not _EACH.search(text[: number.end + 40])
            text = _without(text, number) if is_apart else _unknown(text, number)
        elif named and number in unlike:
            text = _unknown(text, number)
    return text


def _without(text: str, number: _Counted) -> str:
    """Return a text without a number, the things that it counts, and a word that joins them."""
    before, after = text[: number.start], text[number.end :]
    if joins := _JOINS.search(before):
        return before[: joins.start()] + after
    joined = _JOINED.match(after)
    return before + (after[joined.end() :] if joined else after)


def _unknown(text: str, number: _Counted) -> str:
    return text[: number.start] + NOT_KNOWN + text[number.number_end :]


def _words(text: str) -> list[str]:
    """Return the words of a text, in the singular."""
    words = _WORD.findall(text.casefold().replace("grey", "gray"))
    return [_PLURAL.sub("", word) for word in words]


_KIND_OF = dict(_kinds())


def _head(words: Sequence[str]) -> str:
    """Return the last known noun of words for things, else their last word."""
    return next((word for word in reversed(words) if word in _KIND_OF), ("", *words)[-1])


def _counted(text: str, number: Numeral) -> _Counted:
    """Return a number with the words for what it counts, behind it or before it."""
    attached = re.search(r"(?<=\d)[^\W\d_]+\Z", text[number.start : number.end])
    end = number.start + attached.start() if attached else number.end
    if after := _COUNTED.match(text, end):
        return _Counted(number.value, number.start, end, after.end(), _words(_thing(after[0])))
    label = _LABEL.search(text[max(0, number.start - 80) : number.start])
    said = _words(" ".join(filter(None, label.groups()))) if label else []
    start = max(0, number.start - 80) + label.start() if label else number.start
    return _Counted(number.value, start, end, end, said)


def _thing(words: str) -> str:
    """Return words for things without what these do: "women" of "women wearing glasses"."""
    for word in _WORD.finditer(words.casefold()):
        is_plural = word[0].endswith("s") or word[0] in _PLURALS
        if is_plural and _PLURAL.sub("", word[0]) in _KIND_OF:
            return words[: word.end()]
        if re.fullmatch("[a-z]{2,}(?:ing|ed)", word[0]):
            before = words[: word.start()].rstrip()
            if before.endswith("s") or any(known in _KIND_OF for known in _words(before)):
                return before
    return words


def _is_asked(said: Sequence[str], asked: Collection[str]) -> bool:
    """Return True if words for things name the asked ones, and their colour if it is asked."""
    return _head(said) in asked and _COLOURS.intersection(asked) <= set(said)


def _is_other(said: Sequence[str], asked: Collection[str], beside: Collection[str]) -> bool:
    """Return True if words for things name another kind, another colour, or what is beside it."""
    head, kinds = _KIND_OF.get(_head(said)), [_KIND_OF[word] for word in asked if word in _KIND_OF]
    if head and kinds:
        return not any(
            head == kind or (head[0] == kind[0] and 0 in (head[1], kind[1])) for kind in kinds
        ) or _are_other_colours(said, asked)
    return (_head(said) in beside and _head(said) not in asked) or _are_other_colours(said, asked)


def are_other_things(said: str, asked: str) -> bool:
    """Return True if words name a known kind of thing, another one than all of another text.

    >>> [are_other_things(said, "Is there a dog?") for said in ("a cat", "a puppy", "a pet")]
    [True, False, False]
    """
    words, wanted = (
        [word for word in _words(text) if word in _KIND_OF and _KIND_OF[word][0] != 8]
        for text in (said, asked)
    )
    is_known = bool(words and wanted) and _words(said)[-1:] == words[-1:]
    return is_known and all(_is_other([word], wanted, ()) for word in words)


def is_person(word: str) -> bool:
    """Return True if a noun is of a kind of people."""
    return _KIND_OF.get("".join(_words(word)[:1]), (1, 0))[0] == 0


def _are_other_colours(said: Sequence[str], asked: Collection[str]) -> bool:
    colours = _COLOURS.intersection(said)
    return bool(colours and _COLOURS.intersection(asked) and colours.isdisjoint(asked))
