"""Find the text of a response that counts: of its own turn, after its last correction."""

import re

from harness.errors import ParseError
from harness.stated.refusals import refuse_tool_call

LONGEST = 20_000
"""Characters after the thought in which an answer in words is looked for."""
LAST = 60
"""Characters at the end of a text in which it may be mocked."""
_TAKES_BACK = re.compile(
    r"(?:\A|[.!?…,;:)\n—–-]\s{0,4})(?i:(?:but|oh|no|so|well|(?:i['’]m )?just)[,\s]{1,4})?"
    r"(?i:wait|hm{2,}|actually|sorry|w?h?oops|(?:scratch|strike|forget) that|on second thoughts?"
    r"|(?:i['’]m )?(?:kidding|joking)|never ?mind|hang on|hold on|nah|nope|lol|haha|psych|jk"
    r"|(?:my )?apologies"
    r"|correction|my (?:mistake|bad)"
    r"|i was wrong|let me re\w{2,12}|i mean)\b"
    r"|[.!?…,>)\]\"\n]\s{0,4}(?i:non?|nein|nee|não|нет|아니|아니요|いや|いいえ)\s{0,4}[,.!:—、。]"
    r"|\b(?i:ou plutôt|oder besser|o mejor dicho|ou melhor|o meglio)\b"
    r"|\b(?i:or (?:rather|better))\b,?|[(.!?\n]\s{0,4}(?i:edit|corrected|correction|update)\s{0,4}:"
    r"|[(,]\s{0,4}(?i:should be|make that|i meant|typo)\b(?:,? (?i:meant))?:?"
    r"|\b(?i:corrected|changed|revised|updated) to\b"
    r"|(?:\A|[.!?,;\n]\s{0,4})(?i:(?:up)?on (?:further |closer )?"
    r"(?:reflection|reconsideration|review|inspection)|looking (?:again|closer))\b"
    r"|等等|等一下|不对|更正"
)

_ENDS = r"(?:<\|\w+\|>|\W)*\Z"
_MOCKS = re.compile(
    r"(?i:\bsaid no ?(?:one|body)\b|\bin your dreams\b|\bpigs (?:can |will )?fly\b"
    r"|\bin (?:an alternate|a parallel) universe\b"
    rf"|\b(?:as if|yeah,? right|kidding|joking|my foot){_ENDS}|\s/s{_ENDS}"
    rf"|[,.…]\s?(?:not|psych)\s?!{_ENDS}"
    r"|(?-i:(?<!\w)[A-J])\)?[,.…–—-]\s?(?:not (?:really|quite)|(?:obviously|clearly|definitely"
    r"|certainly|of course) not)"
    rf"{_ENDS})"
)
"""Words at the end that mock what stands before them."""
_NEXT_TURN = re.compile(
    r"(?:\A|\n)\s{0,4}(?:#{1,4}\s{0,2}|\*\*)?(?:Human|User|HUMAN|USER)\s?:|\sUSER:\s"
    r"|<\|im_start\|>\s?user\b|<start_of_turn>\s?user\b|<\|start_header_id\|>\s?user\b"
    r"|\[INST\]|<\|user\|>"
)
"""Beginnings of a next turn that a network makes up, whose answer is not the response's."""

