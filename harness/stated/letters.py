r"""Reader of the letter of the option that a response states as its answer.

`stated_letter` reads a letter alone ("b", "**(B)**", also as the last line), a letter that the
response opens with ("B. the cat"), and one that it calls the answer ("the answer is B", "B is
correct", "I choose B", `\boxed{B}`, `{"answer": "B"}`, "答案是B"). Letters that are rejected ("not
A", "option A is wrong") or taken back do not count. A ParseError are two letters, a doubt, a
letter with another option's text, and a last statement of an answer that names no letter.
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from harness.errors import ParseError
from harness.stated.conditions import NO_ANSWER, is_supposed, is_unsure
from harness.stated.corrections import after_correction, is_asked, own_turn
from harness.stated.foreign_letters import is_unknown
from harness.stated.judged_options import with_verdict, without_judged
from harness.stated.languages import DENIES, OTHER, is_foreign, unmarked
from harness.stated.letter_patterns import ADVERBS, FOREIGN_ANSWERS, Patterns, patterns
from harness.stated.markup import BOX
from harness.stated.named_options import answering, is_rejected, pointed_at, with_letters_alone
from harness.stated.option_text import (
    by_number,
    denies_itself,
    ended_with,
    is_denied,
    is_next,
    lists_options,
    names_answer,
    opened_with,
    options_by_letter,
    small_with_text,
    spelt_out,
    without_no,
)
from harness.stated.refusals import ABOUT_ANSWER
from harness.stated.replies import OTHER_ONE, replies_another, reply
from harness.stated.yes_no import says_opposite

_WIDE = str.maketrans(
    {0xFF21 + place: ord("A") + place for place in range(26)}
    | {0xFF41 + place: ord("a") + place for place in range(26)}
    | {ord("。"): ". "}
    | dict(zip(map(ord, "（）．：，；！［］"), "().:,;![]", strict=True))
)
"""Full-width letters and punctuation, and their ASCII forms."""
_MARKUP = re.compile(r"\\(?:text(?:bf|rm|tt)?|mathrm|mathbf)\s*\{([^{}]{0,80})\}")  # \text{B}
_TAG = re.compile(r"</?\|?[a-zA-Z][^<>\n]{0,60}>")  # <b>
_FORMULA = re.compile(r"\\\(\s?(?P<letter>[A-Z])\s?\\\)|\\[()]")
_RELATED = (
    r"[A-Z]\s?(?:[=∈≠≤≥≈]|\((?=[a-z]\W)"
    r"|\\(?:in|sub\w*|sup\w*|cup|cap|neq?|leq?|geq?|approx|sim|equiv|times|cdot|setminus)\b)"
)
_VARIABLE = re.compile(
    rf"(?:\$|\\[(\[])\s?{_RELATED}|\b(?i:so|thus|hence|therefore),?\s{{1,3}}(?:{_RELATED}"
    r"|(?:\$|\\\()\s?[A-Z]\s?(?:\$|\\\))(?=\s(?:has|have|and|contains|(?:is|are|must be)\s"
    r"(?!(?:the |a )?(?:\w+ )?(?:correct|right|true|best|answer|option|choice)\b))))"
)
"""A letter that names a quantity or a set of a formula: "$A =", "so B ∈"."""
_MARKS = " \t\r\n.*_`\"'()[]{}$:!,;|=>→∴✓✔✅☑👉👍➡️【】“”‘’«»「」『』…"
_ITEM = re.compile(r"(?<=[A-Z])\s?选?项(?=是?正确|\W*\Z)")
_BULLET = re.compile(r"\A\s*(?:#{1,6}|[-=]>|-)\s")
_HEDGE = re.compile(
    r"\W*(?:(?i:(?:response|output|prediction|result|conclusion|verdict)(?=\W{0,4}:)|in conclusion"
    r"|overall|only|(?:most |very )?likely|probably|definitely|certainly|clearly|maybe|perhaps"
    r"|without (?:a |any )?doubt"
    r"|possibly|(?:yes|no)(?=[,:.]| \()|final(?=:)|sure|ok(?:ay)?|(?:it )?(?:must|has to) be"
    r"|unclear"
    r"|by (?:a |the )?(?:process of )?elimination|(?:final |correct )?answer\s?[-–—]"
    r"|i(?:['’]m| am) not (?:(?:entirely|completely|100%) )?(?:sure|certain),? but"
    r"|i (?:guess|think|believe|suppose)|but|so|if i had to guess|if forced to choose"
    r"|(?:that|this|which) leaves(?: us with)?(?: only)?)[\s,:.*]{1,4}"
    r"|(?:综上|应该是|肯定是)[，,]?)+(?=\W*[A-Z]\W*\Z)"
)
"""Words before the only letter of a response: "I think B", "Overall: B"."""
_DOUBT = re.compile(
    r"(?i:\b(?:not|never|doubt|unless|if|whether|unlikely|cannot|wrong|incorrect|why|thought"
    r"|initially|originally|previous(?:ly| (?:answer|guess|choice|response|attempt|option|user))"
    r"|(?<=i )first|at first|neither|almost|nearly|false|was going to|no way"
    r"|(?:no|some|any)(?:one|body) (?:\w+ )?(?:says?|said|thinks?|claims?"
    r"|picks?|chooses?|answers?|guess|believes?)|wrote|(?:user|hint|caption|you|they|people"
    r"|many|some) (?:\w+ )?(?:says?|said|thinks?|claims?|suggests?)"
    r"(?!.*\b(?:therefore|thus|hence|so)\b))\b"
    r"|n['’]t\b|不|一开始|起初|最初|错误|(?<![这此本再一每首初多])次\Z|备选\Z)"
)
_OF_NO_ANSWER = re.compile(
    r"\b(?i:another|other|opposite|second|third|next|first|initial|original|previous|earlier"
    r"|alternative|tempting|common|popular|(?:an?|one|some) \w+)\s"
    r"(?i:(?:best |most \w+ )?(?:answer|option|choice|pick|selection))\s(?i:is|was|would be)\b"
    r"[^.!?\n]{0,20}\Z"
)
"""A statement of a letter that is not surely the answer: "the second best answer is C"."""
_LEADS = re.compile(
    r"(?i:(?:the|it is|it['’]s|so|thus|hence|therefore|is|with|for|my)?(?: the)?"
    r"(?:(?: only| sole)?(?: remaining| possible| plausible| viable| suitable| matching"
    r"| most (?:likely|probable|plausible|suitable|appropriate|accurate|fitting|reasonable))?))"
)
_GOES_ON = re.compile(r"\s*(?:[.,:;!\n(–—-]|$|(?i:is|was|because|since|as|which|for|and|or)\b)")
_OR = re.compile(
    r"\W{0,4}(?i:or|maybe|perhaps|possibly|if|unless|assuming|provided"
    r"|let me (?:see|check|think|look))\b|\W{0,4}then\s\(?[A-Z](?!\w)"
    r"|\s?[-–—+/>→]\s?[A-Z]\W{0,4}\Z"
)
"""Words or a sign after a letter that leave it open."""
_ALSO = re.compile(
    r"\W{0,4}(?i:though|although|but|while)\s(?i:option |choice )?[(*]{0,3}[A-Z](?!\w)"
    r"[^.!?\n]{0,20}\b(?i:also|too)\b[^.,;!?\n]{0,40}(?:[.!?]|\Z)"
)
"""Words after a letter that allow another one: "although A would also fit"."""
_SENTENCE_WITH_IF = re.compile(r"[.)*\s]{0,4}\s(?=If\b[^.!?\n]{1,300},\s)")
"""Marks between a letter and a sentence with a condition and a main clause: "B. If it is, …"."""
_OF_SUBJECT = re.compile(r"(?i:(?:is|would be)\b|(?:best|most accurately) \w+ (?:by|as)\b)")
"""Words of a statement whose subject stands before them: "none of them is best described by"."""
_DENIED_SUBJECT = re.compile(
    r"\W*(?i:no|none|nothing|nobody|neither)\b|.*\b(?i:hardly|barely|scarcely|never)\W*\Z"
)
_QUOTED = re.compile(r":\s{0,9}\"([^\"\n]{2,200})\"")
_SMALL = re.compile(
    r"(?i:\b(?:answer|option|choice|choose|select|pick)\b(?: is|:)?)\s*(?:\(([a-z])\)|([b-z]))\W*\Z"
    r"|\A\W*?\(?([b-z])\)\s"
)
"""A letter in lower case that ends or begins a response; "a" alone is a word."""
_ENDS_NO = re.compile(
    r"\b(?i:i (?:can['’]t|can ?not) (?:tell|say|be sure))\W*\Z|\}\$?\?\s*\Z"
    r"|(?<!\w)[A-Z][)*_]{0,3}[,;–—-]\s?(?i:no|nope|not)\W*\Z|\?\s(?i:no|nope)\W*\Z"
)
_TWO = re.compile(
    r"(?:\A|\b(?i:answer)\W{1,4}(?:(?i:is)\W{1,4})?)[(*_]{0,3}([A-Z])[)*_]{0,3}[.;]?[^\S\n]{1,3}"
    r"[(*_]{0,3}(?!\1)[A-Z][)*_]{0,3}[.\s]{0,4}\Z"
)
"""Two letters that are all of an answer: "B. C"."""
_IS_NO = re.compile(r"(?i:no)\W*")
_TURNS = re.compile(r"(?:[.!?;]\s|,\s|\n)\s{0,3}(?i:however|instead|but|yet|rather)\b")
"""A word that turns against what is stated before it."""
_CLAUSE = re.compile(r"[.,;:!?\n]|\bbut\b")
_ENDS_CORRECT = re.compile(r"(?i:correct)[*_).,;!]{0,4}\s{0,9}\n")
"""The end of a line with "correct", which does not refer to the letter of the next line."""
_ATTEMPT = re.compile(  # the beginning of a statement of an answer, whether a letter follows or not
    r"(?i:(?<![a-z])(?:answer|final(?: choice)?)[*_`]{0,3}\s*"
    r"(?:(?:is|was|would be|should be|must be)\b|[=:→]|->))"
    r"|\\boxed\s*\{|[\"'](?i:(?:final_?)?answer)[\"']\s*:|(?:答案|答え|正解|정답)\s*(?:应该|应)?(?:是|为|は|은|:)"
    rf"|(?i:(?<![a-z]){FOREIGN_ANSWERS})\s*(?:(?:ist|est|es|é|è)\b|[=:])"
)
_NOT_A_LABEL = re.compile(r"\b(?i:is|was|be)\b")
_FINAL = re.compile(r"(?i:\bfinal\s)\Z")
"""The word "final" before "answer:"; after "Answer:" alone the answer to another question may
follow."""
_ASKS = re.compile(r"\s*(?i:is|are|was|can|could|would|should|does|do|which|what|why|how)\b")
_NAMES_ONE = re.compile(
    r"(?i:option|choice|selection|pick)\b[*_`]{0,3}\s*(?!is|was|[=:])"
    r"|(?i:answer)\s[*_(\[\"'`]{0,4}[A-Z](?!\w)"
)
_IS_SUBJECT = re.compile(
    r"(?!,?\s(?:\w+\s)?(?:best|accurately|correctly|precisely|closely|perfectly|clearly)\b)"
    rf"{ADVERBS}\s+(?:says|states|implies|means|suggests|mentions|refers|claims|would|could|might"
    r"|may|describes|depicts|assumes|requires|has|had|have|only|is|was|are|contains|adds|breaks|looks|seems|appears)\b"
)
_IS_ADDED = re.compile(r"[^.!?\n]{0,60}\b(?i:as well(?! as)|too(?=\W*(?:[.!;\n]|\Z)))\b")
"""Words after an option that add it to another one: "option B fits as well"."""
_BETTER = re.compile(
    r"\b(?i:I['’]d (?:say|guess|pick))\b[^.!?\n]{0,40}?"
    r"\b(?i:yet|but|however|though)\b[^.!?\n]{0,80}?(?<!\w)([A-Z])(?!\w)[^.!?\n]{0,30}?"
    r"\b(?i:better|more likely)\b"
)
"""A concession that prefers another option: "I'd say B, yet C fits better"."""
_APPROVED = re.compile(
    rf"{ADVERBS}\s+(?:is|seems|looks|appears|has)(?:\s+to\s+be)?{ADVERBS}\s+(?i:the|correct|right|true"
    rf"|best|most|more|closer|closest|similar|identical|consistent)\b"
    rf"(?!\s(?:least|worst|wrong|(?:\w+ ){{0,2}}{NO_ANSWER}))"
)
"""Words after an option that call it the right one: " is the correct", " seems most similar"."""


def stated_letter(
    response: str, letters: str = "ABCD", options: Sequence[str] = (), question: str = ""
) -> str:
    """Return the one letter that a response states as its answer.

    Args:
        response: The response after its thought.
        letters: Capital letters of the options.
        options: Texts of the options: a response that is one of them states its letter.
        question: The question: a sentence with its words and an option's text states its letter.

    Raises:
        ParseError: it states none of these letters, or several.

    >>> said = "B. the dog", "I think the answer is **D**.", "Option A is wrong. It is C, so C."
    >>> [stated_letter(response) for response in said]
    ['B', 'D', 'C']
    """
    options = [unmarked(option) for option in options]
    judged = with_verdict(own_turn(response).strip(), letters)
    text = unmarked(after_correction(without_no(judged, options)).translate(_WIDE))
    text = _VARIABLE.sub(" x = ", _MARKUP.sub(r"\1", text.replace("\\$", "$")))
    text = _TAG.sub(" ", _FORMULA.sub(_in_brackets, text).replace(BOX, "answer: ")).strip()
    text = _ITEM.sub("", without_judged(text))
    alone = with_letters_alone(text, options)
    stated = (
        _bare(text, letters)
        or spelt_out(text, options)
        or by_number(text, options)
        or _stated_or_opened(text, letters, options)
        or _in_lower_case(text, letters)
        or small_with_text(text, options)
        or (_stated(alone, letters, options) if alone != text else set())
        or pointed_at(alone, letters)
        or answering(text, options, question)
    )
    said = dict(options_by_letter(options)).get(min(stated, default=""), "")
    if (
        len(stated) != 1
        or (_ENDS_NO.search(text) and not any(map(_IS_NO.fullmatch, options)))
        or _has_text_of_another(text, min(stated), options)
        or replies_another(text, min(stated))
        or any(better[1] not in stated for better in _BETTER.finditer(text) if better[1] in letters)
        or (alone != text and is_rejected(alone, min(stated)))
        or (question and said in ("yes", "no") and says_opposite(said, text, question))
    ):
        excerpt = repr(response.strip()[:60])
        raise ParseError("response", expected="the letter of one option", found=excerpt)
    return stated.pop()


def _in_brackets(formula: re.Match[str]) -> str:
    r"""Return "(B)" for the formula `\(B\)`, and a blank for the mark of another formula."""
    return f"({formula['letter']})" if formula["letter"] else " "


def _bare(text: str, letters: str) -> set[str]:
    """Return the letter that is all of a text but for marks and words such as "I think"."""
    text = _BULLET.sub("", text)
    bare = _HEDGE.sub("", text, count=1).strip(_MARKS) if _HEDGE.match(text) else text.strip(_MARKS)
    return {bare.upper()} if len(bare) == 1 and bare.upper() in letters else set()


def _in_lower_case(text: str, letters: str) -> set[str]:
    """Return the letter that ends or begins a text in lower case, unless there is a doubt."""
    is_doubt = _DOUBT.search(text) or (is_foreign(text) and DENIES.search(text))
    statement = None if is_doubt else _SMALL.search(text)
    letter = next(filter(None, statement.groups()), "").upper() if statement else ""
    return {letter} & set(letters)


def _has_text_of_another(text: str, letter: str, options: Sequence[str]) -> bool:
    """Return True if the letter stands before another option's text, or that text is quoted."""
    texts = {
        option.strip(" .").casefold(): ascii_uppercase[place]
        for place, option in enumerate(options[: len(ascii_uppercase)])
    }
    lines = re.finditer(rf"(?<!\w){letter}[.:)、\s*_,(–—-]{{1,6}}([^\n]{{1,2000}})", text)
    named = {texts.get(line[1].strip(" .*_`\"')]}$").casefold(), letter) for line in lines}
    named |= {texts.get(quoted.casefold(), letter) for quoted in _QUOTED.findall(text)}
    return bool(named - {letter})


