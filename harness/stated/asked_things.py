"""Detection of numbers that count other things than the question asks for, or not all of them.

"3 are missing" does not answer "How many chairs are there?". `harness.stated.numbers` removes such
numbers from a response before it reads the answer; `intervals` asks for states ("the door is
closed").
"""

import re
from itertools import islice

from harness.stated.kinds_of_things import are_other_things, asked_things, begins_with_other
from harness.stated.languages import NOT_KNOWN, is_foreign
from harness.stated.numerals import Numeral, numerals
from harness.stated.sentence_values import sentence_before

MOST = 40
"""Most numbers of a text that are read."""
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
)
_OF_ANOTHER = re.compile(
    r"(?i:[^.;:\n]{0,60}\b(?:and|plus|with)\s(?:\w+\s){1,3}(?<!top\s)(?<!front\s)of another\b)"
)
"""Words after a number that add a part: " men and half of another"."""
_AND_SOMEONE = re.compile(
    r"(?i:(?:(?!\bincluding\b)[^.:;(\n]){0,80}?(?:\band (?:someone|somebody)\b"
    r"|\bwith (?:an?|its|her|their) (?:\w+ )?(?:calf|cub|foal|lamb|chick|fawn)\b"
    r"|;\s(?:everyone|everybody) (?:except|but)\b))"
)
"""Words after a number that add things to it or take some away."""
_LACKS = re.compile(
    r"(?i:\W{0,4}(?:[^\W\d]+\s){0,3}?(missing|lacking|absent|gone|departed"
    r"|(?:flew|ran|drove|walked) away|fehl(?:en|t)|manqu(?:ent|e)|faltan?|faltam"
    r"|mancano|ontbreken|saknas|mangler|brakuje|chybí|hiányzik|lipsesc|eksik|hilang)\b)"
)
"""A predicate, in several languages, of things that are absent: " are missing"."""
_OF_ALL_LACKS = re.compile(
    r"\W{0,4}(?:[^\W\d]+\s){0,3}?(?:removed|used to (?:be|have|stand)|left the)\b", re.IGNORECASE
)
"""A predicate of things that are not there, if a question asks how many are."""
_OTHER = re.compile(r"\s(?:other|additional|extra)\b", re.IGNORECASE)
_IN_IMAGE = r"(?:\s(?:in|on) (?:the|this) (?:image|picture|photo|video|scene|room))"
_ASKS_ALL = re.compile(
    r"\A(?!.*\b(?:besides|exclud\w+|except|apart|aside|other|another|more|extra|additional|spare)\b)"
    r".*\b(?:how many (?:[a-z-]+(?:\(s\))? ){1,3}(?:can (?:you|we) see|can be seen"
    rf"|(?:are|is|were)(?: there| visible| present| shown|(?={_IN_IMAGE})))"
    rf"|(?:count|number of)(?: the)?(?: [a-z-]+){{1,2}}){_IN_IMAGE}{{0,2}}\s*(?:[.?!\n]|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""A question on all things of a kind: "How many chairs are there in the room?"."""
_COMPARED = re.compile(
    r"\s(?:[a-z]+\s){1,2}(?:more|fewer|less)(?:\sthan\b|\W*\Z)|\stimes\W*\Z"
    r"|(?:\s[a-z]+){0,2}\s(?:per|each|every)\b(?!\s(?:of|cent|hour|minute"
    r"|second|day|year)\b)",
    re.IGNORECASE,
)
"""Words after a number that is a difference or a rate: " birds more than cats", " per tree"."""
_ASKS_COMPARED = re.compile(
    r"\b(?:more|fewer|less|than|differ\w*|compar\w*|times|often|per|each|every|average|mean)\b"
    r"|\A\W*\Z",
    re.IGNORECASE,
)
_BESIDES = re.compile(
    r"\b(?:besides|apart from|aside from|in addition to|other than|excluding"
    r"|(?:not|without) counting)"
    r"\s(?P<what>[^.;:\n]{1,60}),[^.;:\n]{0,40}\Z",
    re.IGNORECASE,
)
"""Words before a number that leave a thing out: "Besides the driver, there are"."""
_PRICE = re.compile(r"[$€£¥₹]\s?\Z")
_ASKS_PRICE = re.compile(r"(?i:[$€£¥₹]|\b(?:dollars?|euros?|pounds?|yen|yuan|money|cents?)\b)")
_COUNTS = re.compile(r"\b(?:how many|number of|count)\b", re.IGNORECASE)
_IS = r"(?:are|were|sind|waren|sont|étaient|están|estaban|son|eran|são|estão|eram|sono|erano|zijn)"
_PREDICATE = re.compile(rf"(?i:\s{_IS}\s([^\W\d_]{{3,}})\W*(?:[.,;!\n]|\Z))")
"""The predicate right after a number: " are empty." in "3 are empty."."""
_THERE = frozenset(
    "there here visible present shown seen pictured depicted correct left total needed required"
    " counted sichtbar zu visibles présents présentes presentes visibili presenti zichtbaar".split()
)
"""Predicates that hold for everything that is counted."""
_PEOPLE = re.compile(r"(?i:\bhow many (?:\w+ )?(?:people|persons|individuals|humans)\b)")
_ONE_PERSON = re.compile(
    r"(?i:[^.;:\n]{0,40}\b(?:with|holding|carrying)\s(?:an?|his|her|their|one)\s(?:\w+\s)?"
    r"(?:baby|infant|toddler|child|kid|boy|girl|man|woman|person)\b)"
)
"""Words after a number that name one person more: " women holding a baby"."""
_STATE = re.compile(
    r"(?i:\b(?:the|an?|his|her|their) (?:\w+ )??([a-z]{3,}) "
    r"(?:is|are|was|were|stays?|remains?|becomes?) ((?:not |still |fully |completely |now )*)"
    r"([a-z]{2,})\W*(?:[.,;!\n]|\Z|(?:from|between)\b))"
)
"""A thing, words such as "not", and its state: "the door is not open."."""
_ELSEWHERE = re.compile(
    r"\b(?:used to|usual(?:ly)?|typical(?:ly)?|on average|previous"
    r"|(?:in|of|for) (?:another|other(?! words\b))|was told"
    r"|(?:some|any|no)(?:one|body)|my first|ought to|lost count|stopped (?:counting|at))\b",
    re.IGNORECASE,
)
"""Words of sentences about other things than what is seen: "A typical room has 3 chairs."."""
_OTHER_IMAGE = re.compile(r"\bin the (?:previous|other|next) (?:image|picture|photo|video|frame)\b")
_OF_ONE = re.compile(
    r"\b(?:each|every) (?:\w+ )?\w+ (?:has|have|had|holds|seats)\b"
    r"|[\"'](?:min|max|first|missing|other)(?:_\w{1,40})?[\"']\s?:\W*\Z",
    re.IGNORECASE,
)
"""Words, or a key of JSON, before a number that is not of all things: "Each table has"."""
_OF_THEM = re.compile(
    r"\sof (?:the|them|these|those)\b(?:\s\w+){0,2}?\s(?:are|is|were|have|has)\s"
    r"(?!in (?:the|this) (?:image|picture|photo|video)\b)(?:an? |the )?(\w+)",
    re.IGNORECASE,
)
"""A part and its predicate: " of them are red"."""
_SIZE = re.compile(r"[^.;,\d]{1,14}?\s(?:long|wide|tall|high|deep|thick)\b", re.IGNORECASE)
_ASKS_DISTANCE = re.compile(r"\b(?:how far|distance|apart|away)\b", re.IGNORECASE)
_MOMENT = re.compile(r"\b(?:at|after|until|by)\s(?:about\s|second\s)?\Z", re.IGNORECASE)
_OF_TIME = re.compile(r"\s?(?:s|sec|seconds?|min|minutes?|hours?)\b", re.IGNORECASE)
_ASKS_HOW_LONG = re.compile(
    r"\bhow (?:long|many (?:second|minute|hour)s) (?:do|does|did|is|was)\b"
    r"(?!.*\b(?:into|until|till|before|after|when|wait|video|clip)\b)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\b(?:between|gap|path|distance|space|separat\w+)\b", re.IGNORECASE)
_PAIRS = (("open", "clos"), ("enter", "leav"), ("sit", "stand"), ("pick", "put"), ("push", "pull"))
_ACTIONS = dict(_PAIRS) | {right: left for left, right in _PAIRS}
"""Beginnings of verbs and of their contraries."""
_TWO_ACTIONS = re.compile(r"\b(?:and|then|who|which|that|while|before|after)\b", re.IGNORECASE)
_NAME = (
    r"(?!(?:It|He|She|This|That|There|They|The|Its|His|Her)\b|Celsius|Fahrenheit|Kelvin"
    r"|January|February|March|April|May|June|July|August|September|October"
    r"|November|December|[A-Z][a-z]+day\b|Euros?\b|English|French|German|Spanish|Chinese"
    r"|Arabic|Japanese|Korean|Roman)(?:[A-Z][a-z]{2,}|Q[1-4]\b)"
)
"""A proper name, or one such as "Q2"."""
_ROLE = re.compile(rf"\b(?P<role>to|in|for|of|at) (?P<name>{_NAME})")
_ASKS_OF = re.compile(rf"\b(?:is|was|does|did|has) (?P<name>{_NAME})")
_ASKS_PERSON = re.compile(rf"(?i:how (?:old|tall|heavy) (?:is|was)|how much (?:does|did)) {_NAME}")
_SUBJECT = re.compile(
    rf"(?P<first>\A|[.!?]\s)?\b(?P<name>{_NAME})(?:['’]s [a-z]+)? (?:is|was|has|weighs|costs)\b"
    r"[^.;,]{0,20}\d"
)
"""A name that begins a statement of a number: "Ben is 12"."""
_NEXT_CLAUSE = re.compile(r"[.;!?\n]\s|\(|\b(?:while|when|as|after|before|until)\b")
_OF_TIMES = re.compile(
    r"\b(?:(?:start|end|begin)?_?times?|seconds?|secs?|minutes?|min|hours?|m|s|marks?)\b|[秒分]"
)
_FRACTION = re.compile(r"\d\s(?:quarts?|tiers)\b")
"""A fraction in French ("3 quarts"), whose words have other meanings in English."""


def without_others(text: str, question: str) -> str:
    """Return a text in which numbers that may not count what is asked for are `NOT_KNOWN`.

    >>> without_others("3 fehlen.", "Wie viele Stühle gibt es?")
    '0/0 fehlen.'
    >>> without_others("3 are missing.", "How many are missing?")
    '3 are missing.'
    >>> without_others("Three men, and part of a fourth.", "How many men?")
    '0/0 men, and part of a fourth.'
    """
    numbers = list(islice(numerals(text), MOST))
    for number in reversed(numbers):
        is_first = number == numbers[0]
        if _is_of_others(text, number, question) or (is_first and _is_part(text, number, question)):
            text = text[: number.start] + NOT_KNOWN + text[number.end :]
    if is_foreign(question) or is_foreign(text):
        text = _FRACTION.sub(NOT_KNOWN, text)
    return text


def _is_of_others(text: str, number: Numeral, question: str) -> bool:
    """Return True if the words after a number say that it is not all that is asked for."""
    rest = text[number.end : number.end + 200]
    if number.value.is_integer() and re.search(_one_more(int(number.value)), rest):
        return True
    if _AND_SOMEONE.match(rest) and _COUNTS.search(question):
        return True
    if _OF_ANOTHER.match(rest) or (_PEOPLE.search(question) and _ONE_PERSON.match(rest)):
        return True
    asks_count = _COUNTS.search(question)
    besides = _BESIDES.search(sentence_before(text, number.start))
    if asks_count and _PRICE.search(text[: number.start]) and not _ASKS_PRICE.search(question):
        return True
    if asks_count and besides and not _asks(question, besides[0].split()[0]):
        counted = {part[-1] for part in asked_things(question)}
        is_of_question = (
            _asks(question, noun := besides["what"].split()[-1]) and noun not in counted
        )
        if not (is_of_question or are_other_things(besides["what"], question)):
            return True
    if asks_count and _COMPARED.match(rest) and not _ASKS_COMPARED.search(question):
        return True
    if (lacks := _LACKS.match(rest)) and not _asks(question, lacks[1]):
        return True
    if (predicate := _PREDICATE.match(rest)) is None:
        return False
    return predicate[1].casefold() not in _THERE and not _asks(question, predicate[1])


def _is_part(text: str, number: Numeral, question: str) -> bool:
    """Return True if the sentence of a text's first number is on a part, or on something else."""
    before, rest = sentence_before(text, number.start), text[number.end :]
    if _ASKS_ALL.search(question):
        part = _OF_THEM.match(rest)
        is_part = part and not (part[1].casefold() in _THERE or _asks(question, part[1]))
        if is_part or any((_OTHER.match(rest), _OF_ALL_LACKS.match(rest), _OF_ONE.search(before))):
            return True
    elsewhere = _ELSEWHERE.search(before) or _OTHER_IMAGE.search(re.split(r"[.!?\n]", rest)[0])
    return bool(
        (elsewhere and not _asks(question, elsewhere[0]))
        or (_ASKS_DISTANCE.search(question) and _SIZE.match(rest) and not _BETWEEN.search(before))
        or (_ASKS_HOW_LONG.search(question) and _MOMENT.search(before) and _OF_TIME.match(rest))
    )


def _one_more(value: int) -> str:
    """Return the pattern of words for one thing more than `value`: "a fourth" for 3."""
    digits = rf"{value + 1}(?:st|nd|rd|th)"
    word = _ORDINALS[value] if 0 <= value < len(_ORDINALS) else digits
    return rf"(?i:\b(?:an?|another)\s(?:[a-z]+\s){{0,2}}?(?:{word}|{digits})\b(?!\s(?:of|full)\b))"


def says_another_state(text: str, question: str) -> bool:
    """Return True if a text gives a thing of the question another state than the question does.

    >>> says_another_state("From 3 s to 7 s the door is closed.", "When is the door open?")
    True
    >>> says_another_state("The door is open from 3 s to 7 s.", "When is the door open?")
    False
    """
    if begins_with_other(_clause_of_times(text), question):
        return True
    pairs = () if _TWO_ACTIONS.search(text) else _ACTIONS.items()
    if any(_contradicts(text, question, *pair) for pair in pairs):
        return True
    for thing, adverbs, state in _STATE.findall(text):
        if not _asks(question, thing) or state.casefold().endswith("ing"):
            continue
        if "not" in adverbs or not (_asks(question, state) or state.casefold() in _THERE):
            return True
    return False


def names_another(text: str, question: str) -> bool:
    """Return True if a text has a proper name in the role of a question's, and none of these.

    >>> [names_another(f"It is 85 km to {town}.", "How far is it to Berlin?")
    ...  for town in ("Berlin", "Hamburg")]
    [False, True]
    """
    asked = re.split(r"[.!\n]\s?", question.partition("?")[0])[-1]
    roles = {role["role"]: role["name"] for role in _ROLE.finditer(asked)}
    names = {*roles.values(), *(of["name"] for of in _ASKS_OF.finditer(asked))}
    if not names or any(name in text for name in names):
        return False
    is_person = _ASKS_PERSON.search(asked)
    subjects = [said for said in _SUBJECT.finditer(text) if is_person or said["first"] is None]
    return bool(subjects) or any(said["role"] in roles for said in _ROLE.finditer(text))


def _clause_of_times(text: str) -> str:
    """Return the words around the first number of a text, from its clause to the next one."""
    first = next(numerals(text), None)
    if first is None:
        return text
    before = re.split(r"[.;!?\n]\s", text[: first.start])[-1]
    after = _NEXT_CLAUSE.split(text[first.end :], maxsplit=1)[0]
    return _OF_TIMES.sub(" ", f"{before} {after}")


def _contradicts(text: str, question: str, action: str, contrary: str) -> bool:
    """Return True if a question has only a verb of an action, a text only one of its contrary."""
    verb = rf"\b{action}(?:e|e?s|\w?ing|ed)?\b"
    does = rf"\b{contrary}e?s\b|\b(?:is|are) {contrary}\w?ing\b"
    is_said = re.search(rf"\b{action}", text, re.IGNORECASE)
    asks = re.search(verb, question, re.IGNORECASE)
    asks_both = re.search(rf"\b{contrary}", question, re.IGNORECASE)
    return bool(asks and not (is_said or asks_both) and re.search(does, text, re.IGNORECASE))


def _asks(question: str, word: str) -> bool:
    """Return True if the beginning of a word, without "ed" or "ing", occurs in a question."""
    stem = re.sub(r"(?<=\w{3})(?:ed|ing)\Z", "", word.casefold())
    return stem[:5] in question.casefold()
