"""Detection of numbers that count other things than the question: "3 cats" for dogs.

`harness.stated.numbers` calls `of_asked_kind` with the response. A number counts what is asked if
its noun is one that the question asks for, of the same kind in `_KINDS`, or unknown: models name
things by many nouns ("3 golfers" for people). Nouns of the question's other things never count.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from harness.stated.languages import NOT_KNOWN, is_foreign
from harness.stated.numerals import SMALL, Numeral, numerals

MOST = 40
"""Most numbers of a text that are read."""
# A line holds general nouns, which may stand for all kinds of the line, and then its kinds; each
# noun behind ";" is a kind.
_KINDS = """
people persons individuals humans beings figures members folks players teammates employees
 respondents participants residents voters人位名사람 personas personen menschen personnes pessoas
 persone children child kids niños kinder enfants babies toddlers teenagers孩童 / men guys gentlemen
 males hombres männer hommes homens uomini男남 / women ladies females mujeres frauen femmes mulheres
 donne女여 / boys / girls ; friends students teachers workers officers soldiers skiers firefighters
 guards athletes skaters surfers snowboarders skateboarders riders cyclists bikers motorcyclists
 runners joggers swimmers divers climbers hikers pedestrians passengers drivers pilots spectators
 fans tourists visitors customers shoppers diners doctors nurses patients dancers singers musicians
 performers actors waiters chefs cooks farmers owners
animals creatures pets animales tiere animaux动物動物 / dogs puppies pups welpe welpen chiots
 cachorros canines pugs retrievers labradors poodles beagles bulldogs terriers huskies collies
 corgis狗犬 perros hunde chiens cães cani / cats kittens felines猫고양이 gatos katze katzen chats
 gatti / horses ponies马馬 caballos pferde / cows cattle bulls牛 vacas / sheep lambs羊 / pigs
 hogs猪豚 / rabbits bunnies兔 / fish fishes goldfish catfish鱼魚 / birds pigeons doves gulls
 seagulls ducks geese swans parrots eagles penguins chickens chicks hens crows owls鸟鳥 ; elephants
 giraffes zebras guineapigs prairiedogs seahorses sealions bears monkeys deer lions tigers goats
vehicles vehículos fahrzeuge véhicules / cars sedans automobiles taxis cabs jeeps suvs车車 coches
 autos voitures / trucks lorries / buses coaches / bikes bicycles motorcycles motorbikes scooters /
 boats ships sailboats canoes kayaks yachts / planes airplanes aeroplanes aircraft jets helicopters
 ; trains tractors
furniture seats / chairs armchairs stools椅 sillas stühle chaises cadeiras sedie / tables desks桌
 mesas tische tavoli / sofas couches / cups mugs glasses杯 ; beds windows ventanas doors books
plants / trees palms树 / flowers roses tulips花 ; bushes
fruit fruits ; apples苹 oranges橙 bananas pears lemons peaches mangoes strawberries
- / televisions tvs laptops computers notebooks screens monitors / phones smartphones cellphones /
 pillows cushions / teeth tooth / feet foot / mice mouse / leaves leaf / knives knife / shoes
 sneakers / times repetitions occasions / metres meters m cm inches / seconds minutes hours / years
 months days / degrees / kg kilograms kilos grams lbs pounds / percent / dollars euros / types
 kinds sorts species varieties / lamps lights signals / wheels tires /
 plates bowls saucers / floors stories levels layers / steps stairs / bottles / balls spheres bälle
 pelotas bolas球ボ / cubes blocks / boxes盒箱 / hats helmets caps / houses buildings towers / bags
 handbags purses suitcases luggage backpacks / cakes cupcakes / cans bins / remotes controllers
 controls / refrigerators fridges / curtains drapes / rugs carpets ; legs paws tails ears eyes
 benches heads faces noses necks hotdogs wheelchairs strollers coffee tea milk juice beer wine
 umbrellas伞 kites ties shirts jackets frisbees skis snowboards skateboards surfboards bats gloves
 rackets forks spoons pizzas sandwiches carrots donuts toilets sinks ovens microwaves clocks vases
 toothbrushes blankets shelves candles flags leashes branches rocks clouds towels hydrants strings
 cylinders cones flocks groups rows columns bunches piles stacks packs herds clusters crates teams
 families cabinets signs tomatoes bathtubs kitchens bathrooms bedrooms schools hospitals keyboards
 toasters scissors mirrors hands arms fingers wings streets collars bones cages sails pens pencils
 potatoes headlights lanes cartons poles petals chimneys locks pans tents mannequins cables fences
 socks laces tanks railings lips tracks tusks rings slices handles pockets baskets feeders sidewalks
 roads buttons eggs keys words letters triangles circles squares stars
