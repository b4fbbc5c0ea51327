"""Other spellings of numbers, and numbers beside the stated one that are none of its values.

`harness.stated.numbers` calls `respelt` with the response before it reads the number: "two dozen"
is 24, "2 and a half" is 2.5, 七只 is 7; a year of the question and a value that is only compared
are removed.
"""

import re

from harness.stated.languages import NOT_KNOWN
from harness.stated.numerals import SMALL, numerals
from harness.stated.roles import is_function_word

_DIGITS: dict[str, int] = {
    **{word: value for value, word in enumerate("one two three four five six".split(), 1)},
    **{word: value for value, word in enumerate("seven eight nine ten".split(), 7)},
    "a": 1,
}
_SMALL = rf"(?:{'|'.join(_DIGITS)}|\d{{1,3}})"
_DOZEN = re.compile(rf"(?<![\w.,-])(half a|{_SMALL})[\s-]dozen\b(?!-|\sand\sa\s)", re.IGNORECASE)
_HALF = re.compile(
    rf"(?<![\w.,/-])(?!a\b)({_SMALL})[\s-]and[\s-]a[\s-]half\b(?!-|\s(?:of|a|the|an|dozen|hundred"
    r"|thousand|million|billion|years? (?:ago|old))\b)",
    re.IGNORECASE,
)
"""A number and a half, right before the unit: "two and a half meters"."""
_HALF_A = re.compile(
    r"(?<!and )(?<![\d-] )(?<![\d-])\bhalf an? (?=(?:met(?:er|re)|foot|inch|yard|mile"
    r"|kilomet(?:er|re)"
    r"|hour|minute|second)\b)",
    re.IGNORECASE,
)
_ONE_AND_A_HALF = re.compile(
    r"\b(?:an?|one|1) (met(?:er|re)|foot|inch|yard|mile|kilomet(?:er|re)|hour|minute|second)"
    r" and a half\b",
    re.IGNORECASE,
)
_ASSUMES = re.compile(
    r"\A\W{0,3}(?:assuming|using|taking|given|considering|if we assume|based on|judging (?:by|from)"
    r"|relative to)\b[^.!?\n]{0,160}?\d"
    r"(?:[^!?\n.]|\.\d){0,80}?,\s(?=the (?P<what>[a-z]{3,20}) )",
    re.IGNORECASE,
)
"""A first clause on what is assumed: "Assuming a chair is 0.5 m wide, the distance is 2 m."."""
_HAS_COUNTER = re.compile(  # "in the image there are 7 birds", in Japanese and Korean
    r"\A(?:(?:この)?(?:画像|写真|動画|映像|シーン)(?:の中)?に?は?、?)?(?:全部で|合計で?)?(\d{1,4})"
    r"(?:[個人匹台本枚冊頭羽脚杯軒]|つ)の(?!うち|内|他|ほか|半|み)([一-鿿ぁ-んァ-ヶー]{1,8})が"
    r"(?:います|あります|いる|ある|見えます|写っています|映っています)。?\s*\Z"
    r"|\A(?:이?\s?(?:이미지|사진|그림|영상|비디오|장면|화면)(?: ?속)?에는?\s)?(?:총\s"
    r"|모두\s)?(\d{1,4})"
    r"\s?(?:개|명|마리|대|권|장|그루|송이|잔|병)의\s([가-힣]{1,8})[이가]\s(?:있습니다|보입니다|있어요)\.?\s*\Z"
)
_ASKS_MOMENT_IN_SECONDS = re.compile(
    r"\b(?:at|in) (?:what|which) (?:exact )?second\b|\btime\b(?![^?]*\bclock\b)[^?]*\bin seconds\b"
    r"|\bwhen\b[^?]*\bin seconds\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?<![\w:.,-])(\d{1,2}):([0-5]\d(?:\.\d{1,3})?)(?!\w|[:,.]\d|\s?[ap]\.?m\b"
    r"|\so['’]clock|\sin the (?:morning|afternoon|evening))",
    re.IGNORECASE,
)
"""A moment of a video in minutes and seconds: "1:05"."""
_SHOWN_TIME = re.compile(r"\b(?:clock|watch|timer|scor\w+)\b", re.IGNORECASE)
_COUNTS = re.compile(r"\bhow many (?!seconds|minutes)\b", re.IGNORECASE)
_OF_FRAMES = re.compile(
    r"\A\W{0,3}(?:across|in|over|throughout|from|among|based on|looking at)\s(?:all\s|the\s){0,2}"
    r"\d{1,4}\s(?:(?:video|sampled|provided|given|input)\s)?frames\b[^.,;:\d]{0,30},\s",
    re.IGNORECASE,
)
"""A beginning with the number of frames that the network saw: "Across the 32 frames, "."""
_ASKED_PART = re.compile(
    rf"\b(?P<number>{SMALL}|\d{{1,4}})\sof\s(?:which|whom|them|these|those)"
    r"(?P<said>\s(?:is|are|was|were|have|has|wears?)\s[^.;:,\d]{2,60}\.?\s*)\Z",
    re.IGNORECASE,
)
"""The end of a text that counts a part of its things: ", 4 of which are red."."""
_OF_IMAGE = frozenset("image picture photo video scene visible shown see seen".split())
_DENIES_PART = re.compile(r"(?i:\b(?:not|no|without|never|and|or|but)\b|n['’]t\b)")
_AT_MOST = re.compile(r"\bat most\s", re.IGNORECASE)
_AT_MOMENT = re.compile(
    r"\s(?:at|around|near)\s(?:(?:about|around|roughly|approximately)\s)?the\s"
    r"(?:\d[\d.]{0,6}[-\s]second|\d{1,2}:\d\d)\smark\b",
    re.IGNORECASE,
)
"""A moment beside a count: " at around the 3-second mark"."""
_SPAN = re.compile(r"\s?\((?:from )?((?:1[5-9]|20)\d\d)\s?(?:to|[-–])\s?((?:1[5-9]|20)\d\d)\)")
"""The years of a difference: "6 years (from 2010 to 2016)"."""
_DECADE = re.compile(r"\b(?:1[5-9]\d|20\d|[1-9])0['’]?s\b")
_ASKS_SECONDS = re.compile(
    r"\b(?:how long|seconds?|times?|moment|duration|lasts?|timestamp|interval)\b|秒"
    r"|\A\W*\Z",
    re.IGNORECASE,
)
"""Questions for which "30s" are seconds, and not an age or a decade."""
_BULLET = re.compile(r"^\s{0,6}[-–]\s(?=\d)", re.MULTILINE)
_HAN = "零一二两三四五六七八九"
_MEASURED = re.compile(
    rf"(?<![第几数好每其{_HAN}十百千万亿\d.])"
    rf"(?P<tens>[{_HAN[1:]}]?十)?(?P<ones>[{_HAN[1:]}])?"
    r"(?=[个個只隻把张張辆輛名位条條块棵朵匹头頭架艘座扇盏盞台颗顆])(?!\w半)"
)
"""A Chinese numeral below a hundred before a measure word: 七 of 七只."""
_LISTED = re.compile(r"(?<![\d.,])1((?:,\s?\d{1,2}){2,39})(?=[.:;\n])")
"""Things that are counted one by one: "1, 2, 3."."""
_COMPARED = re.compile(
    r",\s(?:(?:as )?compared (?:to|with)|(?:up|down) from|versus|vs\.?)\s[$€£]?"
    r"\d[\d.,]*\s?(?:%|percent|[a-z]{1,12})?(?: (?:in|for|of|on|at) [^,.;:()\n]{1,60}"
    r"| the (?:year|month|week|day) before)?(?=\W*(?:\Z|\n))",
    re.IGNORECASE,
)
"""The end of a response with a value that is compared: ", compared to 38% in the other"."""
_ASKS_BOTH = re.compile(
    r"\b(?:differ\w*|compar\w+|ratios?|chang\w+|increas\w+|decreas\w+|more|less|fewer|than|much"
    r"|gr[eo]w\w*|r[io]se\w*|fell|fall\w*|drop\w*|gap|from|previous|before|earlier|last|total|sum"
    r"|average|versus|both|between|vs)\b",
    re.IGNORECASE,
)
"""Words of questions that may ask for the compared value as well."""
_YEAR = r"(?:1[5-9]|20)\d\d"
_A_SINGLE = re.compile(r"(?<!\bnot )\ba single(?=\s[a-z])", re.IGNORECASE)
_IN_YEAR = re.compile(
    rf"(?:,\s)?\b(?:in|of|for|during) (?:the year )?({_YEAR})\b(?!\s?[-–—/%.,]\d)(?:,(?=\s))?"
    rf"|\s\(({_YEAR})\)|\A({_YEAR}):\s",
    re.IGNORECASE,
)
_ASKS_YEAR = re.compile(r"\b(?:which|what|whose) year\b|\b(?:year|date)s?\b", re.IGNORECASE)
_ASKS_WHEN = re.compile(
    r"\b(?:when|now|current\w*|today|latest|recent\w*|since|ago|between|from|change\w*|sum|total"
    r"|average|year|date)\b",
    re.IGNORECASE,
)
"""Words of questions for which the year of a value matters."""
_SAYS_YEAR = re.compile(
    rf"\bin (?:the year )?(?={_YEAR}\b(?!\s?(?:[-–—/%]|[.,]\d)))|\AIn (?={_YEAR}\W*\Z)"
)
_TWICE = re.compile(rf"\b({SMALL}|\d{{1,4}})\s\(({SMALL}|\d{{1,4}})\)", re.IGNORECASE)
"""A number in words and in digits: "five (5)"."""
_ASKS_TIMES = re.compile(r"\bhow (?:many times|long|many (?:second|minute|hour)s)\b", re.IGNORECASE)
_ASKS_HOW_OFTEN = re.compile(r"\bhow (?:many times|often)\b", re.IGNORECASE)
_TIMES_OF = {"once": 1, "twice": 2, "thrice": 3}
_ANY_OFTEN = re.compile(r"\b(?:once|twice|thrice|almost|nearly)\b", re.IGNORECASE)
_OFTEN = re.compile(
    r"(?<!\bat )\b(once|twice|thrice)\b"
    r"(?=\W*(?:\Z|[.,;!]|(?:in|during|over|throughout) the (?!first|second|last)|with\b))",
    re.IGNORECASE,
)
"""A number of times in one word, at the end of its clause: "jumps twice."."""
_VERBS = re.compile(
    r"(?<!\bthe )(?<!\bhis )(?<!\bher )\b(?!does\b)([a-z]{2,}?[a-z])(?:s|ed|es|ing)\b"
)
"""A verb with an ending, and its stem: "claps"."""
_TIMES = re.compile(
    rf"\sfor\s(?:about\s)?(?=\d[\d.]{{0,6}}\s(?:second|minute|hour))"
    rf"|(?<=[a-z][sd])\s(?=(?:\d{{1,4}}|{SMALL})\stimes)"
)
"""The place before "4 times" or "for 5 seconds" in a sentence."""


