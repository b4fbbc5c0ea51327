"""Readers of the chosen option from a response, as lmms-eval's scorers of benchmarks read it.

Each takes the response and returns a capital letter, or None if it finds none. Each equals the
function of lmms-eval (commit 75571cf) that its docstring names, oddities included.
"""

import re
from collections.abc import Sequence

from harness.responses import MAX_TEXT

REMOVED_CHARACTERS = ';/[]"{}()=+\\_-><@`,?!'
"""Characters that `mvbench_choice` removes, or replaces by blanks."""
MAX_REMOVED_PERIODS = 32  # the official call passes the flag re.UNICODE (32) as `count` by mistake
MINDCUBE_SECTION_FORMS = (
    r"[Mm]y answer is ([A-E])",
    r"[Tt]he answer is ([A-E])",
    r"(?:Answer: )?([A-E])\.",
    r"\b([A-E])\b",
)
"""Forms of an answer between `<Answer>` and the next tag, in order of precedence."""
MINDCUBE_FORMS = (
    r'(?:Answer: )?([A-E])\. [A-Za-z0-9 \-\(\)\'",]+(?=(?:\n|$|\.|"))',  # A. a red chair.
    r'(?:Answer: )?([A-E])\. [A-Za-z0-9 \-\(\)\'"]+',  # Answer: A. a red chair
    r"(?:^|\n)(?:Answer: )?([A-E])(?:\.|$|\s)",  # A at the start of a line
    r"[\*\"]([A-E])[\*\"]",  # *A* or "A"
    r"\bAnswer:?\s*([A-E])\b",  # Answer: A
    r"[Mm]y answer is ([A-E])",
    r"answer is ([A-E])",
)
"""Forms of an answer anywhere, in order of precedence."""
THREE_DSR_FORMS = (
    r"^([A-D])[\.\s\)]",  # A) left
    r"^([A-D])$",  # A
    r"[Aa]nswer[:\s]+([A-D])",  # Answer: A
    r"[Tt]he answer is[:\s]+([A-D])",
    r"[Mm]y answer is[:\s]+([A-D])",
    r"\(([A-D])\)",  # (A)
    r"([A-D])\.",  # A.
    r"\b([A-D])\b",
)
"""Forms of an answer in order of precedence."""

MCQ_PHRASES = (
    *(f"{article}{noun} is" for article in ("the ", "") for noun in ("answer", "choice")),
    *(
        f"{article}{noun} is"
        for article in ("the ", "")
        for noun in ("correct answer", "best answer", "correct option", "best option")
    ),
    *("the correct choice is", "correct choice is", "my answer is", "my choice is"),
    *("i choose", "i select", "i pick", "옵션", "정답은", "답은", "답:"),
    *("答案是", "答案为", "选", "答えは"),
)
"""Phrases after which `mcq_choice` looks for a letter, in the order of the official code."""
MCQ_FORMS = ("({})", "{}.", "{}:", "{})", "{} ", "{}")
"""Forms of a letter (in place of `{}`) in order of precedence."""


def mvbench_choice(response: str) -> str | None:
    """Read a letter as `mcq_acc` of mvbench/utils.py: the first A to E that stands alone.

    Letters of either case count; punctuation is removed first.

    >>> [mvbench_choice(text) for text in ("(B) left", "a dog", "left")]
    ['B', 'A', None]
    """
    response = response[:MAX_TEXT]
    if opening := re.match(r"^([A-E])\.\s*(.+)$", response.strip(), re.IGNORECASE):
        return opening[1].upper()
    text = response.replace("\n", " ").replace("\t", " ").strip()
    cleaned, has_commas = text, re.search(r"(\d)(\,)(\d)", text) is not None
    for mark in REMOVED_CHARACTERS:
        is_beside_blank = f"{mark} " in text or f" {mark}" in text
        cleaned = cleaned.replace(mark, "" if is_beside_blank or has_commas else " ")
    cleaned = re.sub(r"(?!<=\d)(\.)(?!\d)", "", cleaned, count=MAX_REMOVED_PERIODS)
    cleaned = cleaned.strip("'").strip('"').strip(")").strip("(").strip().lower()
    return _first_match(r"\b([A-E])\b", cleaned, re.IGNORECASE)


def perception_test_choice(response: str) -> str | None:
    """Read a letter as `perceptiontest_val_process_results_mc`: the first capital A to D alone.

    >>> [perception_test_choice(text) for text in ("It is B.", "A dog", "b")]
    ['B', 'A', None]
    """
    return _first_match(r"\b([A-D])\b", response)


def mmsi_choice(response: str) -> str | None:
    """Read a letter as `extract_single_choice_with_word_boundary` of mmsi_bench/utils.py.

    That is the first A to F, in either case, that stands alone and is not followed by a word. If
    the response has text between back quotes or braces, only the first such text is searched.

    >>> [mmsi_choice(text) for text in ("``C``", "A dog or b", "a dog")]
    ['C', 'B', None]
    """
    text = response[:MAX_TEXT]
    for quoted in (r"``([^`]*)``", r"`([^`]*)`", r"\{([^}]*)\}"):
        if match := re.search(quoted, text):
            text = match[1]
    match = re.search(r"\b[A-F]\b(?!\s[a-zA-Z])", text, re.IGNORECASE)
    return match[0].upper() if match else None


