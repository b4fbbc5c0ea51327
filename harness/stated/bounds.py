"""Detection of words beside a number that leave it open: bounds, approximations, partial counts.

`is_left_open` is True unless the text after a number is of a known form: the end of the sentence,
or up to `NOUN` words for the counted things, followed by a preposition, a verb, or a comma and a
word that does not leave the number open. Any word can be among those for the counted things, so
words of bounds ("people minimum") are listed and looked for as well.
"""

import re

NOUN = 6
"""Most words for the counted things, before the first preposition, verb or comma."""
_END = re.compile(r"[.!?](?=\s|\Z)|[\n。！？|]")
_OPEN = re.compile(
    r"(?i:\A[-\s](?:some\b(?!\sof\b)|something\b)"
    r"|[-\s(,](?:(?<=[a-z]{3} )min|minimum|max(?:imum)?|tops"
    r"|plus|ish|shy|short|or so"
    r"|and (?:counting|then some|rising|growing|change|more|up|a bit|a little|that['’]s)"
    r"|upwards?|(?:or|if not|even|few|many|several|some) (?:more|fewer|less|above|over|beyond)"
    r"|more or less|at (?:the |a )?(?:very )?(?:least|most|minimum|maximum)"
    r"(?!\s(?:\d|an?\b|one|two|three))"
    r"|give or take|thereabouts|alone|minus|so far|(?:lower|upper) bound|(?:under|over)-?count"
    r"|(?:lower|upper|minimum|maximum|conservative|low|high|rough) (?:estimate|guess|limit|figure)"
    r"|(?:just|only) an? (?:guess|estimate)|ballpark|as an? (?:floor|ceiling|minimum|baseline)"
    r"|barring|with (?:\w+ )?(?:more|others)"
    r"|round(?:ed|ing)?(?: \w+)? (?:up|down|off|to|numbers?|figures?)"
    r"|(?:to the )?nearest|i['’]d (?:wager|bet)|(?:i )?(?:wager|bet))\b(?!\sside)"
    r"|\b(?:counting only|ignoring|disregarding|leaving (?:out|aside)|setting aside|omitting)\b"
    r"|\b(?:continues?|goes|extends?|keeps?)\s(?:on|outside|beyond|out|growing|going)\b"
    r"|\s(?:easily|possibly|potentially|maybe|perhaps|conservatively|presumably|supposedly)\b"
    r"|\s(?:just|only)(?=\s(?:in|on|at|from)\b|\W*\Z)"
    r"|\b(?:more|others?|some|additional|further|another)\b.{0,40}\b(?:hidden|may|might|could"
    r"|outside|not (?:visible|shown|seen))\b"
    r"|\b(?:may|might|could) (?:be|have been|well be|include)\b|\b(?:only|just) the\b"
    r"|\bplus (?:several|some|more|a|the|others)\b"
    r"|\b(?:uncertain|unsure|unclear|imprecise|inexact|not (?:sure|certain|exact))\b"
    r"|\b(?:hard|difficult|impossible|tough) to (?:tell|count|see|say|be|know)\b)"
    r"|(?i:[-–\s]odd\b(?!\s(?:functions?|numbers?|integers?|ones?|digits?|values?|terms?|vertices"
    r"|degrees?|natural|prime|positive|whole)\b))"
    r"|(?i:\A\s\w+\s(?:et|y|e|und|en|i)\s(?:un[ea]?\s)?(?:demie?|medi[oa]|mezz[oa]|meia|hal\w+)\b)"
)
"""Words in the rest of a sentence that leave its number open."""
# Words that may follow those for the counted things: "3 chairs near the door".
_LINKS = (
    r"(?i:in|on|at|of|to|from|with|without|for|by|between|among|per|than|that|which|who|whose|whom"
    r"|where|when|while|is|are|was|were|be|has|have|had|do|does|did|can|will|would|left|because"
    r"|since|as|if|and|or|but|not|so|after|before|during|through|within|under|over|above|below"
    r"|behind|near|next|beside|inside|outside|across|around|along|against|like|these|those|the|this"
    r"|according|including|\w+ing|\w+ed)"
)
# Words that may follow a comma after the number: "3 chairs, all of them red".
_GOES_ON = (
    r"(?i:which|who|whose|whom|where|when|while|with|as|after|before|so|because|since|including|all"
    r"|each|both|none|neither|some|most|many|half|another|the|this|these|that|they"
    r"|it|he|she|i (?:think|believe|guess|see|count(?:ed)?)|there|here|his|her"
    r"|its|their|not|no|in|on|at|of|from|to|by|per|or|but"
    r"|and \d{1,3} [^\W\d_]{1,20}\W*\Z|and (?:they|it|he|she|all|both|each|none|no|the|not|one|two)"
    r"|i\.e|e\.g|namely|respectively|for|if|than|based|indicating|making|giving|according"
    r"|thus|hence|therefore|then|also|exactly|total(?:l?ing)?|assuming|using|compared|rather|instead"
    r"|left|right|about|approximately|roughly|around|one|two|three|four|five|six|twice"
    r"|\w+ing|\w+ed)\b|其中|[A-Z\"“]"
)
_WORD = r"(?:[^\W\d_]+(?:['’-][^\W\d_]+)*)"
_KNOWN = re.compile(
    rf"[^\w,—–]*(?:{_WORD}[^\w,—–]+){{0,{NOUN}}}?"
    rf"(?:{_WORD}?\W*\Z|{_LINKS}\b|[^,—–]*[\d_:;(\[{{]|{_WORD}?[^\w]*[,—–][^\w(]*(?:{_GOES_ON}|[\d(]|\Z))"
)
_OF_PART = re.compile(r"(?i:\W*(?:only|just)\s(?:the|in|on|at)\b[^.:]*:\s*)")
"""Words before a number that restrict it to a part: "Only on the left: "."""


def is_left_open(before: str, rest: str) -> bool:
    """Return True if the words beside a number say, or may say, that it is not the exact total.

    Args:
        before: The number's sentence up to it.
        rest: The text after it.

    >>> rests = "-odd people", " people, possibly more", " people minimum", " people, sadly"
    >>> [is_left_open("", rest) for rest in rests]
    [True, True, True, True]
    >>> [is_left_open("", rest) for rest in (" odd functions", " men, all seated", " brown dogs.")]
    [False, False, False]
    """
    sentence = _END.split(rest[:200], maxsplit=1)[0]
    return (
        _OPEN.search(sentence) is not None
        or _KNOWN.match(sentence) is None
        or _OF_PART.fullmatch(before) is not None
    )
