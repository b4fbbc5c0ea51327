"""Conversion of lengths, areas and times in a response to the unit that its question asks for.

`harness.stated.numbers` calls `asked_unit` with the question, and `in_unit` and
`without_other_measures` with the response, before it reads the number.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

from harness.stated.numerals import numerals

MOST = 40
"""Most quantities of a response that are read."""
EQUAL = 0.05
"""Largest relative difference of two values that are the same quantity, rounded, in two units."""

_LENGTHS: Mapping[str, float] = {
    r"mm|millimet(?:er|re)s?|毫米": 0.001,
    r"cm|centimet(?:er|re)s?|厘米": 0.01,
    r"dm|decimet(?:er|re)s?|分米": 0.1,
    r"m|met(?:er|re)s?|米": 1.0,
    r"km|kilomet(?:er|re)s?|公里|千米": 1000.0,
    r"inch(?:es)?|(?<=\d)(?:in|″)": 0.0254,
    r"ft|foot|feet|(?<=\d)′": 0.3048,
    r"yards?|yds?": 0.9144,
    r"miles?": 1609.344,
}
_TIMES: Mapping[str, float] = {
    r"ms|milliseconds?|毫秒": 0.001,
    r"s|secs?|seconds?|秒": 1.0,
    r"mins?|minutes?|分钟": 60.0,
    r"h|hrs?|hours?|小时": 3600.0,
}
"""Sizes of units, in metres (above) and in seconds, by the pattern of their names."""
_ENDS = r"(?![^\W_]|\s?/\s?\w|[²³^]|\s(?:per|squared|cubed|by)\b)"
"""End of a unit's name: not that of "m" in "map", "m/s", "m²", "m per second" or "m squared"."""
_SQUARED = re.compile(r"\s?(?:²|\^\s?\{?2\}?|2(?!\d))|\s(?:squared)\b")
"""Marks that make a length before them an area: "²", "^2", "2", " squared"."""
_SQUARE = r"(?:square|sq\.?)[\s-]?"
_ASKS = re.compile(r"\b(?:in(?:to)?|how many)\s(?!\d)", re.IGNORECASE)
"""Words of a question before the unit that it asks for ("in ", "how many "); not "in 3 s"."""
_IN = re.compile(r"\bin(?:to)?\s(?![a-z]{1,2}\s)", re.IGNORECASE)
"""The same before units of `_NOT_CONVERTED`: "in bar"; not "in a bar"."""
_GIVEN = re.compile(r"[^.?!\n]{0,60}?\s(?:are|is|were|was)\s{0,3}:?\s{0,3}\d", re.IGNORECASE)
"""Text after a unit whose numbers the question gives: "in meters, the sides are 3"."""
_SAYS_AGAIN = (
    r"(?:i\.e\.|or|which is|that is|equivalent to|equal to|about|approximately|approx\.|roughly"
    r"|around|[(,=≈~/])"
)
_BEFORE = re.compile(rf"(?:\s*{_SAYS_AGAIN})*\s*\Z")
_AFTER = re.compile(rf"\s*(?:,?\s(?:or|i\.e\.,?|which is|that is)\s|[=≈/])(?:{_SAYS_AGAIN}|\s)*")
_ATTACHED = re.compile(r"(?<=\d)[^\W\d_]+\Z")
_MONEY = re.compile(r"[$€£¥₹](?=\s?\Z)")
_GAP = re.compile(r"(?:[-$*_`{}\\]|[^\S\n]){0,6}")
"""Marks of formulas and bold text between a number and its unit."""
_BARE = re.compile(
    r"[\s*_`$\\{}()\[\]\"'”’~≈=:]*(?:\Z|[.,;!?/|<>-]|[\n—–+×]|\d|[^\x00-\x7f°℃℉‰µμΩ]"
    r"|(?:away|apart|long|tall|wide|high|deep|in|on|at|from|to|between|for|is|are|was|and|or|as|which"
    r"|that|because|since|based|given|if|when|where|according|i\.e|total|left|the|with|by|of\s(?:the"
    r"|this|its|distance|length|height|width|depth)|approximately|about|roughly|respectively"
    r"|confidence|more|less|est|ist|es|e|de|entre)\b)",
    re.IGNORECASE,
)
"""Text that may follow a number without a unit."""
_NEVER = re.compile("(?!)")
_ALIKE: Mapping[float, re.Pattern[str]] = {
    0.01: re.compile(r"(?i:(?:cent[íi]m|zentim|centym)[eèé]t\w{0,4}\b)"),
    1.0: re.compile(
        r"(?i:(?:metros?|m[èé]tres?|metern|metr(?:i|y|ów)|sekund[eya]?n?|segundos?|second(?:es?|i))\b)"
    ),
}
"""Names of units in other languages, of a length or a time, by their sizes."""
_UNMEASURED = "0/0"
"""Text in place of a number of another measure; `numerals` reads it as NaN."""
_COMPOUNDS = tuple(
    (
        re.compile(
            rf"(?<![\w.,/])(\d{{1,4}})[\s-]?(?:{whole})[\s-](?:and\s)?(\d{{1,2}}(?:\.\d+)?)[\s-]?(?:{part})",
            re.IGNORECASE,
        ),
        parts,
        name,
    )
    for whole, part, parts, name in (
        (r"(?:feet|foot|ft)\.?", r"inch(?:es)?\b|in\b(?=\W*(?:\Z|[.,;()]))", 12, "feet"),
        (r"m(?:et(?:er|re)s?)?", r"(?:cm|centimet(?:er|re)s?)\b", 100, "m"),
        (r"min(?:ute)?s?\.?", r"s(?:ec(?:ond)?s?)?\b", 60, "minutes"),
        (r"h(?:ou)?(?:rs?)?", r"min(?:ute)?s?\b", 60, "hours"),
    )
)
"""Patterns of a quantity in two units, "5 feet 6 inches", with the parts and name of the larger."""
_OF_SEVERAL = re.compile(r"(?i:\b(?:are|were|between|both|each|respectively|to)\b)")
"""Words with which "2 m and 40 cm" may be two quantities."""
_FEET_AND_INCHES = re.compile(r"(?<![\w.])(\d)\s?['′’]\s?(\d{1,2})\s?(?:[\"″”]|'')")
_NOT_CONVERTED = tuple(
    re.compile(rf"(?:{names})(?![^\W_]|\s?/\s?\w|\sper\b)", re.IGNORECASE)
    for names in r"""
kgs?|kilo(?:gram(?:me)?)?s?|公斤|千克 g|gram(?:me)?s?|克 mg|milligram(?:me)?s? lbs?|pounds?|£
oz|ounces? stones? tonn?es?|(?:metric\s)?tons? knots?|kn|kts? mph|miles?\sper\shour psi bars?
km/?h|km?ph|kilomet(?:er|re)s?\sper\shour m/s|met(?:er|re)s?\sper\ssecond hpa|hectopascals?
kpa|kilopascals? mpa|megapascals? pascals? mm\s?hg atm(?:ospheres?)? kelvins?
(?:°|degrees?)?\s?c|℃|(?:degrees?\s)?celsius|(?:°|degrees?)(?!\s?[fk])
(?:°|degrees?)?\s?f|℉|(?:degrees?\s)?fahrenheit|(?:°|degrees?)(?!\s?[ck])
ml|millilit(?:er|re)s?|毫升 l|lit(?:er|re)s?|升 gallons?|gal kw|kilowatts?(?!-h) w|watts?
mw|megawatts? gw|gigawatts? kwh|kilowatt[-\s]hours? joules? kj k?cal(?:ories)? kb|kilobytes?
mb|megabytes? gb|gigabytes?|gigs? tb|terabytes? hectares? acres? volts?|v(?=\W*\Z) mv|millivolts?
kv|kilovolts? a(?=\W*\Z)|amps?|amperes?
hz|hertz khz mhz ghz ohms?|Ω newtons? (?:us\s)?dollars?|usd|\$ euros?|eur|€
""".split()
)
"""Units of further kinds, by their names: other ones are told apart, not converted."""