def mindcube_choice(response: str) -> str | None:
    """Read a letter as `extract_answer` of MindCube's extractors.py (6d8fd9a) and lmms-eval.

    That is the last match, A to E, of the first form that occurs: `A.`, then the forms of an
    `<Answer>` section, then other forms. If none occurs, it is the first letter that stands alone
    in the last line with one. lmms-eval (mindcube/utils.py) strips the response first.

    >>> [mindcube_choice(text) for text in ("A. no, B. yes", "My answer is D", "none")]
    ['B', 'D', None]
    """
    text = response[:MAX_TEXT]
    section = re.search(r"<Answer>(.*?)(?:<|$)", text, re.DOTALL)
    parts: list[tuple[tuple[str, ...], str]] = [((r"([A-E])\.",), text)]
    parts += [(MINDCUBE_SECTION_FORMS, section[1])] if section else []
    for forms, part in [*parts, (MINDCUBE_FORMS, text)]:
        for form in forms:
            if letters := re.findall(form, part):
                return str(letters[-1])
    for line in reversed(text.split("\n")):
        if letter := _first_match(r"\b([A-E])\b", line):
            return letter
    return None


def view_spatial_choice(response: str) -> str | None:
    r"""Read a letter as `extract_option` of viewspatial/utils.py: the first A to D alone.

    Only the last line is searched, for letters of either case.

    >>> [view_spatial_choice(text) for text in ("Not B\nbut c", "B\n", "a dog")]
    ['C', None, 'A']
    """
    return _first_match(r"\b([A-D])\b", response.split("\n")[-1], re.IGNORECASE)


def leading_choice(response: str) -> str | None:
    """Read a letter as `_extract_answer_letter` of blink/utils.py and embspatial/utils.py.

    That is the first character after blanks and opening parentheses, if it is any letter.

    >>> [leading_choice(text) for text in ("(b) left", "The left", "1")]
    ['B', 'T', None]
    """
    match = re.match(r"[\(\s]*([A-Z])[\)\.\s]*", response[:MAX_TEXT].strip(), re.IGNORECASE)
    return match[1].upper() if match else None


def three_dsr_choice(response: str) -> str | None:
    """Read a letter as `extract_answer` of 3dsrbench/utils.py, by the first form that occurs.

    >>> [three_dsr_choice(text) for text in ("B) left", "A or (C)", "a")]
    ['B', 'A', None]
    """
    text = response[:MAX_TEXT].strip()
    for form in THREE_DSR_FORMS:
        if letter := _first_match(form, text):
            return letter
    return None


def site_choice(response: str, letters: Sequence[str]) -> str | None:
    """Read a letter as `parse_multi_choice_response` of sitebench/utils.py.

    It searches for letters in parentheses, else between blanks, else before a full stop, else
    beside a colon. Of several letters it takes the one that occurs last between blanks, or the
    first if none does. In place of None the official code takes a random letter.

    >>> [site_choice(text, "ABCD") for text in ("(A) or B", "A or B", "left")]
    ['A', 'B', None]
    """
    text = f" {response[:MAX_TEXT].strip()} "
    forms = (("({})",), (" {} ",), ("{}.",), ("{}:", ":{}", ": {}"))
    for marked_forms in forms:
        candidates = [
            letter
            for letter in letters
            if any(form.format(letter) in text for form in marked_forms)
        ]
        if candidates:
            places = [text.rfind(f" {letter} ") for letter in candidates]
            return candidates[places.index(max(places))]
    return None


def mcq_choice(response: str, letters: Sequence[str]) -> str | None:
    """Read a letter as `extract_mcq_answer` of tasks/_task_utils/mcq_extract.py.

    That is a letter at the response's beginning, or else its end, that is not part of a word. Else,
    for each phrase of `MCQ_PHRASES` that occurs, each letter's first place after it is found, and
    the letter of the last such place counts. Else it is the last letter in the first of `MCQ_FORMS`
    that occurs.

    >>> [mcq_choice(text, "ABC") for text in ("A dog, or B", "It is (B) or C.", "Because", "no")]
    ['A', 'C', 'B', None]
    """
    text = response[:MAX_TEXT].strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    text, bare = f" {text} ", text.strip()
    for offset, neighbour in ((0, 1), (-1, -2)):  # the first letter, then the last one
        if bare and bare[offset] in letters and (len(bare) == 1 or not bare[neighbour].isalpha()):
            return bare[offset]
    lower = text.lower()
    ends = [lower.find(phrase) + len(phrase) for phrase in MCQ_PHRASES if phrase in lower]
    # Lists of (place or -1, letter): after phrases, then by form; the first with a place counts.
    places = [[(text.find(letter, end), letter) for letter in letters for end in ends]]
    places += [
        [(text.rfind(form.format(letter)), letter) for letter in letters] for form in MCQ_FORMS
    ]
    for form_places in places:
        offset, letter = max(form_places, default=(-1, ""))
        if offset >= 0:
            return letter
    return None


def _first_match(form: str, text: str, flags: int = 0) -> str | None:
    """Return the first group of a pattern's first match, as a capital; None: no match."""
    match = re.search(form, text[:MAX_TEXT], flags)
    return match[1].upper() if match else None