- / images pictures photos ; observations reasons breeds
"""
_QUALITIES = """
red红/orange/yellow黄/green绿/blue蓝/purple/pink/brown/black黑/white白/gray; wooden wood/plastic
/metal metallic steel/rubber/glass/leather/paper; small little tiny/large big huge; open/closed shut
; empty vacant unoccupied free/full occupied taken; sitting seated/standing/lying/walking/running
; broken cracked/intact whole; parked stationary/moving driving; male/female
; adult/child children kid toddler baby/teenager; left/right
"""
"""Qualities, of which those beside a "/" exclude one another."""
_COMPOUND = re.compile(r"\b(hot|guinea|sea|wheel|prairie)[\s-](?=(?:dog|pig|horse|lion|chair)s?\b)")
"""The first part of a name for another thing than its second: "hot dog"."""
_WORD = re.compile(r"[a-zà-ÿ]+|고양이|사람|动物|動物|[^\W\da-zà-ÿ_]")
"""A word of a Latin script, or one letter of another."""
_PLURAL = re.compile(
    r"(?!(?:is|was|has|does|this|gives|makes|equals|plus|minus|always|seems|looks|appears"
    r"|remains)\Z)[a-zà-ÿ]{2,}(?<![su])(?<!ni)(?<!si)s|\w*men|children|people|sheep|fish|deer"
)
_IS = ("is", "are", "was", "were")
_VERB = re.compile(r"[a-z]{2,}(?:ing|ed)")
_PARTS = re.compile(r",\s|\s(?:and|or)\s")
_STOPS = (
    r"(?:in|on|at|with|that|which|who|whose|near|from|to|for|but|than|are|is|was|were|do|the|an?|this|around|along"
    r"|above|below|under|over|inside|outside|beside|through"
    r"|does|did|can|could|has|have|had|will|would|there|next|behind|as|by|per|more|less|fewer)\b"
)
_ASKED = re.compile(
    r"\b(?:how many|(?:number|count) of|count)\b"
    rf"((?:,?\s(?:(?:of|and|or|the)\s){{0,2}}(?!{_STOPS})[a-z-]{{1,20}}){{1,5}})"
)
_FOREIGN_ASKED = re.compile(
    r"\b(?:cu[aá]nt[oa]s|quant(?:[oa]s|[ie])|wie ?viele|combien d(?:e\s|['’]))"
    r"((?:\s?[a-zà-ÿ]+){1,3})|(?:几|多少)([^\W\da-z_]{1,8})"
)
_MEASURES = "个個只隻把张張辆輛名位条條块棵朵匹头頭架艘座扇盏台颗顆本子的色"
_COUNTED = re.compile(
    r"(?:\s(?:of\s(?:which|whom|them|these|those|the\s\w+\s\w+)\s)?(?:are|is)(?=\s))?"
    rf"(?:(?:[^\S\n]|[*_]){{1,4}}(?!{_STOPS}|(?:of|and|or)\b)[a-zà-ÿ'’-]{{1,20}}){{1,4}}"
    r"|[^\W\da-z_]{1,8}(?:\s[가-힣]{1,8})?",
    re.IGNORECASE,
)
"""Words for the counted things after a number: " brown dogs", " of which are dogs", "只猫"."""
_TOTAL = re.compile(r"\b(?:total|sum|altogether|in all|overall)\b[^.\d]{0,12}\Z", re.IGNORECASE)
_LABEL = re.compile(
    r"(?:\b(?:number|count) of\s(?:the\s)?([a-z]+(?: [a-z]+)?)(?:\s[a-z]+){0,6}?\s(?:is|are|was)"
    r"|(?:\A|[\n,;{|])[\s\"'*_-]{0,6}([a-z]+)[\"'*_]{0,3}\s?[:=|])[\s\"'*_]{0,4}\Z|([^\W\da-z_]{1,6})(?:的数量|の数)[是为は]\Z",
    re.IGNORECASE,
)
"""Words for the counted things before a number: "the number of dogs is", "Dogs: "."""
_PREDICATE = re.compile(r"(?i:\s(?:(?:is|are|was|were)\s(?:all\s|on the\s)?|on the\s)([a-z]+))")
_JOINS = re.compile(r"(?:,\s(?:and\s)?|\s(?:and|with|next to|on|beside)\s)\Z")
_JOINED = re.compile(r"(?:,(?:\sand)?|:|\sand|\swith)\s")
_BESIDE = re.compile(
    r"\s(?:in|on|at|with|near|above|below|behind|beside|next to|around|under|along|from|by|across"
    r"|(?!includ|be|count)[a-z]{2,}ing)\s\Z",
    re.IGNORECASE,
)
"""Words after which a number counts what is beside the counted things: "dogs playing with"."""
_OPENING = re.compile(r"\A\W*(?:in|on|at|after|before|near|from|inside)\s[^,:]{1,60},\s")
_HYPHENED = re.compile(
    rf"(?<![\w.-])(?:\d{{1,4}}|(?i:{SMALL}))-(?P<noun>[a-z]{{3,}})", re.IGNORECASE
)
"""A number that is a part of an adjective: "3-year", "six-pack"."""
_ALL_ARE = re.compile(r"\b(?:all|both)(?: of)?(?: them| whom| these)?(?: are)? (\w+)")
_AND_A = re.compile(
    r"(?<=[a-z]),?\sand\s(?:an?|one)\s(?P<what>(?:[a-z]+\s)?[a-z]+)(?=[.,]|\s[io]n\b|\Z)"
)
_PLACED = re.compile(
    r"\b(?:(?:bounding )?box(?:es)?|coordinates?|location|position|cent(?:er|re)|outline|pair"
    r"|group)(?: (?:of|for))?\b|的?(?:位置|坐标|边界框)[是为在]?"
    r"|\b(?:is|are|can be) (?:\w+ )?(?:at|in|by|inside|found)\b(?=\W*\Z)|\bof\b(?=\W*\Z)"
)
"""Words for a place, beside the name of what is there: "the bounding box of", "is at"."""
_SET_OF = re.compile(
    r"\b(?:group|pair|flock|herd|bunch|couple|pack|row|pile|stack|piece|box|set|kind|type)s? of "
)
_ASKS_WHICH = re.compile(r"\b(?:what|which|who|whose|how|if|used|can|could|would|should|most)\b")
_RELATED = re.compile(
    r"\b(?:in|on|at|with|that|near|next|behind|beside|under|above|below|holding|wearing|sitting"
    r"|standing|riding|walking|from|(?<!point )to|by|not|but|and|while|of the image"
    r"|(?<!where )(?<!there )is|(?<!where )(?<!there )are)\b|[,(.]"
)
"""A word after the name of a thing, before others to which it is related."""
_EACH = re.compile(r"(?i:\b(?:each|every|per|(?:\d\d|[2-9]|two|three|four|five|six) \w+ with)\b)")
"""Words with which numbers of two kinds multiply: "2 tables with 4 chairs"."""
_NO_THINGS = 7
"""The last line of `_KINDS`."""


def _places(table: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each word of a table with the places of its line and of its kind in the line."""
    for line, kinds in enumerate(table.strip().replace("\n ", " ").split("\n")):
        several, _, single = kinds.partition(";")
        for kind, words in enumerate([*several.split("/"), *_words(single)]):
            yield from ((_stem(word), (line, kind)) for word in _words(words))