class Unit(NamedTuple):
    """A unit of length, area or time."""

    kind: str
    size: float
    """In metres, square metres or seconds."""
    name: str


class _Quantity(NamedTuple):
    """A number with its unit, from `start` to `end` of a text."""

    value: float
    unit: Unit
    start: int
    end: int


def _patterns() -> Iterator[tuple[re.Pattern[str], str, float]]:
    """Yield a pattern for each unit's name, its kind and its size."""
    for kind, sizes in (("length", _LENGTHS), ("time", _TIMES)):
        for names, size in sizes.items():
            yield re.compile(rf"(?:{names}){_ENDS}", re.IGNORECASE), kind, size
    for names, size in _LENGTHS.items():
        short = "m2" if size == 1.0 else names
        squared = rf"(?:{names})(?:{_SQUARED.pattern})|{_SQUARE}(?:{names}|{short})(?![^\W_])"
        yield re.compile(rf"(?:{squared})(?!\s?/\s?\w|\sper\b)", re.IGNORECASE), "area", size**2
    yield re.compile(r"sqm\b", re.IGNORECASE), "area", 1.0


_UNITS = tuple(_patterns())


def _unit_at(text: str, place: int) -> Unit | None:
    """Return the unit whose name begins at a place of a text."""
    for pattern, kind, size in _UNITS:
        match = pattern.match(text, place)
        if match and match[0] not in ("M", "S", "H"):
            return Unit(kind, size, match[0])
    return None


