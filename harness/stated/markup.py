"""Removal of markup from a response before its numbers are read: tags, LaTeX, confidences.

`plain` gives the text after the last correction in which "1{,}500" is "1,500".
"""

import re
from contextlib import suppress
from html import unescape

from harness.errors import ParseError
from harness.responses import loads_lenient
from harness.stated.corrections import after_correction
from harness.stated.languages import unmarked

BOX = "<|begin_of_box|>"
"""Mark before the answer of GLM's networks, which is kept."""
_SPECIAL = re.compile(r"<\|(?!begin_of_box\|>)[^<>\n]{1,60}\|>|</s>")  # <|im_end|>
_END_TOKEN = re.compile(
    r"(?:<\|(?!begin_of_box\|>)[^<>\n]{1,60}\|>|</s>|<eos>|<end_of_(?:turn|utterance)>)\Z"
)
_TAG = re.compile(r"<(/?)(su[bp])?[a-zA-Z][^<>\n]{0,60}>|<su([bp])>", re.IGNORECASE)
_LISTS = re.compile(  # [1,2] or (1,2)
    r"\[[^\[\]\n]{0,200}\]|\([-+−.,\s\d]{0,200}\)|(?<![\w^}])\{[-+−.,\s\d]{0,200}\}"
)
_BETWEEN = re.compile(r"(?<=\d),(?=[\d.])")  # in a list, where a comma parts numbers
_SURE = r"(?:confiden(?:ce|t)|certain(?:ty)?|sure|probability|likelihood)"
_HOW_SURE = re.compile(  # "(confidence: 90%)", "I'm 90% sure"
    rf"(?i:[,;(]?\s?\b(?:with |at |my |an? |the ){{0,4}}{_SURE}(?: level| score)?"
    rf"\"?\s?(?:is|of|[:=])?"
    rf"\s?\d[\d.]{{0,9}}\s?%?(?![\w.])\)?|[,;(]?\s?(?:\bi['’]?(?: a)?m )?\b\d[\d.]{{0,9}}\s?%"
    rf"\s{_SURE}\b(?: that)?\)?)"
)

_SCALAR = re.compile(r"\\scalar\s?\{([^{}\n]{1,40})\}\s{0,4}\\distance_unit\s?\{([^{}\n]{1,40})\}")
"""A value and its unit as the prompts of Q-Spatial ask for them."""

_BRACED = r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*"  # with braces in it, as of \frac{1}{2}
_ENVELOPES = (  # marks around a whole answer
    re.compile(r"<\|begin_of_box\|>([^<]*)(?:<\|end_of_box\|>\.?)?"),
    re.compile(rf"\\boxed\s*\{{\s*(?:\\text\s*\{{([^{{}}]*)\}}|({_BRACED}))\}}\.?"),
    re.compile(r"[$]{1,2}([^$]+)[$]{1,2}\.?"),
    re.compile(
        r"<(?:(?:s_|final_)?answer|ans|response|conclusion|CONCLUSION)>([^<>]+)"
        r"</(?:(?:s_|final_)?answer|ans|response|conclusion|CONCLUSION)>"
    ),
    re.compile(r"```(?:text|plaintext|markdown)?\n([^`\n]+)\n```"),
    re.compile(r"'([^'\n]+)'\.?|‘([^’\n]+)’\.?|\*([^*\n]+)\*\.?"),
    re.compile(r"`([^`\n]+)`\.?|\"([^\"\n]+)\"\.?|“([^”\n]+)”\.?|_([^_\n]+)_\.?"),
)
_LAST_BOX = re.compile(  # at the end of a sentence that does not deny it
    r"(?:(?!\b(?i:not|no|never|nor|neither)\b|n['’]t\b|\\boxed|<\|begin_of_box\|>|\n).)*"
    r"(?<![-+−.\w])\$?(?:<\|begin_of_box\|>([^<]*\S[^<]*)<\|end_of_box\|>"
    r"|\\boxed\s*\{\s*(?:\\text\s*\{([^{}]*[^{}\s][^{}]*)\}"
    rf"|(?!\s*\}})({_BRACED}))\}})[$\s.]*"
)
_ANSWER_LABEL = re.compile(  # "Answer: ", "### The final answer is "
    r"[#>\s-]{0,8}(?:(?i:(?:(?:so|therefore|thus),? )?(?:the |my )?(?:final |correct )?answer)"
    r"\s?(?:(?i:is)\b:?|[:：])|(?:最终)?答案\s?(?:[是为]\s?[:：]?|[:：]))\s{0,4}"
)
_ANSWER_KEYS = ("answer", "final_answer", "response", "prediction")
_FORMULA_ENDS = re.compile(r"(?:[a-z]|[\d})]\s?)\${1,2}(?=[\s.,;:)]|\Z)|\\\w")
_NUMBER_ENDS = re.compile(r"\d[.,]?\s*\Z")