class _Counted(NamedTuple):
    """A number of a text, from `start` to `end`, which is behind the words for what it counts."""

    value: float
    start: int
    number_end: int
    end: int
    words: Sequence[str]
    qualities: Collection[str]
    """Stems of these words and of a predicate: "cars are blue"."""

    @property
    def is_plural(self) -> bool:
        return bool(self.words and _PLURAL.fullmatch(self.words[-1]))

    @property
    def noun(self) -> str:
        """The stem of the last word if it is a plural, else of the last known one."""
        stems = ["", *map(_stem, self.words)]
        if self.is_plural:
            return stems[-1]
        return next((stem for stem in reversed(stems) if stem in _KIND_OF), stems[-1])

    @property
    def kind(self) -> tuple[int, int] | None:
        return _KIND_OF.get(self.noun)


class _Asked(NamedTuple):
    """Stems of what a question asks to count, and of all its words."""

    nouns: Collection[str]
    phrase: Collection[str]
    """The nouns with the words before them: "red cars"."""
    question: Collection[str]
    beginnings: set[str]
    """Beginnings of the words for the things, in another language than English."""

    @property
    def kinds(self) -> list[tuple[int, int]]:
        return [_KIND_OF[noun] for noun in self.nouns if noun in _KIND_OF]


def of_asked_kind(text: str, question: str) -> str:
    """Return a text in which numbers of other things than the asked ones are `NOT_KNOWN`.

    Where another number counts the asked thing by its name, they are removed.

    >>> asked = "How many dogs are on the chairs?"
    >>> [of_asked_kind(f"There are 3 {things}.", asked) for things in ("cats", "chairs", "mutts")]
    ['There are 0/0 cats.', 'There are 0/0 chairs.', 'There are 3 mutts.']
    >>> of_asked_kind("There are 5 animals: 3 dogs and 2 cats.", asked)
    'There are 3 dogs.'
    """
    asked = _asked(question.casefold())
    text = _HYPHENED.sub(lambda hyphened: _unless_counts(hyphened, asked), text)
    text = _AND_A.sub(lambda added: _unless_other(added, question), text)
    numbers = [_counted(text, number) for number in islice(numerals(text), MOST)]
    named = [number.value for number in numbers if _is_asked(number, asked)]
    rest = [number for number in numbers if not _is_asked(number, asked)] if asked.nouns else []
    known = {*named, sum(named)}
    unlike = [number for number in rest if number.value not in known]
    if sum(number.value for number in unlike) in known:  # "2 adults and 1 child: 3 people"
        unlike = []
    others = [
        number
        for number in rest
        if _is_other(number, asked)
        or (not (named or _says_all(text, asked)) and _is_of_any_sex(number, asked))
        or (named and number.is_plural and _BESIDE.search(text, 0, number.start))
    ]
    others = [number for number in others if number in unlike or number.kind]
    if named or others:  # numbers of which the asked ones are some: "5 animals"
        of_sex = any(map(_is_sex, asked.kinds))
        wider = [n for n in unlike if n.kind and (not n.kind[1] or (of_sex and n.kind[0] == 0))]
        others += [n for n in wider if n.kind not in asked.kinds or n.noun in _ANYONE]
    wanted = _qualities(asked.phrase)
    lines = {line for line, _ in wanted}
    if any(line in lines for line, _ in _qualities(_stems(_words(text))) - wanted):
        others += [n for n in rest if _TOTAL.search(text[max(0, n.start - 25) : n.start])]
    for number in reversed(rest if others else []):
        if number in others:
            is_known = number.kind or number.noun in {*_ANYTHING, *asked.nouns}
            is_apart = named and (is_known or _BESIDE.search(text, 0, number.start))
            is_each = _EACH.search(text[: number.end + 40])
            text = _without(text, number) if is_apart and not is_each else _unknown(text, number)
        elif named and number in unlike:
            text = _unknown(text, number)
    return text