def asked_unit(question: str) -> Unit | None:
    """Return the one unit that a question asks for; None if it names none, or several.

    >>> asked_unit("How far is the sofa from the door (in meters)?").name
    'meters'
    >>> asked_unit("How many men stand in the room?"), asked_unit("In feet or in meters?")
    (None, None)
    """
    units = [(match.end(), _unit_at(question, match.end())) for match in _ASKS.finditer(question)]
    asked = [
        unit
        for place, unit in units
        if unit is not None and not _GIVEN.match(question, place + len(unit.name))
    ]
    return asked[0] if len({unit[:2] for unit in asked}) == 1 else None


def named_unit(question: str) -> re.Pattern[str] | None:
    """Return the pattern of the one unit of `_NOT_CONVERTED` that a question asks for; else None.

    >>> named_unit("What is the pressure in bar?").fullmatch("bars")[0], named_unit("How many?")
    ('bars', None)
    """
    is_count = "how many" in question.casefold()  # "in C" names a set
    places = [] if is_count else [match.end() for match in _IN.finditer(question)]
    asked = [unit for unit in _NOT_CONVERTED if any(unit.match(question, at) for at in places)]
    return asked[0] if len(asked) == 1 else None


def in_unit(text: str, unit: Unit) -> str:
    """Return a text with all quantities of a unit's kind converted to this unit.

    A quantity that repeats one of this unit in another unit is removed.

    >>> meter = asked_unit("How far is it, in meters?")
    >>> in_unit("It is about 240 cm.", meter), in_unit("2.4 meters (about 7.9 feet)", meter)
    ('It is about 2.4 meters.', '2.4 meters')
    """
    text = _FEET_AND_INCHES.sub(r"\1 feet \2 inches", text)
    for pattern, parts, name in _COMPOUNDS:
        text = pattern.sub(partial(_in_one_unit, parts=parts, name=name), text)
    quantities = [quantity for quantity in _quantities(text) if quantity.unit.kind == unit.kind]
    same = [quantity.value for quantity in quantities if quantity.unit.size == unit.size]
    for quantity in reversed(quantities):
        if quantity.unit.size == unit.size:
            continue
        value = float(f"{quantity.value * quantity.unit.size / unit.size:.12g}")
        if any(math.isclose(value, stated, rel_tol=EQUAL) for stated in same):
            text = _without(text, quantity)
        else:
            text = f"{text[: quantity.start]}{value:.12g} {unit.name}{text[quantity.end :]}"
    return text


def _in_one_unit(compound: re.Match[str], *, parts: int, name: str) -> str:
    """Return a quantity of two units in the larger one; as it is if its smaller part is larger."""
    share = float(compound[2]) / parts  # not rounded: `in_unit` rounds what it makes of it
    if " and " in compound[0] and _OF_SEVERAL.search(compound.string):
        return compound[0]
    return f"{int(compound[1]) + share!r} {name}" if share < 1 else compound[0]


