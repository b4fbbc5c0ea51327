"""Regular expressions by which `letters` finds option letters that a text states or rejects.

`patterns` builds them for the letters of a question's options. A *mention* is a letter with its
marks ("**(B)**", "option B"); *several* are mentions joined by "and", "or" and the like.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from harness.stated.conditions import NO_ANSWER

_WORD = r"[^\W\u3000-\u9fff\uac00-\ud7af]"  # of a script with blanks between words


class Patterns(NamedTuple):
    """Patterns of texts that state or reject a letter of some options."""

    rejected: re.Pattern[str]
    """Mentions with their rejection: "not A", "option A is wrong"."""
    opening: re.Pattern[str]
    """Mentions that a text opens with: "B. ", "(B), "."""
    stated: re.Pattern[str]
    """A statement of the answer: "the answer is B", `\\boxed{B}`, `"answer": "B"`."""
    verdict: re.Pattern[str]
    """Mentions that are called right: "B is correct"."""
    line: re.Pattern[str]
    """A mention that is all of a line."""
    listed: re.Pattern[str]
    """A letter as the mark of a list: "A. "."""
    scored: re.Pattern[str]
    """A letter with its score: "A: 70%"."""
    letter: re.Pattern[str]
    """A letter that is not part of a word."""
    another: re.Pattern[str]
    """Words after a mention that add another letter: " or (C)"."""
    named: re.Pattern[str]
    """A letter in brackets: "(B)"."""


_BEFORE, _AFTER = r"(?:[*_`\"'(\[{$]{1,8}\s?){0,2}", r"[*_`\"')\]}$]{0,8}"  # marks around a letter
_KIND = r"(?i:(?:the\s+)?(?:options?|choices?|answers?|letters?)\s+)"
_NOUN = r"(?i:(?:the\s+)?(?:point|image|picture|photo|box|frame|figure|circle|view|option|choice))"
_WRONG = (
    r"(?i:(?:clearly |obviously |definitely |also |probably )?(?:(?:wrong|incorrect|false)(?:ly)?"
    r"|not|out|ruled out|eliminated|excluded|impossible|unlikely|invalid|mistaken|too|inaccurate"
    rf"|(?:the )?(?:least|worst)|(?:(?:an?|the|my|your) )?(?:\w+ ){{0,2}}{NO_ANSWER})\b)"
)
_IS_NOT = (
    r"(?i:(?:(?:isn|aren|wasn|weren|can|doesn|don|won|couldn|wouldn)['’]t|cannot|does not|do not)\b"
    r"(?:\s+(?:be\s+)?(?:right|correct|true|it\b|the\s+(?:\w+\s+)?(?:answer|option|choice)))?)"
)
ADVERBS = (
    r"(?i:,?\s+(?:\w+ly|also|still|just|too|then|thus|again|even|quite|however|at all|as well"
    r"|in (?:fact|turn)|on the other hand|of course)\b,?){0,3}"
)
_FAILS = (
    rf"(?:\s+(?:the|an?)(?:\s\w+){{1,3}}?)?{ADVERBS}\s+(?i:(?:(?:do|does|did|is|was|has|can|could|would|will|may|might|should)"
    rf"(?:n['’]t|{ADVERBS}\s+(?:not|never|neither|hardly|barely|scarcely))|cannot"
    r"|fail(?:s|ed)?|lack(?:s|ed)?|contradict(?:s|ed)?|conflicts|differs|deviates|misses|violates|ignores|omits"
    r"|(?:hardly|barely|scarcely)\s+\w+s|\w+(?:s|ches)\s+(?:neither|nothing|none|no"
    r"|(?:the )?(?:least|worst)|poorly|badly)"
    r"|(?:is|was|seems?|looks?|appears?|would be)(?:\s+to\s+be)?(?:\s+\w+ly)?\s+(?:an?\s+)?"
    r"(?:less|least|different|far|off|poor|missing|worse|in(?:consistent|compatible|valid)|bad"
    r"|un(?:likely|related|suitable)))\b)"
)
"""Verbs with which a letter's sentence says that its option is not the answer."""
# Words before a letter that reject it: "not ", "rather than ".
_REJECTS = (
    r"(?:(?i:\b(?:not|never|neither|nor|except|unlike|excluding|eliminat(?:e[sd]?|ing)"
    r"|rul(?:es?|ed|ing) out|reject(?:s|ed)?|rather than|instead of|as opposed to)|n['’]t)"
    r"(?i:\s+(?:be|to|that))?|不是|不选|不可能是|并非|排除)"
)
_INSTEAD = r"(?:\s*,?\s*(?i:but(?: rather)?|rather|it is|it['’]s)\b)?"
# Words after a letter that reject it: " is wrong", " can be ruled out", "不对".
_IS_REJECTED = (
    r"(?:[.,;]?\s*(?i:(?:but|and)\s+)?(?i:which|that|this|it)?['’]?\s*"
    rf"(?i:is|s|was|seems|looks)\s+{_WRONG}|{_IS_NOT}|(?i:can|could) be (?i:ruled|eliminated)"
    rf"|[:)–—-]\s*(?:{_WRONG}|(?i:no)\b)|,\s(?i:eliminated|excluded|ruled out)\b"
    rf"|\(\s*{_WRONG}\s*\)|[:–—-]?\s*[❌✗✘]|是错|不对|错误|有误|不正确|被?排除|以外|之外|[不没非无](?![错疑仅]|[是选]?\s*[A-Z])"
    rf"|{_FAILS}|\s?(?:では|じゃ)(?:ない|なく|ありません)|[은는이가]?\s?아니)"
)
FOREIGN_ANSWERS = (
    r"(?:antwort|réponse|respuesta(?: correcta)?|resposta(?: correta)?|risposta(?: corretta)?"
    r"|antwoord|cevap|yanıt|jawaban|odpowiedź|svar|đáp án|ответ|richtig(?=\sist\b))"
)
"""The word "answer" in other languages, in small letters."""
# Words before a letter that state it: "the answer is ", "I choose ", "答案是".
_SAYS = (
    # ans: B; the answer to the question is B
    r"(?:(?i:(?<![a-z])(?:ans|answer(?:\s(?:to|based on|for)\s(?:the|this|your)\s\w+"
    r"(?=\s(?:is|would|should)\b))?"
    # option number: B; choice B; my pick is B; the correct one is B
    r"|option(?: number)?|choice|selection|pick|correct(?:\s+\w+)?"
    # the most likely outcome is B
    r"|(?<=[Tt]he )most (?:likely|probable|plausible|suitable|appropriate|accurate|fitting)"
    r"\s(?!(?:wrong|error|mistake|distractor|trap|confusion)\b)\w+(?=\sis\b)"
    # the correct answer for this scene is B
    r"|(?:correct|right|best) (?:answer|option|choice)(?:(?!\bis\b)[^.:;,?!\n]){1,60}?"
    r"(?=\s(?:is|would be)\b)"
    # the best match is B; closest match: B; letter: B
    r"|best\s(?!distractor|trap|lure|decoy)\w+|closest match|letter(?=\s*(?:is|[:=]))"
    # die Antwort ist B; la réponse est B
    rf"|{FOREIGN_ANSWERS})\b[*_`]{{0,3}}"
    r"(?:\s*(?:is|was|should be|would be|must be|ist|est(?: la)?|es(?: la)?|é(?: a)?|è(?: la)?"
    r"|donc|also|jest|là|adalah|=|:)){0,2}"
    # the car is (B); it would be the option (B)
    r"|\b(?:is|would be)\b:?(?:\s(?:the\s)?(?:option|choice|image|picture|point|box|frame))?"
    r"(?=\s*[*_`]{0,3}\((?-i:[A-Z])\))"
    # it must be B; therefore, B
    r"|\b(?:it(?: is|['’]s| (?:must|should|has to) be)|so|therefore|thus|hence)\b,?"
    # best described by option B; best represented as (B)
    r"|(?<!not )(?<!not be )(?<!nnot be )(?<!n['’]t )(?<!n['’]t be )\b(?:best|most accurately) "
    r"(?:described|characteri[sz]ed|represented|captured|summari[sz]ed|explained|depicted)"
    r" (?:by|as)(?=\s*(?:[*_`]{0,3}\(|(?:the )?(?:option|choice)\b|[*_`]{0,3}(?-i:[A-Z])[.:)]))"
    # that leaves us with B.; we are left with only option B.
    r"|\b(?:(?:that|this|which) leaves(?: us)?(?: with)?|we (?:are|were) left with)(?: only)?"
    r"(?=\s(?:option |choice |answer )?[*_`(\"']{0,4}(?-i:[A-Z])[*_`)\"']{0,4}\s*(?:[.!:\n]|\Z))"
    # the only option left is B; the only one that remains is B
    r"|\bthe only (?:option|choice|one) (?:left|that (?:remains|is left)) is"
    # I choose B; we would go with B; I'm going with B
    r"|\b(?:i|we)(?:['’](?:d|ll|m)| would| will)?(?: \w+)?"
    r" (?:choose|chose|pick|select|go(?:ing)? with|say|guess|conclude)|\bi['’]m going with)"
    # only B fits; only option B matches
    r"|\b(?i:only)\s(?=(?i:option |choice )?[*_(]{0,3}[A-Z][*_)]{0,3}\s(?:matches|fits|works)\b)"
    # 最有可能的是 B; 最符合描述的是B。
    r"|最(?:有?可能|合适|适合|佳|恰当|符合)[^，。,.;；:\n不非没]{0,14}?[是为](?=\s*[*_(]{0,3}[A-Z][*_)]{0,3}(?:[\s.,。，]|\Z))"
    # 答案是 B; 应选 B; 正解は B; 정답은 B
    r"|(?:答案|应选|选择|选|正确的(?=是)|答(?=\s?:)|答え|正解|정답|답(?=\s?:))(?:\s*(?:应该|应)?(?:是|为|は|은|:)\s?:?)?(?:\s?选项)?"
    # 选项是 B; 选项 B; and not "选项B: …", which only names the option
    r"|选项(?:\s*(?:应该|应)?(?:是|为|は)"
    r"|\s?:?(?=[^\S\n]?[*_]{0,3}(?:\([A-Z]\)(?!\s?:)|[A-Z](?!\w|[*_]{0,3}\s?[:)])))))"
)
_NOT_RIGHT = (
    r"incorrect|inaccurate|invalid|inappropriate|wrong|false|mistaken|opposite|second|next|first"
    r"|third|last|another|other|rarely|seldom|sometimes|partially|partly|half|almost|nearly|hardly"
    r"|not|never|least|worst|bad|poor|weak|tempting|unlikely|unsuitable|initial|earlier|less|but|anything|nothing|no"
)
"""Words between "is" and "the answer" by which a letter is not, or not surely, the answer."""
# Words after a letter that call it right: "is correct".
_IS_RIGHT = (
    r"(?:(?i:(?:is|seems|looks|appears|would be)(?:\s+to\s+be)?)\s+"
    rf"(?i:(?:(?!(?:on|to|at|in|of|by|from|an?|{_NOT_RIGHT})\b)\w+\s+){{0,2}})"
    r"(?i:correct|best|true|(?:answer|option|choice)(?!\s*[(\"'*]{0,2}(?-i:[A-Z])\b)|right(?=\W*(?:\Z|[.,;:!\n)]"
    r"|(?:answer|option|choice|one|because|since|as|here)\b)))\b|\sfits best(?=\W*(?:\Z|[.!\n]))"
    r"|\sis (?:the )?most (?:likely|probable|appropriate|accurate|suitable|plausible)(?=\W*(?:\Z"
    r"|[.!\n]))|是正确|正确|是对的|\s?[がは](?:正解|正しい)(?=です|だ|\W|\Z)(?!です[がか]|では))"
)
_IS_ANY = r"(?i:is|are|was|were|do|does|has|have|can|cannot|shows?)\b"
_SCORED = r"[\"'*_)]{0,3}\s*[:=(–—-]?\s*\d[\d.]*\s?%?"


