"""Letters of options as the scorers of further benchmarks read them from responses.

Each is equal to the function of lmms-eval (commit 75571cf) that its docstring names; None where
that finds no letter.
"""

import re
from collections.abc import Sequence

from harness.responses import MAX_TEXT

PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
PERIODS = 32  # that are removed: the official call gives a flag where the number stands
MINDCUBE_SECTION = (
    r"[Mm]y answer is ([A-E])",
    r"[Tt]he answer is ([A-E])",
    r"(?:Answer: )?([A-E])\.",
    r"\b([A-E])\b",
)
MINDCUBE_FORMS = (
    r'(?:Answer: )?([A-E])\. [A-Za-z0-9 \-\(\)\'",]+(?=(?:\n|$|\.|"))',
    r'(?:Answer: )?([A-E])\. [A-Za-z0-9 \-\(\)\'"]+',
    r"(?:^|\n)(?:Answer: )?([A-E])(?:\.|$|\s)",
    r"[\*\"]([A-E])[\*\"]",
    r"\bAnswer:?\s*([A-E])\b",
    r"[Mm]y answer is ([A-E])",
    r"answer is ([A-E])",
)
THREE_DSR_FORMS = (
    r"^([A-D])[\.\s\)]",
    r"^([A-D])$",
    r"[Aa]nswer[:\s]+([A-D])",
    r"[Tt]he answer is[:\s]+([A-D])",
    r"[Mm]y answer is[:\s]+([A-D])",
    r"\(([A-D])\)",
    r"([A-D])\.",
    r"\b([A-D])\b",
)

MCQ_PHRASES = (
    *(f"{article}{what} is" for article in ("the ", "") for what in ("answer", "choice")),
    *(
        f"{article}{what} is"
        for article in ("the ", "")
        for what in ("correct answer", "best answer", "correct option", "best option")
    ),
    *("the correct choice is", "correct choice is", "my answer is", "my choice is"),
    *("i choose", "i select", "i pick", "옵션", "정답은", "답은", "답:"),
    *("答案是", "答案为", "选", "答えは"),
)
MCQ_FORMS = ("({})", "{}.", "{}:", "{})", "{} ", "{}")


def mvbench_choice(response: str) -> str | None:
    """`mcq_acc` of mvbench/utils.py: the first A to E that stands alone, in either case.

    >>> [mvbench_choice(text) for text in ("(B) left", "a dog", "left")]
    ['B', 'A', None]
    """
    response = response[:MAX_TEXT]
    if opening := re.match(r"^([A-E])\.\s*(.+)$", response.strip(), re.IGNORECASE):
        return opening[1].upper()
    text = response.replace("\n", " ").replace("\t", " ").strip()
    written, has_commas = text, re.search(r"(\d)(\,)(\d)", text) is not None
    for mark in PUNCTUATION:
        cut = f"{mark} " in text or f" {mark}" in text or has_commas
        written = written.replace(mark, "" if cut else " ")
    written = re.sub(r"(?!<=\d)(\.)(?!\d)", "", written, count=PERIODS)
    written = written.strip("'").strip('"').strip(")").strip("(").strip().lower()
    return _found(r"\b([A-E])\b", written, re.IGNORECASE)


def perception_test_choice(response: str) -> str | None:
    """`perceptiontest_val_process_results_mc`: the first capital A to D that stands alone.

    >>> [perception_test_choice(text) for text in ("It is B.", "A dog", "b")]
    ['B', 'A', None]
    """
    return _found(r"\b([A-D])\b", response)


def mmsi_choice(response: str) -> str | None:
    """`extract_single_choice_with_word_boundary` of mmsi_bench/utils.py.

    The first A to F, in either case, that stands alone and is not followed by a word, in the first
    text between back quotes or braces where there is one.

    >>> [mmsi_choice(text) for text in ("``C``", "A dog or b", "a dog")]
    ['C', 'B', None]
    """
    text = response[:MAX_TEXT]
    for marked in (r"``([^`]*)``", r"`([^`]*)`", r"\{([^}]*)\}"):
        if match := re.search(marked, text):
            text = match[1]
    match = re.search(r"\b[A-F]\b(?!\s[a-zA-Z])", text, re.IGNORECASE)
    return match[0].upper() if match else None


