"""Detection of answers "yes" or "no" whose sentence says the opposite.

"Yes, the image lacks a dog." does not answer "Is there a dog?"; graders of yes-no answers call
`says_opposite` after they read the word.
"""

import math
import re
from collections.abc import Mapping, Sequence

from harness.stated.kinds_of_things import (
    are_of_kind,
    are_other_qualities,
    are_other_things,
    is_likeness,
    is_person,
    is_wider,
)
from harness.stated.languages import is_foreign
from harness.stated.numerals import numerals
from harness.stated.presence import ASKS_THERE, IS_THERE, MAX_SENTENCE, THERE, names, present
from harness.stated.refusals import denied_after, denies

_FIRST = re.compile(
    r"\W*(?i:(?:the )?(?:final )?answer(?: is)?\W+)?(?:[AB]\b\W+)?(?i:yes|no)\b"
    r"[\s,.:;!*—–-]{0,6}(?P<said>[^.!?\n]{0,300})"
)
_ABSENT = re.compile(
    r"\b(?:lack(?:s|ing|ed)?|devoid|zero|hardly|barely|scarcely|absent|absence|missing|nowhere|unable"
    r"|can ?not (?:see|find|tell|make out|view)|can['’]t (?:see|find|tell|make out|view)"
    r"|free (?:of|from)|nothing but"
    r"|(?:image|picture|photo|frame|scene|room|video|screen|page) (?:is|was|appears|looks|seems)"
    r" (?:\w+ )?(?:blank|empty|black)"
    r"|an? (?:\w+ )?(?:blank|empty) (?:\w+ )?(?:image|picture|photo|frame|scene|room|video|screen"
    r"|page))\b"
)
"""Words that say, after "yes", that something is not there, or that nothing is seen."""
_NOT_NONE = re.compile(
    r"\b(?:(?:not|n['’]t) (?:true|correct|right|the case)|false) that\b"
    r"[^.]*\b(?:no|not|none|nothing|lacks?|absent|missing)\b"
)
_PLACED = re.compile(
    r"e?s?(?:\W*\Z|[,;]|\s(?:in|on|at|to|near|next|behind|under|with|that|which|lying|sitting|standing"
    r"|visible)\b)"
)
"""Continuations of the name of a thing that is there: its plural, a place, the end."""
_CLAUSES = re.compile(r"[,;:—–]|\b(?:but|while|whereas|because|since|although|though)\b")
_PLACED_NAME = re.compile(
    r"\bthe ((?:\w+ ){1,3})(?:on|at|in) the "
    r"(left|right|top|bottom|middle|front|back|cent(?:er|re))\b"
)
"""A thing and its place, "the grey box on the right"; `the right grey box` says the same."""
_TO_THE = re.compile(r"\b(?:(?:standing|sitting|located) )?(?:to|on) the (?=(?:left|right) of\b)")
_INVERTED = frozenset(
    "a an the any is are was were be does do did has have had can could will would it indeed also"
    " still actually clearly really then so side hand wide fully completely".split()
)
"""Words that a question and its restatement have in other places, or one of them has not."""
_VERB_ENDING = re.compile(r"(?<=ss|sh|ch)es\Z|(?<!s)s\Z")
_IT_IS = re.compile(
    r"(?:it|he|she|they|there|this|that|these|those) "
    r"(?:is|are|was|were|does|do|did|has|have|can|will)"
)
"""A whole clause that affirms any question."""
_COMPARES = re.compile(r"\b(?:more|less|fewer|than|least|most|over|or)\b")
_ONE_CLAUSE = re.compile(r"[^.!?\n,;:—–]+[.!]?")
_ASKS = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|will)(?:n['’]t)?\b")
_OPEN = re.compile(r"\b(?:or|all|every|each|both|only|always|most|not)\b|n['’]t\b")
"""Words of questions to which a sentence with "not" may be no answer."""
_MAY = re.compile(r"\b(?:can|could|would|will|may|might|should)\b")
_NOT = re.compile(r"\b(?:not|no)\b|n['’]t\b")
_CONCLUDES = r"(?:so|thus|hence|therefore|consequently|in (?:conclusion|summary|short))\b[,:]?"
_CONCLUSION = re.compile(
    rf"(?:\A|[.!?:][\"'”’*)]{{0,4}}\s+|,\s(?=\w+ (?:yes|no)\W*\Z)|\n\s{{0,9}})[*_\"“]{{0,3}}"
    rf"{_CONCLUDES}\s{{1,9}}"
    r"(?:the answer is[:,]?\s{1,9})?[*_\"“]{0,3}(?P<said>yes|no)\b[*_\"”]{0,3}"
    r"(?P<rest>(?:(?:\s?[—–-]\s|[,;:—–])(?:[^.!?\n]|\.\d)*)?[.!]?[\"'”’*)]{0,4})\Z",
    re.IGNORECASE,
)
"""A last sentence that begins as a conclusion and has yes or no as its first word."""
_RESERVES = re.compile(
    r"\b(?:but|however|(?:al)?though|unless|if|wait|actually|maybe|perhaps|rather|except|sorry"
    r"|correction|un(?:sure|certain|clear)|not (?:sure|certain|clear)|can ?not tell|can['’]t tell)"
    r"\b",
    re.IGNORECASE,
)
"""Words by which the rest of a conclusion takes its yes or no back."""
_SAID = re.compile(
    rf"(?:\A|[.!?:\n]|\banswer(?: is)?|\b{_CONCLUDES})\W{{0,9}}(?P<said>yes|no)\b"
    r"(?=\W{0,9}(?:[,.!;:—–\n]|\Z))",
    re.IGNORECASE,
)
"""A yes or no by which an earlier sentence answers."""
_YES = re.compile(
    r"\W*(?:sí|sì|sim|oui|ja|да|是的?|对的?|有的?|はい|네)(?:[,.!，。！、]|\s*\Z)",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\W*(?:nein|non?|não|nee|нет|不是的?|不对|没有?|否|无|いいえ|아니요|아니오)(?:[,.!，。！、]|\s*\Z)",
    re.IGNORECASE,
)
_NEVER = re.compile(
    r"\b(?:nein|nichts|niemand|niemals|nunca|jamais|aucune?|rien|ning[uú]n[oa]?|nad(?:a|ie)"
    r"|nessun[oa]?|niente|nenhuma?|ninguém|nem|nooit|niets|никогда|ничего|никто|никак\w*)\b"
    r"|いいえ|ません|(?<!違い)(?<![危少汚幼切])ない|なし|아니|않|없",
    re.IGNORECASE,
)
"""Words that deny, beside those of `denied_after`."""
_THERE_IS = re.compile(
    r"\W*(?:(?:da ist|es gibt|hay|il y a|c['’]è|há|есть)\b(?:\s(?:ein\w*|une?|una|um|uma))?"
    r"|(?:图中)?有(?:[一两]\w)?)\s?(?P<what>\w*)"
    r"|\W*(?P<thing>[^.,。]{1,12})(?:がい|があ|가 있|есть)",
    re.IGNORECASE,
)
_NO_DOUBT = re.compile(
    r"(?:\w+ ){0,2}\b(?:doute|dud[ao]|dubbio|dúvida|zweifel|twijfel|сомнени\w+)\b"
    r"(?: (?:alguna|ningun[ao]|alguma|nenhuma))?",
    re.IGNORECASE,
)
"""Words of certainty: "sans aucun doute"."""
_BUT = re.compile(
    r"\b(?:aber|mais|mas|pero|ma|но|maar)\b|(?:\A|[,;.–—])\s*doch\b|但|でも|[?？]", re.IGNORECASE
)
_OPPOSITES: Mapping[str, frozenset[str]] = {
    left: frozenset(rights.split())
    for left, rights in (
        ("left", "right"),
        ("above", "below under"),
        ("over", "under"),
        ("infront", "behind"),
        ("inside", "outside"),
        ("indoors", "outdoors"),
        ("on", "off"),
        ("open", "closed shut"),
        ("opened", "closed shut"),
        ("larger", "smaller same equal"),
        ("bigger", "smaller same equal"),
        ("taller", "shorter"),
        ("longer", "shorter"),
        ("higher", "lower"),
        ("wider", "narrower"),
        ("older", "younger"),
        ("closer", "farther further"),
        ("nearer", "farther further"),
        ("faster", "slower"),
        ("heavier", "lighter"),
        ("more", "fewer less"),
        ("before", "after"),
        ("same", "different"),
        ("asleep", "awake"),
        ("full", "empty"),
    )
}
_FRONT = re.compile(r"\bin front of\b")
_NOBODY = re.compile(r"\b(?:no one|no-one|nobody)\b")
_NOT_SO = re.compile(
    r"(?:i (?:do not|don['’]t) (?:think|believe)(?: that)?|it (?:(?:is|['’]s)"
    r" (?:not (?:the case|true|correct|right)|false|untrue|incorrect)"
    r"|isn['’]t (?:the case|true|correct|right)) that)\s"
)
"""Words that deny the whole sentence after them: "it is not the case that"."""
_IS = re.compile(r"\b(it|he|she|that|there|they|this)['’](?:s|re)\b")
_OF_THING = re.compile(
    r"(?:(?:(?:it|this) is|only|the (?:only \w+|animal|object|vehicle|person) is|there (?:is|are)"
    r"|(?:i|you|we) (?:can )?see|the (?:image|picture|photo|video) shows)\s)?(?:only\s)?"
    r"(?:an?|some|several|two|three|\d+)\s"
    r"(?P<what>(?!(?:behind|in|on|at|near|under|of|with|by|beside|next)\b)(?:\w+\s){0,2}"
    r"(?!(?!build|str)\w{3,}ing\b)\w+?)"
    r"(?:\s(?:in|on) (?:the|this) (?:image|picture|photo|video)|\s[a-z]{3,}ing\b.*"
    r"|(?P<where>\s(?:in|on|at|under|near|behind|beside|by|next to)\s.*))?"
)
"""A clause that only names what is there: "there is a cat"."""
_OF_SUBJECT = re.compile(r"(?:the|an?) (\w+) (?:is|are) (.+)")
_OBJECT = re.compile(
    r"\b(?:(?P<verb>[a-z]{3,}ing)|is (?:this|it|that)|(?:this|it|that) is)"
    r" an? (?:\w+ ){0,2}?(?P<what>\w+)\s?(?:\?|\Z)"
)
"""The end of a question or a clause with what someone holds, or something is: "is it a bus?"."""
_PLACE = re.compile(r"\s(?:on|in|at|near|next|behind|under|by|beside)\s")
_PRONOUN = re.compile(r"(?:he|she|it|they)\s")
_SUBJECT = re.compile(
    r"(?:is|was|does|did|has|can|will|(?P<several>are|were|do|have))"
    r" (?:the|an?|this|that|these|those) (?P<noun>\w+)"
)
"""The beginning of a question with its subject: "are the dogs"."""
_LEAD = re.compile(
    r"\A[\s*_\"]*(?:(?:hmm+|well|ok(?:ay)?)[,.]?\s"
    r"|(?:based on|in|from|looking at|according to|judging (?:by|from)) (?:the|this)"
    r" (?:\w+ )?(?:image|picture|photo|video|scene|frame|clip)"
    r"(?: (?:provided|shown|given|above))?,\s"
    r"|to answer (?:the|your|this) question[,:]\s"
    r"|(?:you asked|the question (?:is|asks)|the user asks) (?:whether|if|about)"
    r" [^.:?!\n]{1,120}[.:]\s"
    r"|i(?: (?:think|believe|guess)|(?: would|['’]d) say)(?: that)?(?: the answer is)?[,:]?\s)+"
    r"(?=[*_\"]*(?:yes|no)\b(?:\W*\Z|[*_\"]*[,.;:!—–]|\si (?:think|believe) so\b))",
    re.IGNORECASE,
)
"""Words before the yes or no of a response: "Based on the image, yes, …", "I think no."."""
_APPEARS = re.compile(r"\b(?:appears?|seems?) to be ", re.IGNORECASE)
_PLACED_AT = re.compile(
    r"\b(is|are) (?:positioned|located|situated|placed)"
    r"(?= (?:to|on|in|at|above|below|under|behind)\b)",
    re.IGNORECASE,
)
_APPEARS_NOT = re.compile(r"\b(?:does not|do not|doesn['’]t|don['’]t) (?:appear|seem) to be ", re.I)
_HIDDEN = re.compile(
    r"\A(yes|no), (?:even )?(?:al)?though (?:it|he|she|they)(?:['’]s|['’]re| is| are) (?:\w+ly )?"
    r"(?:hidden|small|blurry|blurred|occluded|visible|dark|faint|cut off|far away|obscured)"
    r"(?: [^,.;!?]{1,40})?, ",
    re.IGNORECASE,
)
"""A concession between the first word and its sentence: "Yes, although it's small, "."""
_QUOTED = re.compile(
    r"(?<=\w)(\s(?:that )?(?:reads|says|with the text)):?\s"
    r"(?:\"[^\"\n]+\"|'[^\n]+'|“[^”\n]+”)"
)
"""Words that quote a text of the image, which may hold any word."""
_SLANG = (
    (re.compile(r"\A[\s*_\"]*(?:yep|yup|yeah)\b(?!\W*(?:right|no|sure|but)\b)", re.I), "Yes"),
    (re.compile(r"\A[\s*_\"]*(?:nope|nah|not quite)\b", re.I), "No"),
    (re.compile(r"\A\W*(?:indeed|absolutely|certainly)\W*\Z", re.I), "Yes"),
    (re.compile(r"\A[\s*_\"]*(?:indeed|absolutely|certainly)[,.!]\s", re.I), ""),
    (re.compile(r"\ANot in (?:this|the) (?:image|picture|photo)(?=\s?[,.–—-])", re.I), "No"),
)
_SHORT = re.compile(
    r"\A\W*(?:(?P<yes>yes),? (?:it|he|she|they|there)(?:['’]s|['’]re| (?:is|are|was|were|does|do"
    r"|did"
    r"|has|have|can))|(?P<no>no),? (?:it|he|she|they|there)(?:['’]s not|['’]re not"
    r"| (?:is|are|was|were|does|do|did|has|have|can)(?: not|n['’]t)))\W*\Z",
    re.IGNORECASE,
)
"""A whole response "yes it is" or "no he isn't"."""
_THINKS_SO = re.compile(r"\A(yes),? i (?:think|believe) so\W*\Z", re.IGNORECASE)
_NONE_ON = re.compile(r"\swith no ([a-z]+) on(?=[.!]|\Z)", re.IGNORECASE)
_BUT_THERE = re.compile(
    rf"\A[\s*_]*no,? but (?=(?:{THERE.pattern})\Z)(?!.*(?:[.!?]\s|\b(?:yes|not?|may|might|could"
    r"|maybe|perhaps|possibl\w+|probabl\w+|if|unless)\b|n['’]t\b))",
    re.IGNORECASE,
)
"""The beginning of "No, but there is a cat."."""


def plainly(text: str, question: str = "") -> str:
    """Return a response with its yes or no as its first word, where only known words are before it.

    >>> plainly("Based on the image, no."), plainly("Nope."), plainly("Yeah, right.")
    ('no.', 'No.', 'Yeah, right.')
    >>> plainly("No, but there is a cat."), plainly("No, but there may be a dog.")
    ('No, there is a cat.', 'No, but there may be a dog.')
    """
    text = _APPEARS.sub("is ", _APPEARS_NOT.sub("is not ", _LEAD.sub("", text)))
    text = _PLACED_AT.sub(r"\1", text)
    text = _HIDDEN.sub(r"\1, ", text)
    text = _QUOTED.sub(r"\1 that", text) if re.match(r"\W*yes\b", text, re.IGNORECASE) else text
    if (none := _NONE_ON.search(text)) and none[1].casefold() not in question.casefold():
        text = text[: none.start()] + text[none.end() :]
    for pattern, word in _SLANG:
        text = pattern.sub(word, text)
    text = _SHORT.sub(lambda short: short["yes"] or short["no"], text)
    return _THINKS_SO.sub(r"\1", _BUT_THERE.sub("No, ", text))


def restated(text: str, question: str) -> str | None:
    """Return "no" for a sentence that is the question with one "not", "yes" without it; else None.

    A sentence is denied as well by "it is not the case that", or by the opposite of one word.

    >>> [restated(f"The man {said} a hat.", "Does the man wear a hat?")
    ...  for said in ("wears", "does not wear", "does not wear his hat, but")]
    ['yes', 'no', None]
    >>> restated("The cup is above the plate.", "Is the cup below the plate?")
    'no'
    """
    if len(text) > MAX_SENTENCE:
        return None
    sentence, (head, mark, _) = text.strip().casefold(), question.casefold().rpartition("?")
    asked = re.split(r"[.!?\n]", head)[-1].strip()
    if denial := _NOT_SO.match(sentence):
        denied = sentence[denial.end() :]
        if _NOT_SO.match(denied):
            return None
        said = restated(denied, question) or present(denied, question)
        return "no" if said == "yes" else None
    sentence = _NOBODY.sub("no anyone", sentence)
    # The question again, with or without its mark; a name may be such a word: "Will is here."
    is_name = re.match("will|can", sentence) and sentence[:2] != asked[:2]
    is_question = _ASKS.match(sentence) and not is_name
    if is_question or not (mark and _ASKS.match(asked) and _ONE_CLAUSE.fullmatch(sentence)):
        return None
    said, n_denied = _NOT.subn("", sentence)
    differs = set(_MAY.findall(sentence)) != set(_MAY.findall(asked))
    if _OPEN.search(asked) or n_denied > 1 or differs:
        return None
    words, wanted = _in_order(said), _in_order(asked)
    is_quality = len(words) == len(wanted) > 1 and words[:-1] == wanted[:-1]
    if not n_denied and is_quality and are_other_qualities(sentence.strip(" ."), asked):
        return "no"
    if not n_denied and _are_opposite(words, wanted):
        return "no"
    if words != wanted and not _restates_of_pronoun(said, asked):
        return None
    return "no" if n_denied else "yes"


def _restates_of_pronoun(said: str, asked: str) -> bool:
    """Return True if a sentence says all of a question's words, with the subject's pronoun."""
    pronoun, subject = _PRONOUN.match(said), _SUBJECT.match(asked)
    if pronoun is None or subject is None:
        return False
    words, noun = _in_order(said[pronoun.end() :]), subject["noun"]
    fits = {
        "they ": bool(subject["several"]),
        "he ": noun in ("man", "boy", "guy", "father", "gentleman"),
        "she ": noun in ("woman", "girl", "lady", "mother"),
        "it ": not (subject["several"] or is_person(noun)),
    }
    return bool(words) and _in_order(asked)[1:] == words and fits[pronoun[0]]


def concluded_yes_no(text: str, question: str) -> str | None:
    """Return "yes" or "no" that begins the conclusion in a text's last sentence; else None.

    >>> asked = "Is there a dog?"
    >>> [concluded_yes_no(f"I see a tail. {last}", asked)
    ...  for last in ("So yes, a dog is there.", "Therefore, no.", "So yes, but it is a toy.")]
    ['yes', 'no', None]
    """
    last = _CONCLUSION.search(text.strip())
    if last is None or _RESERVES.search(last["rest"]):
        return None
    said, rest = last["said"].lower(), last["rest"].casefold()
    others = {match["said"].lower() for match in _SAID.finditer(text.strip()[: last.start("said")])}
    takes_back = denied_after(rest, whole=True) if said == "yes" else re.search(r"\byes\b", rest)
    if others - {said} or takes_back or says_opposite(said, said + rest, question):
        return None
    return said


def foreign_yes_no(text: str, question: str = "") -> str | None:
    """Return "yes" or "no" for a response in another language that begins with it; else None.

    "No, there is …" may name the thing of the question, unless this has the same language.

    >>> [foreign_yes_no(text) for text in ("Sí, hay un perro.", "Nein.", "Ja, aber nicht hier.")]
    ['yes', 'no', None]
    """
    if re.match(r"\W*no\b", text, re.IGNORECASE) and not is_foreign(text):
        return None
    for said, pattern in (("yes", _YES), ("no", _NO)):
        first = pattern.match(text)
        rest = text[first.end() :] if first else ""
        if first and not _BUT.search(rest):
            never = _NEVER.search(_NO_DOUBT.sub(" ", rest))
            denies_yes = denied_after(rest, whole=True) or never is not None
            affirms = any(map(_YES.fullmatch, re.split(r"[.,;:!。，！、\n]", rest)))
            if (there := _THERE_IS.match(rest)) and not denies_yes:
                thing = (there["what"] or (there["thing"] or "").strip()[-4:])[:4].casefold()
                thing = thing[:1] if re.match("[一-鿿]", thing) else thing
                is_asked = question.isascii() and not is_foreign(question)
                is_asked |= thing in question.casefold()
                is_asked |= said == "yes" and are_of_kind(rest, question)
                affirms, denies_yes = affirms or is_asked, not is_asked
            return None if (denies_yes if said == "yes" else affirms) else said
    return None


def says_opposite(said: str, text: str, question: str) -> bool:
    """Return True if the sentence behind a yes or no says the opposite of it.

    Args:
        said: "yes" or "no", which the text states.
        text: The response.
        question: The question: words of absence in it ("Is it empty?") do not count.

    >>> asked = "Is there a dog in the image?"
    >>> says_opposite("yes", "Yes, the image lacks a dog.", asked)
    True
    >>> [says_opposite("no", f"No, there is a {name}.", asked) for name in ("dog", "cat")]
    [True, False]
    >>> asked = "Is the right box smaller than the left box?"
    >>> [says_opposite("no", f"No, the box on the {it}.", asked)
    ...  for it in ("right is smaller than the left box", "left is smaller than the right box")]
    [True, False]
    """
    first, asked = _FIRST.match(text), question.casefold()
    if first is None:
        return False
    if is_foreign(first["said"]):
        return foreign_yes_no(text, question) != said
    sentence = _IS.sub(r"\1 is", first["said"].casefold().strip())
    clause = _CLAUSES.split(sentence)[0]
    if _has_opposite(clause, asked) and (said == "no") == denies(clause):
        return True
    later = re.split(r"(?<=[.!?])\s+", text.strip())[1:]
    if any((present(it, question) or restated(it, question) or said) != said for it in later):
        return True
    if said == "no" and (_restates(sentence, asked) or present(clause, question) == "yes"):
        return True
    if said == "yes" and _says_another_order(sentence, asked):
        return True
    if said == "yes":
        if _is_of_another(clause, text.casefold(), asked) or are_other_qualities(clause, asked):
            return True
        if THERE.match(clause) and _other_number(clause, asked) and not _COMPARES.search(asked):
            return True
        return any(absent[0] not in asked for absent in _ABSENT.finditer(sentence))
    there = THERE.match(sentence) or IS_THERE.match(sentence)
    asks = None if " than " in asked else ASKS_THERE.search(asked)
    if asks and [clause.removeprefix("the ").split(" is ")[0]] == names(asks["what"]):
        return not denies(clause)
    if there and asks and not denies(sentence) and not _other_number(sentence, asked):
        here, what = names(there["what"]), names(asks["what"])
        if len(here) == len(what) == 1 and is_wider(*what, *here):
            return True
        if not here or here[:1] != what[:1]:
            return False
        goes_on = _PLACED.match(there["what"], there["what"].index(here[0]) + len(here[0]))
        return set(here) <= set(what) or (set(what) <= set(here) and goes_on is not None)
    return _NOT_NONE.search(sentence) is not None


def _other_number(sentence: str, asked: str) -> bool:
    """Return True if a sentence has numbers, and other ones than the question."""
    stated, wanted = ({number.value for number in numerals(text)} for text in (sentence, asked))
    stated = {value for value in stated if math.isfinite(value)}  # "two dogs and a cat"
    return bool(stated and wanted and stated != wanted)


def _restates(sentence: str, asked: str) -> bool:
    """Return True if a clause of a sentence is the question without its inversion.

    The clause has the same words in the same order, except those of `_INVERTED`: any other word
    may change what it says. "It is" restates every question.
    """
    text, mark, _ = asked.rpartition("?")
    question = re.split(r"[.!?\n]", text)[-1].strip() if mark else asked
    if denies(question):
        return False
    wanted = _in_order(question)
    clauses = [clause.strip() for clause in _CLAUSES.split(sentence)]
    return any(
        _IT_IS.fullmatch(clause) is not None
        or _in_order(clause) == wanted != []
        or _is_swapped_opposite(_in_order(clause), wanted)
        or _is_of_pronoun(clause, wanted)
        or ("than" in wanted and _in_order(clause) == wanted[: wanted.index("than")])
        for clause in clauses
        if clause and not denies(clause)
    )


def _is_of_pronoun(clause: str, wanted: Sequence[str]) -> bool:
    """Return True if a clause about "he" or "it" says the rest of a question's words."""
    pronoun = _PRONOUN.match(clause)
    words = _in_order(clause[pronoun.end() :]) if pronoun else []
    return 0 < len(words) < len(wanted) and list(wanted[-len(words) :]) == words


def _says_another_order(sentence: str, asked: str) -> bool:
    """Return True if a clause after "yes" has a question's words, but an opposite or two swapped.

    Words are swapped only beside one that has an opposite: "the plate is left of the cup".
    """
    text, mark, _ = asked.rpartition("?")
    wanted = _in_order(re.split(r"[.!?\n]", text)[-1].strip() if mark else asked)
    clauses = [_in_order(clause.strip()) for clause in _CLAUSES.split(sentence)]
    has_relation = any(_opposites_of(word) for word in wanted)
    return any(
        _are_opposite(words, wanted) or (has_relation and _is_swapped(words, wanted))
        for words in clauses
    )


def _is_of_another(clause: str, text: str, asked: str) -> bool:
    """Return True if a clause names only another thing, or says of another what is asked."""
    asks, does = _OBJECT.search(asked), _OBJECT.search(clause)
    if asks and does and asks["verb"] == does["verb"] and asks["what"] not in text:
        return are_other_things(does["what"], asks["what"])
    thing, there = _OF_THING.fullmatch(clause), ASKS_THERE.search(asked)
    if thing and (there or not thing["where"]):
        wanted = _PLACE.split(there["what"])[0] if there else asked
        if is_likeness(thing["what"], asked):
            return True
        return are_other_things(("" if denies(text) else text) + " " + thing["what"], wanted)
    says = _OF_SUBJECT.fullmatch(clause)
    if says is None or not set(_in_order(says[2])) <= set(_in_order(asked)):
        return False
    subject = re.match(r"\W*(?:is|are) (?:the|an?|this|that) (\w+)", asked)
    are_people = subject and is_person(subject[1]) and is_person(says[1])
    return not are_people and are_other_things(says[1], asked)


def _has_opposite(clause: str, asked: str) -> bool:
    """Return True if a clause says of a question's subject the opposite of one of its words."""
    words, wanted = _in_order(clause), _in_order(asked)
    is_pronoun = clause.startswith("they ") or (clause.startswith("it ") and "than" not in wanted)
    if not (is_pronoun or (words and words[:1] == wanted[:1])):
        return False
    if "than" in wanted:
        left, right = wanted[: wanted.index("than")], wanted[wanted.index("than") :]
        if set(right) & set(words) and not (set(left) - {"there"}) & set(words):
            return False
    opposites = (_opposites_of(word).intersection(wanted) for word in set(words) - set(wanted))
    return any(opposite and opposite.isdisjoint(words) for opposite in opposites)


def _opposites_of(word: str) -> frozenset[str]:
    """Return the words that say the opposite of a word."""
    lefts = (left for left, rights in _OPPOSITES.items() if word in rights)
    return _OPPOSITES.get(word, frozenset()) | frozenset(lefts)


def _is_swapped_opposite(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return True if words say what a question does by an opposite, with two others swapped."""
    replaced = [
        next((other for other in wanted if other in _opposites_of(word)), word) for word in words
    ]
    return replaced != list(words) and _is_swapped(replaced, wanted)


def _are_opposite(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return True if words are those of a question, but one that is its opposite."""
    pairs = [pair for pair in zip(words, wanted, strict=False) if pair[0] != pair[1]]
    return (
        len(words) == len(wanted) and len(pairs) == 1 and pairs[0][0] in _opposites_of(pairs[0][1])
    )


def _is_swapped(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return True if words are those of a question in another order."""
    return list(words) != list(wanted) and sorted(words) == sorted(wanted)


def _in_order(text: str) -> list[str]:
    """Return the words of a text without those of `_INVERTED` and the ending of "opens"."""
    text = _TO_THE.sub("", text)
    words = re.findall(r"\w+", _FRONT.sub("infront", _PLACED_NAME.sub(r"the \2 \1", text)))
    return [_VERB_ENDING.sub("", word) for word in words if word not in _INVERTED]