_PROMPT = re.compile(
    r"\A\s{0,9}(?:<\|im_start\|>\s?)?(?i:user|human)\s?[:\n].{0,9000}?"
    r"(?:<\|im_start\|>\s?|\b)(?i:assistant)\s?[:\n]",
    re.DOTALL,
)
"""The prompt, where a program decodes it together with the response."""
_NEXT_QUESTION = re.compile(r"\S\s{0,9}\n[\s*_#]{0,9}(?:Question|QUESTION|Q)\s?\d{0,3}[*_]{0,3}:")
_ITS_ANSWER = re.compile(
    r"\n[*_#]{0,9}(?:(?:Correct |Final |Extracted )?[Aa]nswer|ANSWER|A|Solution|Response)[*_]{0,3}:"
)
"""Another question, or the one that was asked, said again: the answer may be before or after it."""
_ROUND = r"[\s*_#]{0,9}(?:Hint|Question|QUESTION|Q)\s?\d{0,3}[*_]{0,3}:"
_BEGINS_ROUND = re.compile(r"\A[\s*_#]{0,9}Hint[*_]{0,3}:")
_HINT = re.compile(r"\S\s{0,9}\n[\s*_#]{0,9}Hint[*_]{0,3}:[^\n]{1,400}\n\s{0,9}Question:")
_SAYS_ANSWER = re.compile(r"\b(?i:answer)\b[*_]{0,3}\s{0,3}(?:is\b|:)")
_NEXT_ROUND = re.compile(rf"\S\s{{0,9}}\n{_ROUND}")
"""Rounds of hint, question and answer, of which a network makes up all but the first."""
_QUESTION_ENDS = re.compile(r"[^.!?\n。！]{0,400}(?:[.!](?=\S)[^.!?\n。！]{0,200}){0,9}[?？]")


_ANSWER_LINE = re.compile(
    r"^[\s*_#>-]{0,8}(?i:(?:the |my )?(?:final |correct )?answer)[*_]{0,3}\s?:", re.MULTILINE
)


def answer_lines(text: str) -> list[int]:
    r"""Return the places in the text's own turn of lines that begin as an answer does.

    >>> answer_lines("Answer: A\n**Final answer:** B\nHuman: And now?\nAnswer: C")
    [0, 10]
    """
    own = _NEXT_TURN.split(text, maxsplit=1)[0]
    return [line.start() for line in _ANSWER_LINE.finditer(own)]


def own_turn(text: str) -> str:
    r"""Return a text without the prompt before its answer, and the turns made up after it.

    Raises:
        ParseError: it goes on with a question and its answer, as examples of a prompt do.

    >>> own_turn("A dog.\nHuman: How many legs has it?\nAssistant: 4")
    'A dog.'
    """
    own = _first_round(_NEXT_TURN.split(_PROMPT.sub("", text), maxsplit=1)[0])
    question = _NEXT_QUESTION.search(own)
    if question and _ITS_ANSWER.search(own, question.end()):
        raise ParseError("response", expected="one answer", found="another question after it")
    return own


def _first_round(text: str) -> str:
    """Return the answer of the first round where a text begins with one; else all of the text."""
    begins = _BEGINS_ROUND.match(text)
    another = None if begins else _HINT.search(text)
    if another and _SAYS_ANSWER.search(text, 0, another.start()):
        return text[: another.start() + 1]
    answer = _ITS_ANSWER.search(text) if begins else None
    following = _NEXT_ROUND.search(text, answer.end()) if answer else None
    end = following.start() + 1 if following else len(text)
    return text[answer.start() : end] if answer else text


def is_asked(text: str, place: int) -> bool:
    """Return True if the sentence that goes on at a place of a text is a question.

    >>> is_asked("Are there 3 cats? No.", 11), is_asked("There are 3 cats. Really?", 11)
    (True, False)
    """
    return _QUESTION_ENDS.match(text, place) is not None


def after_correction(text: str) -> str:
    """Return the text after its last correction, or from the last of several lines "Answer:".

    All of its own turn where nothing is taken back.

    Raises:
        ParseError: it is longer than any answer in words, calls a tool, or is mocked at its end.

    >>> after_correction("A. Wait, no, B."), after_correction("They wait for the bus.")
    (' B.', 'They wait for the bus.')
    """
    if len(text) > LONGEST:
        raise ParseError(
            "response", expected=f"an answer of at most {LONGEST} characters", found=str(len(text))
        )
    text = own_turn(text)
    refuse_tool_call(text)
    if mocks := _MOCKS.search(text, max(0, len(text) - LAST)):
        raise ParseError("response", expected="an answer that is meant", found=repr(mocks[0]))
    end = 0
    for correction in _TAKES_BACK.finditer(text):
        end = correction.end()
    text = text[end:]
    lines = answer_lines(text)
    return text[lines[-1] :] if len(lines) > 1 else text