def _unless_counts(hyphened: re.Match[str], asked: _Asked) -> str:
    """Return the noun of "3-year-old" without its number, if a question counts other things."""
    noun = _stem(hyphened["noun"].casefold())
    akin = noun in _KIND_OF and _are_akin(_KIND_OF[noun], asked.kinds)
    asks_it = {"seater": {"sit", "seat"}, "tier": {"layer"}, "pack": asked.question}.get(noun, {""})
    counts = akin or not asked.nouns or not {*asked.question}.isdisjoint(asks_it)
    counts = counts or any(noun.startswith(it) for it in asked.nouns)
    return hyphened[0] if counts else hyphened["noun"]


def _unless_other(added: re.Match[str], question: str) -> str:
    """Return nothing for " and a woman" if a question asks for other things, else the words."""
    is_other = asked_things(question) and are_other_things(added["what"], question)
    return "" if is_other else added[0]


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
    text = _COMPOUND.sub(r"\1", text.casefold())
    return _WORD.findall(text.replace("grey", "gray").replace("colour", "color"))


def _stem(word: str) -> str:
    """Return a word without the ending of a plural.

    >>> [_stem(word) for word in ("buses", "bus", "horses", "horse", "puppies", "puppy", "men")]
    ['bus', 'bus', 'hors', 'hors', 'puppi', 'puppi', 'man']
    """
    singular = re.sub(r"men\Z", "man", re.sub(r"(?<=[a-z]{2})(?<![su])s\Z", "", word))
    return re.sub(r"(?<=[a-z]{2})y\Z", "i", re.sub(r"(?<=[a-z]{2})(?<!cub)e\Z", "", singular))