def respelt(text: str, question: str = "") -> str:
    """Return a text with digits for other spellings of numbers, without compared ones and years.

    >>> respelt("about two dozen"), respelt("2 and a half meters"), respelt("图中有七只鸟。")
    ('about 24', '2.5 meters', '图中有7只鸟。')
    >>> respelt("In 2016, 45% agreed, compared to 38% in 2015.", "What share agreed in 2016?")
    ' 45% agreed.'
    """
    if _DECADE.search(text) and not _ASKS_SECONDS.search(question):
        text = _DECADE.sub(NOT_KNOWN, text)
    if len(_BULLET.findall(text)) > 1:
        text = _BULLET.sub("", text)
    text = _A_SINGLE.sub("one", text)
    text = _DOZEN.sub(lambda match: f"{12 * _value(match[1]):g}", text)
    text = _HALF.sub(lambda match: f"{_value(match[1]) + 0.5:g}", text)
    text = _ONE_AND_A_HALF.sub(r"1.5 \1s", _HALF_A.sub("0.5 ", text))
    if "frame" not in question.casefold():
        text = _OF_FRAMES.sub("", text)
    if "maximum" in question.casefold():
        text = _AT_MOST.sub("", text)
    if _ASKS_MOMENT_IN_SECONDS.search(question) and not _SHOWN_TIME.search(text):
        text = _CLOCK.sub(lambda clock: f"{60 * int(clock[1]) + float(clock[2]):g} seconds", text)
    elif _COUNTS.search(question):
        text = _AT_MOMENT.sub("", text)
    counter = _HAS_COUNTER.search(text)
    if counter and (question.isascii() or (counter[2] or counter[4]) in question):
        text = counter[1] or counter[3]
    text = _SPAN.sub(_without_span, text)
    if (assumes := _ASSUMES.match(text)) and assumes["what"] in question.casefold():
        text = text[assumes.end() :]
    if not re.search(r"\d", text):
        text = _MEASURED.sub(_from_han, text)
    text = _TWICE.sub(_once, _of_asked_part(text, question))
    if _ASKS_HOW_OFTEN.search(question) and len(_ANY_OFTEN.findall(text)) == 1:
        text = _OFTEN.sub(lambda match: f"{_TIMES_OF[match[1].casefold()]} times", text)
    if _ASKS_TIMES.search(question):
        text = _TIMES.sub(lambda place: _joined(place, question), text)
    return _of_asked_year(_without_compared(_without_listed(text), question), question)


