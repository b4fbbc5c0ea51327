"""Reader of lists and objects that call each option correct or incorrect.

`harness.stated.letters` calls both functions before it looks for the letter that a response states.
"""

import re

from harness.errors import ParseError
from harness.responses import loads_lenient

_RIGHT = "true yes correct right likely ✓ ✔ ✅ 正确 正確 对 對 是"
_NOT_RIGHT = "false no incorrect wrong unlikely ✗ ✘ ❌ 错误 錯誤 错 錯 否"
_VERDICTS = {
    **dict.fromkeys(_RIGHT.split(" "), True),
    **dict.fromkeys(_NOT_RIGHT.split(" "), False),
}
"""Values of an object that judge the letter that is their key."""
MIN_JUDGED = 3
"""Least number of options in a list that calls each correct or incorrect."""
_JUDGED = re.compile(
    r"^(?:[-*•(]|[^\S\n]){0,9}([A-Z])[.:)]{1,2}[^\n]{0,200}?[–—:-]\s?[*_(]{0,3}"
    r"(?i:(?:this|that|it) is )?(?:((?i:correct)\b|[✓✔✅])"
    r"(?![^\n]{0,40}(?:\?|\b(?:if|unless|but|except|only|would|not)\b))"
    r"|(?i:incorrect|wrong|not correct)\b|[❌✗✘])[*_)]{0,3}",
    re.MULTILINE,
)
"""The beginning of a line about an option, up to its verdict: "A. the cat – correct"."""


def with_verdict(response: str, letters: str) -> str:
    """Replace a JSON object with a verdict on each letter by "answer: " and the affirmed letter.

    An object that affirms none or several letters, or has other values, is removed.

    >>> with_verdict('{"A": "no", "B": "no", "C": "yes"}', "ABC")
    'answer: C'
    >>> with_verdict('B. {"A": "It is far", "C": "It is near"}', "ABC")
    'B. '
    """
    begin, end = response.find("{"), response.rfind("}") + 1
    if not 0 <= begin < end:
        return response
    try:
        value, _ = loads_lenient(response[begin:end])
    except ParseError:
        return response
    while isinstance(value, dict) and len(value) == 1 and not set(value) <= set(letters):
        (value,) = value.values()  # {"answer": {"A": "no", …}}
    if not isinstance(value, dict) or not value or not set(value) <= set(letters):
        return response
    verdicts = {key: _VERDICTS.get(str(said).strip().casefold()) for key, said in value.items()}
    affirmed = [key for key, verdict in verdicts.items() if verdict]
    is_sure = len(affirmed) == 1 and None not in verdicts.values()
    return response[:begin] + (f"answer: {affirmed[0]}" if is_sure else "") + response[end:]


def without_judged(text: str) -> str:
    """Replace the lines of a list that judges each option: correct ones by their letter alone.

    Lines that call an option incorrect are removed. Lists of fewer than `MIN_JUDGED` options are
    left as they are: the question may ask for the incorrect one.
    """
    if len(_JUDGED.findall(text)) < MIN_JUDGED:
        return text
    return _JUDGED.sub(lambda line: f"{line[1]}.\n" if line[2] else "", text)