def _stems(words: Iterable[str]) -> set[str]:
    return {_stem(word) for word in words}


def stems_of(text: str) -> set[str]:
    """Return the words of a text in small letters without the endings of plurals.

    >>> sorted(stems_of("Two red buses"))
    ['bus', 'red', 'two']
    """
    return _stems(_words(text))


_KIND_OF = dict(_places(_KINDS))
_ANYTHING = frozenset(
    "object item thing on total instanc unit exampl element entri other adult piec".split()
)
"""Stems of nouns for things of any kind."""
_ANYONE = frozenset("peopl person individual human 人".split())
_OF_ANY_SEX = _ANYONE | _stems("children kids toddlers babies adults 孩".split())
_LIKENESS = frozenset(_stems("statues figurines sculptures posters pictures paintings".split()))
"""Stems of words with which a noun names an image of a thing: "dog statue"."""
_UNITS = _stems("metres seconds years kg percent dollars degrees times".split())
_MEASURES_OF_ONE = {_KIND_OF[stem] for stem in _UNITS}
"""Kinds of units: a number with one of them counts no other things."""
_QUALITY_OF = dict(_places(_QUALITIES.replace("\n", " ").replace(";", "\n")))


def asked_things(question: str) -> list[list[str]]:
    """Return the words, the noun last, for the things that a question asks to count.

    >>> asked_things("How many red cars and dogs are there?")
    [['red', 'cars'], ['dogs']]
    """
    phrases = _ASKED.findall(question.casefold())
    parts = [_words(_thing(part)) for phrase in phrases for part in _PARTS.split(phrase)]
    return [part for part in parts if part]


def _asked(question: str) -> _Asked:
    """Return what a question in small letters asks to count: nothing if it has no "how many"."""
    question = re.sub(r"pieces of (?!pizza|cake|bread)", "", question)
    words, things = _words(question), asked_things(question)
    if not things and (is_foreign(question) or not question.isascii()):
        asking = _FOREIGN_ASKED.search(question)
        counted = _words(asking[1] or asking[2]) if asking else []
        nouns = (_stems(words) & _KIND_OF.keys()) | _stems(counted)
        return _Asked(nouns, (), _stems(words), _beginnings(counted))
    nouns = {_stem(part[-1]) for part in things}
    if re.search(r"\b(?:non|not)\b|n['’]t\b", question):  # "non-red"
        return _Asked(nouns, (), (), set())
    return _Asked(nouns, _stems(word for part in things for word in part), _stems(words), set())


def _beginnings(words: Iterable[str]) -> set[str]:
    """Return the first four letters of words, or single letters of Chinese but measure words."""
    long = (word for word in words if len(word) > 3 or not (word.isascii() or word in _MEASURES))
    return {word[:4] for word in long}


def _counted(text: str, number: Numeral) -> _Counted:
    """Return a number with the words for what it counts, behind it or before it."""
    attached = re.search(r"(?<=\d)[^\W\d_]+\Z", text[number.start : number.end])
    end = number.start + attached.start() if attached else number.end
    if after := _COUNTED.match(text, end):
        predicate = _PREDICATE.match(text, after.end())
        qualities = _stems(_words(after[0] + (predicate[0] if predicate else "")))
        words = _words(_thing(after[0]))
        return _Counted(number.value, number.start, end, after.end(), words, qualities)
    label = _LABEL.search(text[max(0, number.start - 80) : number.start])
    said = _words(" ".join(filter(None, label.groups()))) if label else []
    start = max(0, number.start - 80) + label.start() if label else number.start
    return _Counted(number.value, start, end, end, said, _stems(said))