def _beginnings(text: str) -> set[str]:
    """Return the first four letters of the words of a text that are not function words."""
    words = re.findall(r"[a-z]{3,}", text.casefold())
    return {word[:4] for word in words if not (is_function_word(word) or word in _OF_IMAGE)}


def _of_asked_part(text: str, question: str) -> str:
    """Return the part "4 of which are red" of a text, if the question asks for it and no other.

    >>> _of_asked_part("There are 6 apples, 4 of which are red.", "How many red apples are there?")
    '4  are red.'
    """
    part = _ASKED_PART.search(text)
    if part is None or _DENIES_PART.search(f"{part['said']} {question}"):
        return text
    said, asked, before = map(_beginnings, (part["said"], question, text[: part.start()]))
    is_asked = (
        bool(said) and said - {"wear"} <= asked - before and asked <= said | before | {"wear"}
    )
    return part["number"] + " " + part["said"] if is_asked else text


def _value(words: str) -> float:
    """Return the number of "half a", of a word of `_DIGITS` or of digits."""
    lower = words.casefold()
    return 0.5 if lower == "half a" else float(_DIGITS.get(lower, 0) or lower)


def _joined(place: re.Match[str], question: str) -> str:
    """Return " = " for a place behind a verb of the question, else what is there."""
    sentence = re.split(r"[.!?;\n]", place.string[max(0, place.start() - 200) : place.start()])[
        -1
    ].casefold()
    stems = (verb[1] for verb in _VERBS.finditer(sentence))
    return " = " if any(stem[:4] in question.casefold() for stem in stems) else place[0]