def _stated_or_opened(text: str, letters: str, options: Sequence[str]) -> set[str]:
    """Return the letters that a text states, and that of the option that it opens with."""
    stated = _stated(text, letters, options)
    return stated | opened_with(text, options) if stated or not names_answer(text) else set()


def _stated(text: str, letters: str, options: Sequence[str]) -> set[str]:
    """Return all letters that a text states, without rejected ones; empty if one is in doubt."""
    by = patterns(letters)
    is_list = lists_options(text, options)
    text = by.rejected.sub(" ", text).lstrip(" .,;:\n").rstrip(" .,;\n")
    text = re.sub(r"\s(?:and|but|because|since)\Z", "", text)
    if _TWO.search(text):
        return set()
    stated = _bare(text, letters) | reply(text, letters, options)
    read_to = 0
    # Statements: "the answer is B".
    for statement in by.stated.finditer(text):
        if (
            by.another.match(text, statement.end())
            or _adds_one(text, statement, by)
            or _OF_NO_ANSWER.search(text[max(0, statement.start() - 60) : statement.end()])
        ):
            return set()
        if not statement["says"] or _is_sure(text, statement, by):
            mention = statement["letters"] or statement["boxed"] or statement["json"]
            stated |= set(by.letter.findall(mention)) or {mention[-1].upper()}
            read_to = statement.end()
    # Verdicts: "B is correct".
    for verdict in by.verdict.finditer(text):
        is_sure = not is_unsure(text, verdict.start(), verdict.end())
        if by.another.match(text, verdict.end()):
            return set()
        if is_sure and not _DOUBT.search(_clause_before(text, verdict.start())):
            stated |= set(by.letter.findall(verdict["letters"]))
            read_to = max(read_to, verdict.end())
    # Letters that have a line to themselves.
    for line in by.line.finditer(text):
        if line.end() == len(text) and is_next(text, line):
            continue
        stated |= set(by.letter.findall(line[1]))
        read_to = max(read_to, line.end())
    turn = _TURNS.search(text, read_to) if stated else None
    if turn and set(by.named.findall(text, turn.end())) - stated:
        return set()
    # Labels of an answer, "Answer:", after which no pattern has found a letter.
    for attempt in _ATTEMPT.finditer(text, read_to):
        text_after = text[attempt.end() : attempt.end() + 2000]
        answer_line = text_after.partition("\n")[0]
        letter = spelt_out(answer_line, options)
        if not letter and (
            _NOT_A_LABEL.search(attempt[0]) or _FINAL.search(text[: attempt.start()])
        ):
            letter = opened_with(answer_line.lstrip(_MARKS), options)
        if not letter and not ABOUT_ANSWER.match(text_after):
            return set()
        stated |= letter
    # The letter that the text begins with, "B. the red one", unless it begins a list of options.
    opening, listed = by.opening.match(text), set(by.listed.findall(text))
    if opening and (
        _is_open(text, opening, by, options) or is_denied(text[opening.end() :], options)
    ):
        return set()
    if opening and re.match(r"\s*[A-Z][*_]", opening["letters"]):
        opening = None  # a mark that nothing opens, as in "A* search"
    if is_list or len(set(by.scored.findall(text))) > 1:
        opening = None  # the options, or a score of each letter
    if opening and denies_itself(text[opening.end("letters") :], options):
        opening = None
    if opening and by.opening.match(text, opening.end()):
        return set()  # a list of options
    if opening and (len(listed) < 2 or not stated):
        stated |= listed | set(by.letter.findall(opening["letters"]))
    return stated or ended_with(text, options)