def _thing(words: str) -> str:
    """Return words for things up to their noun: "women" of "women wearing glasses".

    That is the first in the plural with those right behind it ("sports cars"), or one before a
    verb.
    """
    end = 0
    for word in _WORD.finditer(words.casefold()):
        before = words[: end or word.start()].rstrip()
        if _PLURAL.fullmatch(word[0]):
            end = word.end()
        elif end or (_VERB.fullmatch(word[0]) and any(map(_is_known, _words(before)))):
            return before
    return words[:end] if end else words


def _is_known(word: str) -> bool:
    return word in _IS or _stem(word) in _KIND_OF


def _is_asked(number: _Counted, asked: _Asked) -> bool:
    """Return True if words for things name the asked ones, and their qualities if these are."""
    is_kind = bool(number.kind and number.kind[1]) and number.kind in asked.kinds
    is_named = number.noun in asked.nouns or is_kind
    if asked.beginnings:
        is_named = not asked.beginnings.isdisjoint(_beginnings(number.words))
    of_quality = _qualities(asked.phrase) <= _qualities(number.qualities)
    return is_named and of_quality and not _exclude(number.qualities, asked.question)


def _exclude(said: Iterable[str], asked: Iterable[str]) -> bool:
    """Return True if qualities among some stems exclude those among others: "blue" for "red"."""
    qualities, wanted = _qualities(said), _qualities(asked)
    lines = {line for line, _ in qualities}.intersection(line for line, _ in wanted)
    return bool(lines) and qualities.isdisjoint(wanted)


def is_quality(stem: str) -> bool:
    """Return True if a word's stem is one of `_QUALITIES`."""
    return stem in _QUALITY_OF


def are_excluding(said: str, asked: str) -> bool:
    """Return True if the qualities of two stems exclude one another: "blue", "red"."""
    return _exclude([said], [asked])


def _qualities(stems: Iterable[str]) -> set[tuple[int, int]]:
    return {_QUALITY_OF[stem] for stem in stems if stem in _QUALITY_OF}


def _is_other(number: _Counted, asked: _Asked) -> bool:
    """Return True if words for things name other ones than asked, or ones of another quality."""
    noun, kind = number.noun, number.kind
    if not noun or _exclude(number.qualities, asked.question):
        return bool(noun)
    if noun in asked.nouns or not _ANYTHING.isdisjoint({noun, *asked.nouns}):
        return False
    if "tim" in asked.nouns and noun in asked.question:  # "3 jumps"
        return False
    if kind in _MEASURES_OF_ONE:
        return kind not in asked.kinds
    if kind and asked.kinds:
        return not _are_akin(kind, asked.kinds)
    return (
        bool(asked.phrase and (kind or number.is_plural))
        and noun in asked.question
        and noun not in asked.phrase
    )


def is_likeness(said: str, asked: str) -> bool:
    """Return True if words name an image of a thing, "a dog statue", and a question does not."""
    return not _LIKENESS.isdisjoint(_stems(_words(said))) and _LIKENESS.isdisjoint(
        _stems(_words(asked))
    )


def _is_of_any_sex(number: _Counted, asked: _Asked) -> bool:
    """Return True for a number of people or children where a question asks for a sex."""
    return number.noun in _OF_ANY_SEX and {*map(_is_sex, asked.kinds)} == {True}


def _says_all(text: str, asked: _Asked) -> bool:
    """Return True if a text says that all of its things are the asked ones."""
    all_are = _ALL_ARE.search(text.casefold())
    noun = _stem(all_are[1]) if all_are else ""
    return noun in asked.nouns or _KIND_OF.get(noun) in asked.kinds


def _are_akin(kind: tuple[int, int], kinds: Iterable[tuple[int, int]]) -> bool:
    """Return True if a kind is one of some kinds, or general for it, or one of a general one.

    Of people, a man is one with any occupation.
    """
    return any(
        kind == other
        or (
            kind[0] == other[0]
            and (not kind[1] * other[1] or (kind[0] == 0 and _is_sex(kind) != _is_sex(other)))
        )
        for other in kinds
    )


def _is_sex(kind: tuple[int, int]) -> bool:
    return (0, 0) < kind < (0, 5)


