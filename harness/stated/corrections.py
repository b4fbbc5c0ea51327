"""Extraction of the part of a response that counts: its own turn, after its last correction.

Readers call `after_correction` first. "A. Wait, no, B." gives " B."; turns that a network made up
after its answer are cut off, and so is a prompt before it.
"""

import re

from harness.errors import ParseError
from harness.stated.refusals import refuse_tool_call

LONGEST = 20_000
"""Most characters of a response, after its thought, that is read as an answer in words."""
LAST = 60
"""Characters at the end of a text that are searched for mockery ("as if")."""
_TAKES_BACK = re.compile(  # ". Wait", "Sorry,", "or rather", "(should be", "Edit:"
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
"""Words at the end that mock the text before them: "Yeah, right."."""
_NEXT_TURN = re.compile(
    r"(?:\A|\n)\s{0,4}(?:#{1,4}\s{0,2}|\*\*)?(?:Human|User|HUMAN|USER)\s?:|\sUSER:\s"
    r"|<\|im_start\|>\s?user\b|<start_of_turn>\s?user\b|<\|start_header_id\|>\s?user\b"
    r"|\[INST\]|<\|user\|>"
)
"""Beginning of a next turn that a network makes up: "Human:", "<|im_start|>user"."""

_SYSTEM = r"A chat between a curious (?:user|human) and an artificial [^:]{0,300}?"
_PROMPT = re.compile(
    rf"\A\s{{0,9}}(?:{_SYSTEM})?"
    r"(?:(?:<\|im_start\|>\s?)?\b(?i:user|human)\s?[:\n].{0,9000}?(?:<\|im_start\|>\s?|\b))?"
    r"(?:<\|im_start\|>\s?|<\|start_header_id\|>|#{1,4}\s?)?"
    r"(?i:assistant)\s?(?:[:\n]|<\|end_header_id\|>)"
    r"|\A\s{0,9}<start_of_turn>model\n|\A\s{0,9}(?:<s>\s?)?\[INST\].{0,9000}?\[/INST\]",
    re.DOTALL,
)
"""A prompt ("user … assistant:"), or the end of it, that a program decoded with the response."""
_NEXT_QUESTION = re.compile(r"\S\s{0,9}\n[\s*_#]{0,9}(?:Question|QUESTION|Q)\s?\d{0,3}[*_]{0,3}:")
_ITS_ANSWER = re.compile(
    r"\n[*_#]{0,9}(?:(?:Correct |Final |Extracted )?[Aa]nswer|ANSWER|A|Solution|Response)[*_]{0,3}:"
)
"""The label of an answer after `_NEXT_QUESTION`. That question may be another one, or the user's
repeated: the answer may stand before or after it."""
_ROUND = r"[\s*_#]{0,9}(?:Hint|Question|QUESTION|Q)\s?\d{0,3}[*_]{0,3}:"
_BEGINS_ROUND = re.compile(r"\A[\s*_#]{0,9}Hint[*_]{0,3}:")
_HINT = re.compile(r"\S\s{0,9}\n[\s*_#]{0,9}Hint[*_]{0,3}:[^\n]{1,400}\n\s{0,9}Question:")
_SAYS_ANSWER = re.compile(r"\b(?i:answer)\b[*_]{0,3}\s{0,3}(?:is\b|:)")
_NEXT_ROUND = re.compile(rf"\S\s{{0,9}}\n{_ROUND}")
"""Labels of rounds of hint, question and answer, in a benchmark's format; a network makes up all
rounds but the first."""
_STRUCK = re.compile(
    r"(?<=\w\s)<s>[^<>]{0,200}</s>|<(del|strike)>[^<>]{0,200}</\1>|~~(?=\S)[^~\n]{1,200}(?<=\S)~~",
    re.IGNORECASE,
)
"""Text that is struck out; "<s>" at the beginning is a token of Llama."""
_QUESTION_ENDS = re.compile(r"[^.!?\n。！]{0,400}(?:[.!](?=\S)[^.!?\n。！]{0,200}){0,9}[?？]")


_ANSWER_LINE = re.compile(
    r"^[\s*_#>-]{0,8}(?i:(?:the |my )?(?:final |correct )?answer)[*_]{0,3}\s?:", re.MULTILINE
)


def answer_lines(text: str) -> list[int]:
    r"""Return the places of the lines in a text's own turn that begin with the label of an answer.

    >>> answer_lines("Answer: A\n**Final answer:** B\nHuman: And now?\nAnswer: C")
    [0, 10]
    """
    turn = _NEXT_TURN.split(text, maxsplit=1)[0]
    return [line.start() for line in _ANSWER_LINE.finditer(turn)]


def own_turn(text: str) -> str:
    r"""Return a text without a prompt before its answer and made-up turns after it.

    Raises:
        ParseError: another question and its answer follow, as in the examples of a prompt.

    >>> own_turn("A dog.\nHuman: How many legs has it?\nAssistant: 4")
    'A dog.'
    """
    turn = _first_round(_NEXT_TURN.split(_PROMPT.sub("", text), maxsplit=1)[0])
    question = _NEXT_QUESTION.search(turn)
    if question and _ITS_ANSWER.search(turn, question.end()):
        raise ParseError("response", expected="one answer", found="another question after it")
    return turn


def _first_round(text: str) -> str:
    """Return the answer of the first round of hint, question and answer; without rounds, the text.

    Of a text that answers and then begins a round, the part before that round.
    """
    begins = _BEGINS_ROUND.match(text)
    another = None if begins else _HINT.search(text)
    if another and _SAYS_ANSWER.search(text, 0, another.start()):
        return text[: another.start() + 1]
    answer = _ITS_ANSWER.search(text) if begins else None
    following = _NEXT_ROUND.search(text, answer.end()) if answer else None
    end = following.start() + 1 if following else len(text)
    return text[answer.start() : end] if answer else text


def is_asked(text: str, place: int) -> bool:
    """Return True if the sentence around a place of a text ends with a question mark.

    >>> is_asked("Are there 3 cats? No.", 11), is_asked("There are 3 cats. Really?", 11)
    (True, False)
    """
    return _QUESTION_ENDS.match(text, place) is not None


def after_correction(text: str) -> str:
    """Return the text after its last correction, or from the last of several lines "Answer:" on.

    Without a correction it is all of `own_turn`.

    Raises:
        ParseError: the text is longer than `LONGEST`, calls a tool, or mocks its answer at the end.

    >>> after_correction("A. Wait, no, B."), after_correction("They wait for the bus.")
    (' B.', 'They wait for the bus.')
    """
    if len(text) > LONGEST:
        raise ParseError(
            "response", expected=f"an answer of at most {LONGEST} characters", found=str(len(text))
        )
    text = _STRUCK.sub(" ", own_turn(text))
    refuse_tool_call(text)
    if mocks := _MOCKS.search(text, max(0, len(text) - LAST)):
        raise ParseError("response", expected="an answer that is meant", found=repr(mocks[0]))
    end = 0
    for correction in _TAKES_BACK.finditer(text):
        end = correction.end()
    text = text[end:]
    lines = answer_lines(text)
    return text[lines[-1] :] if len(lines) > 1 else text