def _is_open(text: str, opening: re.Match[str], by: Patterns, options: Sequence[str]) -> bool:
    """Return True if words after the letter that a text opens with leave it open.

    They do not if they are the option's own text, or a sentence that explains ("If it barks, it is
    a dog.") without a doubt, another letter or another option's text.
    """
    if _ALSO.match(text, opening.end()):
        return True
    if not _OR.match(text, opening.end()):
        return False
    named = by.letter.findall(opening["letters"])
    rest = text[opening.end("letters") :].lstrip(" .)*_:").casefold()
    own, others = set[str](), set[str]()
    for letter, name in options_by_letter(options):
        (own if [letter] == named else others).add(name)
    if any(name and rest.startswith(name) for name in own):
        return False
    explains = _SENTENCE_WITH_IF.match(text, opening.end("letters"))
    if not others or explains is None or "." not in text[opening.end("letters") : explains.end()]:
        return True
    said = text[explains.end() + len("if") :]
    return bool(
        _DOUBT.search(said)
        or by.letter.search(said)
        or re.search(r"\b(?i:otherwise|else|instead|answer|option|choice)\b", said)
        or OTHER_ONE.search(said, said.index(","))
        or any(name and name in rest for name in others)
    )


def _is_sure(text: str, statement: re.Match[str], by: Patterns) -> bool:
    """Return True for a statement that is certain: no question, condition or doubt.

    The words "A" and "I", as in "the answer is A dog", are not letters.
    """
    before, rest = _clause_before(text, statement.start()), statement["next"]
    if (
        _ENDS_CORRECT.search(statement["says"] + statement["letters"])
        or _begins_list(text, statement, by)
        or is_supposed(text, statement.start(), statement.end("letters"))
        or (_OF_SUBJECT.match(statement["says"]) and _DENIED_SUBJECT.match(before))
    ):
        return False
    says = statement["says"].removesuffix(rest)
    if (
        _DOUBT.search(before)
        or _DOUBT.search(says)
        or _OR.match(rest)
        or rest.lstrip("} $").startswith(("?", "吗"))
        or (_ASKS.match(before) and is_asked(text, statement.end()))
        or is_unknown(before, statement["says"], text[statement.end("letters") :])
    ):
        return False
    if _NAMES_ONE.match(statement[0]):
        after = text[statement.end("letters") :]
        if not _LEADS.fullmatch(before.strip()):
            return False
        if _IS_SUBJECT.match(after) and not _APPROVED.match(after):
            return False
    is_word = by.letter.findall(statement["letters"]) in (["A"], ["I"])
    if not is_word or statement["letters"].rstrip()[-1] not in "AI":
        return True
    return re.match(rf"{_GOES_ON.pattern}|{OTHER}", rest) is not None


def _adds_one(text: str, statement: re.Match[str], by: Patterns) -> bool:
    """Return True if a statement adds its option to another letter before it."""
    return (
        _NAMES_ONE.match(statement[0]) is not None
        and _IS_ADDED.match(text, statement.end()) is not None
        and by.letter.search(text, 0, statement.start()) is not None
    )


def _begins_list(text: str, statement: re.Match[str], by: Patterns) -> bool:
    """Return True if a statement's letter is the mark of a list: the next letter marks a line."""
    letter = by.letter.findall(statement["letters"])[-1]
    mark = re.compile(
        rf"[^:\s]\s{{0,9}}\n[^\S\n]{{0,20}}[*(]{{0,3}}{chr(ord(letter) + 1)}(?:[.:)]|\Z)"
    )
    is_line = "\n" in text[statement.start() : statement.start("letters")]
    return is_line and mark.search(text, statement.end()) is not None


def _clause_before(text: str, place: int) -> str:
    return _CLAUSE.split(text[max(0, place - 120) : place])[-1]