def _kinds_in(text: str) -> list[tuple[int, int]]:
    """Return the kinds of things that a text names, without general ones beside special ones."""
    kinds = [_KIND_OF[stem] for stem in map(_stem, _words(text)) if stem in _KIND_OF]
    kinds = [kind for kind in kinds if kind not in _MEASURES_OF_ONE]
    special = {line for line, kind in kinds if kind}
    return [kind for kind in kinds if kind[0] != _NO_THINGS and (kind[1] or kind[0] not in special)]


def are_other_things(said: str, asked: str) -> bool:
    """Return True if words name a known kind of thing, another one than all of another text.

    >>> [are_other_things(said, "Is there a dog?") for said in ("a cat", "a puppy", "a pet")]
    [True, False, False]
    """
    named, wanted = _kinds_in(said), _kinds_in(asked)
    if not (named and wanted and _kinds_in(_words(said)[-1])):
        return False
    return not any(_are_akin(kind, wanted) for kind in named)


def begins_with_other(said: str, asked: str) -> bool:
    """Return True if the first known thing of a clause is of another kind than all of a question.

    Things of an opening ("On the table, ") do not count, nor does a person where the question
    names no one who may act.

    >>> [begins_with_other(said, "When does the man open the door?")
    ...  for said in ("A dog barks at the man", "In the car, a person", "it", "the door is moved")]
    [True, False, False, False]
    """
    said = re.split(r"\b(?:he|she|it|they)\b", _OPENING.sub("", said.casefold()))[0]
    named, wanted = _kinds_in(said)[:1], _kinds_in(asked)
    is_agent = bool(named) and named[0][0] == 0 and all(line > 1 for line, _ in wanted)
    return bool(named and wanted and not (is_agent or _are_akin(named[0], wanted)))


def is_another_label(label: str, question: str) -> bool:
    """Return True if a label names another thing, or a thing of another quality, than a phrase.

    The thing of either is its last known noun before a relation; a question with "what" or "which"
    may ask for another thing than those that it names.

    >>> [is_another_label(label, "Where is the red cup on the table?")
    ...  for label in ("mug", "red mug", "blue cup", "table", "cup holder", "object")]
    [False, False, True, True, False, False]
    """
    if _ASKS_WHICH.search(question.casefold()):
        return False
    label = _PLACED.sub(" ", label.casefold()).strip()
    asked, said = (_RELATED.split(text.casefold())[0] for text in (question, label))
    said = _SET_OF.sub("", said)
    if _exclude(_stems(_words(label)), _stems(_words(question))):
        return bool(_kinds_in(asked))
    heads = [kind for part in asked.split(" of ") for kind in _kinds_in(part)[-1:]]
    named = (_kinds_in(said.split(" of ")[0]) or _kinds_in(said))[-1:]
    return bool(heads and named and not _are_akin(named[0], heads))


def are_of_kind(said: str, asked: str) -> bool:
    """Return True if the first known thing of a text is of a kind that another text names.

    >>> are_of_kind("tres hombres", "¿hay personas?"), are_of_kind("un gato", "¿hay un perro?")
    (True, False)
    """
    return any(_are_akin(kind, _kinds_in(asked)) for kind in _kinds_in(said)[:1])


def are_other_qualities(said: str, asked: str) -> bool:
    """Return True if a clause says a quality that excludes one of a question of the same thing.

    >>> asked = "Is the car red?"
    >>> [are_other_qualities(f"the car {it}", asked) for it in ("is blue", "is by a blue wall")]
    [True, False]
    """
    words, stems = [*_words(said), ""], _stems(_words(asked))
    of_thing = any(
        _stem(word) in _QUALITY_OF and (words[place - 1] in _IS or _stem(words[place + 1]) in stems)
        for place, word in enumerate(words[:-1])
    )
    return of_thing and _exclude(_stems(words) - {"left", "right"}, stems)


def is_wider(said: str, asked: str) -> bool:
    """Return True for one noun that is general for the things of another text.

    >>> [is_wider(said, "a dog") for said in ("animal", "animals", "big animal", "plant")]
    [True, True, False, False]
    """
    kinds, lines = _kinds_in(said), {line for line, _ in _kinds_in(asked)}
    return len(said.split()) == 1 and bool(lines) and [(line, 0) for line in lines] == kinds


def is_person(word: str) -> bool:
    """Return True if a noun is of a kind of people."""
    return _KIND_OF.get(_stem(word.casefold()), (1, 0))[0] == 0
