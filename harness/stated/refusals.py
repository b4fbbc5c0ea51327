"""Detection of responses, and clauses, that state no answer: calls of tools, inability, denials.

Readers of letters, numbers and intervals call these before they take a value from a text.
"""

import re

from harness.errors import ParseError

_TOOL_CALL = re.compile(
    r"<(?:tools?|tool_code|tool_call|invoke|function|function_call|tool_use)\b"
    r"|\[TOOL_CALLS\]|\bAction Input:"
    r"|<\|tool_calls?|\"(?:tool_calls|arguments|tool_input|tool|tool_name|function)\"\s{0,9}:"
    r"|\"name\"\s{0,9}:\s{0,9}\"[^\"\n]{0,200}\"\s{0,9},"
    r"\s{0,9}\"(?:arguments|parameters|args|input)\"\s{0,9}:"
)
# Beginnings of verbs after "cannot" with which a response says that it knows no answer.
_KNOWS = (
    r"determin|tell|see\b|view|watch|count|answer|access|identif|estimat|measur|provid|know"
    r"|process|assist|help|find|locate|be\b|analy[sz]|give|say\b|infer|verif|confirm"
)
_UNABLE = re.compile(
    r"(?i:\bunable to\b|\bout of memory\b|\btimed?[ -]?out\b|\bfail(?:ed|ure|s)?\b|\bexceed"
    r"|\bexception\b|\btraceback\b|\b(?:status|error)\b|\bas an ai\b|\brate limit|\bunknown\b"
    rf"|(?:\bcannot|\bcan not|\bcould not|\bdo not|\b(?:can|could|do)n?['’]t)"
    rf"\s+(?:\w+\s+)?(?:{_KNOWS})"
    r"|\b(?:not enough|insufficient|(?:more|additional|further)(?= \w+ (?:is|are) (?:need|requ)))"
    r" (?:information|data|context)\b"
    r"|\bwill depend on\b|\b(?:not|im)[ -]?possible\b|\bunde(?:termin|fin)ed\b|\bunclear\b|\bn/a\b)"
    r"|无法|不能确定|不知道"
)
_DENIES = re.compile(
    r"(?i:\b(?:not?|none|never|neither|nor|cannot|unlikely|without|fail\w*|doubt\w*|nowhere"
    r"|incorrect|wrong|false|except|nothing|(?:anything|everything|everywhere|all) but"
    r"|nicht|kein\w*|pas|non(?!-\w)|não|niet|geen|nie|inte|ikke|tidak|bukan|không|нет|не)\b|n['’]t\b)|[不没沒無无未]|并非|[以之]外"
)
ABOUT_ANSWER = re.compile(
    r"\W*(?:correct|right|consistent|based|supported|given|obtained|above|below|as follows|clear"
    r"|evident|obvious|shown|that|because)\b"
)
"""Words that may follow "the answer is" in place of an answer: " based on"."""
_CLAUSE = re.compile(
    r"[.;!?](?=\s)|[,:\n。；，！？]|(?<!anything )(?<!everything )(?<!everywhere )(?<!all )\bbut\b"
)


def refuse_tool_call(text: str) -> None:
    """Raise ParseError if a response calls a tool: its values are arguments, not an answer."""
    if _TOOL_CALL.search(text):
        raise ParseError("response", expected="an answer", found="a call of a tool")


def says_unable(text: str) -> bool:
    """Return True if a text says that there is no answer, or reports an error.

    >>> says_unable("Unable to tell from 8 frames."), says_unable("There are 8 frames.")
    (True, False)
    """
    return _UNABLE.search(text) is not None


def denies(before: str) -> bool:
    """Return True if the last clause of a text denies the value that follows it.

    >>> denies("I don't think it is"), denies("It is not red, there are")
    (True, False)
    """
    return _DENIES.search(_CLAUSE.split(before[-200:])[-1]) is not None


def denied_after(after: str, *, whole: bool = False) -> bool:
    """Return True if the first clause of a text denies the value before it; `whole`: any clause.

    >>> denied_after(" chairs are not there"), denied_after(" chairs, not 4")
    (True, False)
    """
    clause = after if whole else _CLAUSE.split(after[:200])[0]
    return _DENIES.search(clause) is not None