_SAME_AGAIN = re.compile(
    r"(?:[(\[=≈]|\b(?i:or|about|i\.e\.))[\s,~]{0,3}"
    r"(?i:(?:or|about|approx(?:\.|imately)?|roughly|around|equal to)\s)*\Z"
)
"""Words before a quantity that is the one before it in another unit: "2.4 bar (about "."""
_ASKED_AGAIN = re.compile(
    r"\s?(?:\(|,?\s(?:or|i\.e\.,?|which is|that is|equivalent to|equal to)\s|[=≈])[\s~]{0,3}"
    r"(?:(?i:or|about|approximately|approx\.|roughly|around|equal to)\s)*(?=\d)"
    r"(?![^.;]*\b(?:less|more|fewer|than|taller|longer|shorter)\b)"
)
"""Words between a quantity and the same in the asked unit: "36 km/h (10 m/s)"."""


def without_other_measures(text: str, unit: Unit | re.Pattern[str]) -> str:
    """Return a text in which numbers of other measures than the unit's are `_UNMEASURED`.

    A number without a unit counts as one of the asked unit. Beside a number of that unit, the same
    quantity in another known unit is "that": "2.4 bar (about 35 psi)".

    >>> meter = asked_unit("How far is it, in meters?")
    >>> [without_other_measures(text, meter) for text in ("3 paces", "2.4 m/s", "3 m", "3.")]
    ['0/0 paces', '0/0 m/s', '3 m', '3.']
    """
    if isinstance(unit, Unit):
        names, may_be_money = _ALIKE.get(unit.size, _NEVER), False
        of_kind = {part.start for part in _quantities(text) if part.unit.kind == unit.kind}
    else:
        names, may_be_money, of_kind = unit, True, set[int]()
    others: list[tuple[int, int, int]] = []
    is_stated = False
    for number in reversed(list(islice(numerals(text), MOST))):
        attached = _ATTACHED.search(text, number.start, number.end)
        end = attached.start() if attached else number.end
        money = _MONEY.search(text, 0, number.start)
        is_bare = _BARE.match(text, end) and not (money and may_be_money)
        named = _GAP.match(text, end)
        is_named = named and names.match(text, named.end())
        is_of_unit = number.start in of_kind or is_named or (money and names.match(money[0]))
        is_stated |= bool(is_of_unit) and math.isfinite(number.value)
        if not (is_of_unit or is_bare):
            place = end if named is None else named.end()
            is_known = math.isfinite(number.value)
            others.append((number.start, end, _ends_of_unit(text, place) if is_known else end))
    for start, end, end_of_unit in others:
        is_same = is_stated and end_of_unit > end
        if is_same and (again := _ASKED_AGAIN.match(text, end_of_unit)):
            text = text[:start] + text[again.end() :]
        elif is_same and _SAME_AGAIN.search(text[:start]):
            text = f"{text[:start]}that{text[end_of_unit:]}"
        else:
            text = f"{text[:start]}{_UNMEASURED}{text[end:]}"
    return text


def _ends_of_unit(text: str, place: int) -> int:
    """Return where the longest name of a unit that begins at a place of a text ends; 0: none."""
    patterns = (*_NOT_CONVERTED, *(pattern for pattern, *_ in _UNITS))
    return max(match.end() if (match := unit.match(text, place)) else 0 for unit in patterns)


def _without(text: str, quantity: _Quantity) -> str:
    """Return a text without a quantity and the words that introduce it: "(about 7.9 feet)"."""
    before, after = text[: quantity.start], text[quantity.end :]
    lead = _BEFORE.search(before)
    words = "" if lead is None else lead[0]
    if "(" in words and after.lstrip().startswith(")"):
        place = before.rindex("(")
        return before[:place].rstrip() + after.lstrip()[1:]
    if goes_on := _AFTER.match(after):
        return before + after[goes_on.end() :]
    return before.removesuffix(words) + after if words.strip() else f"{before}{after}"


def _quantities(text: str) -> Iterator[_Quantity]:
    """Yield the numbers of a text that have a known unit."""
    for number in islice(numerals(text), MOST):
        if not math.isfinite(number.value):
            continue
        attached = _ATTACHED.search(text, number.start, number.end)
        place = attached.start() if attached else _GAP.match(text, number.end).end()  # type: ignore[union-attr]  # always a match
        unit = _unit_at(text, place)
        if unit is not None:
            yield _Quantity(number.value, unit, number.start, place + len(unit.name))