def mindcube_choice(response: str) -> str | None:
    """`extract_answer` of MindCube's extractors.py (6d8fd9a), and of mindcube/utils.py.

    The last letter A to E of the first form that fits; lmms-eval strips the response before.

    >>> [mindcube_choice(text) for text in ("A. no, B. yes", "My answer is D", "none")]
    ['B', 'D', None]
    """
    text = response[:MAX_TEXT]
    section = re.search(r"<Answer>(.*?)(?:<|$)", text, re.DOTALL)
    parts: list[tuple[tuple[str, ...], str]] = [((r"([A-E])\.",), text)]
    parts += [(MINDCUBE_SECTION, section[1])] if section else []
    for forms, part in [*parts, (MINDCUBE_FORMS, text)]:
        if letters := next(filter(None, (re.findall(form, part) for form in forms)), None):
            return str(letters[-1])
    lines = reversed(text.split("\n"))
    return next(filter(None, (_found(r"\b([A-E])\b", line) for line in lines)), None)


def view_spatial_choice(response: str) -> str | None:
    r"""`extract_option` of viewspatial/utils.py: the first A to D, alone, in the last line.

    >>> [view_spatial_choice(text) for text in ("Not B\nbut c", "B\n", "a dog")]
    ['C', None, 'A']
    """
    return _found(r"\b([A-D])\b", response.split("\n")[-1], re.IGNORECASE)


def leading_choice(response: str) -> str | None:
    """`_extract_answer_letter` of blink/utils.py and embspatial/utils.py: the first letter at all.

    >>> [leading_choice(text) for text in ("(b) left", "The left", "1")]
    ['B', 'T', None]
    """
    match = re.match(r"[\(\s]*([A-Z])[\)\.\s]*", response[:MAX_TEXT].strip(), re.IGNORECASE)
    return match[1].upper() if match else None


def three_dsr_choice(response: str) -> str | None:
    """`extract_answer` of 3dsrbench/utils.py: the first letter A to D of the first form that fits.

    >>> [three_dsr_choice(text) for text in ("B) left", "A or (C)", "a")]
    ['B', 'A', None]
    """
    text = response[:MAX_TEXT].strip()
    return next(filter(None, (_found(form, text) for form in THREE_DSR_FORMS)), None)


def site_choice(response: str, letters: Sequence[str]) -> str | None:
    """`parse_multi_choice_response` of sitebench/utils.py, which takes a random letter for None.

    The letters in parentheses, else alone between blanks, else before a full stop, else at a colon;
    of several the last that stands between blanks.

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
    """`extract_mcq_answer` of tasks/_task_utils/mcq_extract.py.

    A letter at the response's beginning or else its end that is not part of a word; else, of the
    places of each letter's first occurrence after a phrase such as `the answer is`, the last; else
    the last letter in the first of `MCQ_FORMS` that occurs.

    >>> [mcq_choice(text, "ABC") for text in ("A dog, or B", "It is (B) or C.", "Because", "no")]
    ['A', 'C', 'B', None]
    """
    text = response[:MAX_TEXT].strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    text, bare = f" {text} ", text.strip()
    for place, beside in ((0, 1), (-1, -2)):
        if bare and bare[place] in letters and (len(bare) == 1 or not bare[beside].isalpha()):
            return bare[place]
    lower = text.lower()
    ends = [lower.find(phrase) + len(phrase) for phrase in MCQ_PHRASES if phrase in lower]
    places = [[(text.find(letter, end), letter) for letter in letters for end in ends]]
    places += [
        [(text.rfind(form.format(letter)), letter) for letter in letters] for form in MCQ_FORMS
    ]
    last_places = (max(form_places, default=(-1, "")) for form_places in places)
    return next((letter for place, letter in last_places if place >= 0), None)


def _found(form: str, text: str, flags: int = 0) -> str | None:
    match = re.search(form, text[:MAX_TEXT], flags)
    return match[1].upper() if match else None