def is_cut_off(response: str) -> bool:
    r"""Return True if a response ends with a number of a formula that is not closed.

    >>> [is_cut_off(text) for text in ("$x$ is $0.0", r"\boxed{12", "It is $5", r"$x$ is \$5")]
    [True, True, False, False]
    """
    text = _SPECIAL.sub(" ", response).replace("\\$", "")
    if not _NUMBER_ENDS.search(text):
        return False
    opens = (
        text.count("$") % 2 and _FORMULA_ENDS.search(text),
        text.count("\\(") > text.count("\\)"),
        text.count("\\[") > text.count("\\]"),
        "}" not in text.rpartition("\\boxed")[2] if "\\boxed" in text else False,
    )
    return any(opens)


def plain(response: str) -> str:
    """Return the text after the last correction, without markup that can join numbers.

    >>> plain("3 <b>m</b>. Wait: <b>1{,}500</b> m (confidence: 90%)").split()
    [':', '1,500', 'm']
    """
    text = unmarked(unescape(_SPECIAL.sub(" ", after_correction(response))))
    text = _TAG.sub(lambda tag: {"sup": "^", "sub": "_"}.get(tag[0][1:4].lower(), " "), text)
    text = _HOW_SURE.sub(" ", _SCALAR.sub(r"\1 \2", text))
    text = _LISTS.sub(lambda listed: _BETWEEN.sub(", ", listed[0]), text)
    for mark, readable in (
        ("{,}", ","),
        ("．", "."),
        ("\\,", "\u202f"),
        ("\\times", "×"),
        ("\\cdot", "×"),
        ("\\approx", "≈"),
        ("\\text", " "),
        ("\\mathrm", " "),
        ("\\%", "%"),
        ("**", " ") if "10**" not in text else ("**", "**"),
    ):
        text = text.replace(mark, readable)
    return text


def without_end_tokens(response: str) -> str:
    """Return a response without the special tokens at its end, which a server did not remove.

    >>> without_end_tokens("2011.<|im_end|> <|endoftext|>"), without_end_tokens("a </s> b")
    ('2011.', 'a </s> b')
    """
    text = response
    while token := _END_TOKEN.search(text.rstrip()[-64:]):
        text = text.rstrip().removesuffix(token[0])
    return text if text == response else text.rstrip()


def without_envelope(response: str) -> str:
    r"""Return the text of an answer without the marks and words that wrap a whole response.

    >>> [without_envelope(text) for text in ("**Answer:** Coca-Cola", r"\boxed{\text{a cup}}")]
    ['Coca-Cola', 'a cup']
    >>> without_envelope('{"answer": "a cup"}'), without_envelope('a "red" cup')
    ('a cup', 'a "red" cup')
    """
    text = without_end_tokens(response).strip()
    with suppress(ParseError):
        value = loads_lenient(text)[0] if "{" in text else None
        if isinstance(value, dict):
            values = [value.get(key) for key in _ANSWER_KEYS]
            answers = [value for value in values if type(value) in (str, int, float)]
            return str(answers[0]).strip() if len(answers) == 1 else text
    if box := _LAST_BOX.fullmatch(text):  # in a sentence
        return next(group for group in box.groups() if group).strip()
    *before, last = text.replace("**", "").splitlines() or [""]
    label = _ANSWER_LABEL.match(last)
    line_before = next(filter(str.strip, reversed(before)), "")
    if label or not line_before or _ANSWER_LABEL.fullmatch(line_before):
        text = last[label.end() if label else 0 :].rstrip().removesuffix("。")
    for envelope in _ENVELOPES * 2:  # they may be in one another
        if inside := envelope.fullmatch(text.strip()):
            text = next(group for group in inside.groups() if group is not None)
    return text.strip()


_LATEX_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mathit|boldsymbol)\s?\{([^{}]*)\}")


def without_latex(text: str) -> str:
    r"""Return a text without LaTeX around plain words and signs, and without blanks in formulas.

    >>> [without_latex(text) for text in (r"$50\%$", r"90^\circ", r"\textbf{R\&D}", r"\$4.99")]
    ['50%', '90°', 'R&D', '$4.99']
    >>> without_latex(r"2 \sqrt { 221 }"), without_latex(r"\(x\)"), without_latex("a red cup")
    ('2\\sqrt{221}', 'x', 'a red cup')
    """
    text = text.strip()
    for begin, end in (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        inside = text.removeprefix(begin).removesuffix(end)
        if len(text) == len(begin) + len(inside) + len(end) and begin not in inside.replace(
            r"\$", ""
        ):
            text = inside
    text = _LATEX_TEXT.sub(r"\1", text)
    text = re.sub(r"\s?\^\s?(?:\{\s?\\circ\s?\}|\\circ\b)", "°", text).replace("{,}", ",")
    text = re.sub(r"\\([$%&_#])", r"\1", re.sub(r"\\[,;:! ]", " ", text))
    # In formulas blanks mean nothing, but between two words or numbers.
    return re.sub(r"(?<!\w)\s+|\s+(?!\w)", "", text) if "\\" in text else text.strip()