def _once(twice: re.Match[str]) -> str:
    """Return the second of two equal numbers; both if they differ."""
    return twice[2] if len({number.value for number in numerals(twice[0])}) == 1 else twice[0]


def _without_span(span: re.Match[str]) -> str:
    """Return nothing for years in brackets if their difference is the first number before them."""
    first = next(numerals(span.string[: span.start()]), None)
    is_difference = first is not None and first.value == int(span[2]) - int(span[1])
    return "" if is_difference else span[0]


def _from_han(numeral: re.Match[str]) -> str:
    """Return the digits of a Chinese numeral below a hundred."""
    tens, ones = numeral["tens"], numeral["ones"]
    if not (tens or ones):
        return ""
    values = {char: max(place - (place > 2), 0) for place, char in enumerate(_HAN)}
    n_tens = 0 if not tens else 1 if len(tens) == 1 else values[tens[0]]
    return str(10 * n_tens + (values[ones] if ones else 0))


def _without_listed(text: str) -> str:
    """Return a text without the count "1, 2, 3." of things one by one, if 3 is its only number."""
    listed = _LISTED.search(text)
    if listed is None:
        return text
    rest = text[: listed.start()] + text[listed.end() :]
    counted = [1, *map(int, re.findall(r"\d+", listed[1]))]
    is_run = counted == list(range(1, len(counted) + 1))
    values = {number.value for number in numerals(rest)}
    is_all = values == {float(len(counted))} and not re.search(r"\bno\b", rest)
    return rest if is_run and is_all else text


def _without_compared(text: str, question: str) -> str:
    """Return a text without the value to which its end compares, unless that may be asked for."""
    compared = _COMPARED.search(text)
    if compared is None or _ASKS_BOTH.search(question):
        return text
    words = set(re.findall(r"\w{3,}", compared[0].casefold())) - {"the", "percent"}
    is_asked = not words.isdisjoint(re.findall(r"\w{3,}", question.casefold()))
    return text if is_asked else text[: compared.start()] + text[compared.end() :]


def _of_asked_year(text: str, question: str) -> str:
    """Return a text without "in 2016" if the question names 2016; a year that is asked is stated.

    >>> _of_asked_year("It was built in 1923.", "In which year was it built?")
    'It was built in = 1923.'
    """
    if _ASKS_YEAR.search(question):
        return _SAYS_YEAR.sub("in = ", text) if "year" in question.casefold() else text
    named = set(re.findall(rf"\b{_YEAR}\b", question))
    said = [year[1] or year[2] or year[3] for year in _IN_YEAR.finditer(text)]
    if not named and len(said) == 1 and not _ASKS_WHEN.search(question):
        named = set(said)
    rest = _IN_YEAR.sub(
        lambda year: "" if (year[1] or year[2] or year[3]) in named else year[0], text
    )
    return rest if any(numerals(rest)) else text
