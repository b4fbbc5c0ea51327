"""Readers of the chosen option from a response, as the authors of a benchmark wrote them.

They are used for benchmarks whose reader in lmms-eval (`letter_readers`) differs from the authors'.
Each docstring names the authors' function, file and commit. A letter is returned, or None where
their code finds none.
"""

import re
from collections.abc import Sequence

from harness.responses import MAX_TEXT

API_ERROR = "API Error"
"""Text that the code of Video-MMMU writes in the place of an answer."""
STRIPPED_AT_ENDS = ",.!?;:'"
MAX_SHORT_WORDS = 5  # only in a response of more words are the texts of options searched


def blink_prediction(response: str) -> str | None:
    """Return the letter of a prediction as BLINK's evaluate.py (2d6a779) compares it: `(A)` alone.

    A bare letter counts too: test_benchmark.py saves it in parentheses.

    >>> [blink_prediction(text) for text in ("(B)", "B", "(C) Point C", "(Z) Failed")]
    ['B', 'B', None, None]
    """
    match = re.fullmatch(r"([A-E])|\(([A-E])\)", response[:MAX_TEXT])
    return None if match is None else match[1] or match[2]


def blink_choice(response: str, letters: str) -> str | None:
    r"""Return the letter that `analyze_answer` of BLINK's test_benchmark.py (2d6a779) finds.

    It is all of the response (`A` or `(A)`); else the only option's letter in parentheses between
    blanks, in the last paragraph or else in the whole response. Where there is none, or several,
    the authors ask GPT-3.5; here it is None.

    >>> [blink_choice(text, "ABCD") for text in ("B", "It is (C) red", "(A) or (B)", "B. red")]
    ['B', 'C', None, None]
    >>> blink_choice("(A) is not.\n\nIt is (B) red", "ABCD")
    'B'
    """
    text = response[:MAX_TEXT]
    if alone := blink_prediction(text):
        return alone
    for part in (text.split("\n\n")[-1], text):
        words = set(part.split())
        letters_in_part = [letter for letter in letters if f"({letter})" in words]
        if len(letters_in_part) == 1:
            return letters_in_part[0]
    return None


def mmsi_author_choice(response: str) -> str | None:
    """Read a letter as `extract_single_choice_with_word_boundary` in VLMEvalKit's mmsi_bench.py.

    That is the first capital A to D that stands alone and is not followed by a word; if the
    response has text between back quotes, only the first such text is searched (commit 4e28bff).

    >>> [mmsi_author_choice(text) for text in ("``C``", "A dog or B", "b")]
    ['C', 'B', None]
    """
    text = response[:MAX_TEXT]
    for marked in (r"``([^`]*)``", r"`([^`]*)`"):
        if match := re.search(marked, text):
            text = match[1]
    match = re.search(r"\b[A-D]\b(?!\s[a-zA-Z])", text)
    return match[0] if match else None


def is_mvbench_option(response: str, letter: str) -> bool:
    """Return True if a response picks a letter by MVBench's `check_ans`, from its first line.

    It does if the first word, without full stops, is a substring of `(a)` or contains it; so an
    empty response picks every option. From video_chat2/mvbench.ipynb (4dd8210), whose prompt ends
    with `(`, which it puts before the response.

    >>> [is_mvbench_option(text, "A") for text in ("(A) left", "a dog", "", "The answer is A")]
    [True, True, True, False]
    """
    line = response[:MAX_TEXT].strip().split("\n")[0].lower()
    word, option = line.split(" ")[0], f"({letter.lower()})"
    return word.replace(".", "") in option or option in word


def videommmu_author_choice(response: str, letters: str, options: Sequence[str]) -> str | None:
    """Read a letter as `parse_multi_choice_response` in Video-MMMU's videommmu/utils.py (88b4ac3).

    It searches for letters before a full stop or colon, else in parentheses, else before a blank;
    else, in a response of more than five words, for the texts of options. The first of these forms
    that occurs decides; of several letters in this form, the last one does.

    >>> options = ["left side", "right", "up", "down"]
    >>> said = ("B. right", "(A) or (C)", "B) left", "It has to be on the right of it")
    >>> [videommmu_author_choice(text, "ABCD", options) for text in said]
    ['B', 'C', None, 'B']
    """
    text = response[:MAX_TEXT]
    for mark in STRIPPED_AT_ENDS:
        text = text.strip(mark)
    text = f" {text} "
    before_stop = [letter for letter in letters if f"{letter}." in text]
    before_colon = [letter for letter in letters if f"{letter}:" in text]
    if before_stop or before_colon:
        return _last([*before_stop, *before_colon], text, "{}." if before_stop else "{}:")
    if in_parentheses := [letter for letter in letters if f"({letter})" in text]:
        return _last(in_parentheses, text, "({})")
    if before_blank := [letter for letter in letters if f"{letter} " in text]:
        return _last(before_blank, text, " {} ")
    lower = text.lower()
    if len(text.split()) > MAX_SHORT_WORDS:
        texts = dict(zip(letters, (option.lower() for option in options), strict=False))
        if places := [
            (lower.rfind(option), letter) for letter, option in texts.items() if option in lower
        ]:
            return max(places, key=lambda place_and_letter: place_and_letter[0])[1]
    return None


def _last(letters: Sequence[str], text: str, form: str) -> str:
    """Return the letter whose `form`, such as `({})`, occurs last; if none occurs, the first."""
    return max(letters, key=lambda letter: text.rfind(form.format(letter)))