@lru_cache
def patterns(letters: str) -> Patterns:
    """Return the patterns for statements of some letters."""
    letter = rf"(?<!{_WORD})[{re.escape(letters)}](?!{_WORD})"
    single = rf"(?<!{_WORD}){_BEFORE}[{re.escape(letters)}](?!{_WORD}|['’]\w){_AFTER}"
    mention = rf"(?:{_KIND}?{single})"
    joint = (
        r"(?:,\s*(?:and|or)|,|/|&|、|或者?|还是|還是|或是|[和与及]"
        r"|\b(?:and|or|nor|und|oder|ou|et|y|o)\b)"
    )
    several = rf"{mention}(?:\s*{joint}\s*{mention}){{0,8}}"
    rejected = (
        rf"{_REJECTS}\s*{several}{_INSTEAD}"
        rf"|{mention}\s+{_NOUN}\s+{mention}\s*{_IS_REJECTED}"
        rf"|{several}\s*(?:(?i:are|were|seem|look)\s+{_WRONG}|{_IS_NOT})"
        rf"|{mention}\s*{_IS_REJECTED}"
    )
    stated = (
        rf"(?P<says>{_SAYS}\s*(?P<letters>{several})(?=(?P<next>.{{0,12}})))"
        rf"|\\boxed\s*\{{\s*(?P<boxed>{several})(?:[.:)][^{{}}]{{0,200}})?\}}"
        rf"|[\"'](?i:(?:(?:final|best|correct|selected|chosen|predicted)_?)?(?:answer|option|choice)|letter|prediction|result)[\"']\s*:\s*"
        rf"(?P<json>{several}|[\"'](?i:[{re.escape(letters)}])(?=[\"']))(?:(?<=[\"'}}\]])|(?=\s*(?:[,}}\]\"'\n.:)]|\Z)))"
    )
    opening = (
        rf"\s*(?P<letters>{several})"
        rf"(?:(?<=[*_)\]])\s|\s(?=\()|\s*[.:)](?![A-Za-z]\.)|、(?!\s?{letter})|\s*$"
        rf"|\s(?=(?i:(?:even )?though|although|because|since|whereas|rather than)\b)"
        rf"|\s*,\s(?!{letter})|\s*[-–—]\s|\n)"
    )
    return Patterns(
        rejected=re.compile(rejected),
        opening=re.compile(opening),
        stated=re.compile(stated),
        verdict=re.compile(rf"(?P<letters>{several})\s*{_IS_RIGHT}"),
        line=re.compile(
            r"^(?![^\S\n]{0,20}\(\w$)"  # cut off in a list
            rf"[^\S\n]{{0,20}}{_KIND}?({single})[.:)]{{0,4}}[^\S\n]{{0,20}}$",
            re.MULTILINE,
        ),
        listed=re.compile(
            rf"(?:^[^\S\n]{{0,20}}\(?|[.;,]\s)([{re.escape(letters)}])[.:)]\s", re.MULTILINE
        ),
        scored=re.compile(rf"({letter}){_SCORED}"),
        letter=re.compile(letter),
        named=re.compile(rf"\(({letter})\)"),
        another=re.compile(
            rf"[^.!?\n]{{0,80}}\b(?i:or|so (?:is|does))\b\s{_KIND}?[*(\"']{{0,3}}{letter}"
            rf"|(?:(?!{letter})[^.!?;:,\n]){{0,60}}?(?:,|,?\s(?i:and|as well as|plus|&))\s"
            rf"(?:\({letter}\)(?!\s{_IS_ANY})|{letter}\s?\()"
        ),
    )
