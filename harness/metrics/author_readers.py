"""Readers of the chosen option from a response, as a benchmark's authors wrote them.

They are for the benchmarks of which lmms-eval's reader (`letter_readers`) differs. Each function
takes the response and returns a letter, or None where the authors' code finds none; it names their
function, file and commit.
"""

import re
from collections.abc import Sequence

from harness.responses import MAX_TEXT

API_ERROR = "API Error"
"""Text that the code of Video-MMMU writes in the place of an answer."""
ENDS = ",.!?;:'"  # characters stripped from a response's ends
LONG = 5  # words of a response; in a longer one the texts of options are searched


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
    words, last = (set(part.split()) for part in (text, text.split("\n\n")[-1]))
    letters_in, letters_in_last = (
        [letter for letter in letters if f"({letter})" in part] for part in (words, last)
    )
    if len(letters_in_last) == 1:
        return letters_in_last[0]
    return letters_in[0] if len(letters_in) == 1 else None


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

    It does if the first word, without full stops, is part of `(a)` or contains it. An empty
    response is part of every option. From video_chat2/mvbench.ipynb (4dd8210), whose prompt ends
    with `(`; it puts that before the response.

    >>> [is_mvbench_option(text, "A") for text in ("(A) left", "a dog", "", "The answer is A")]
    [True, True, True, False]
    """
    line = response[:MAX_TEXT].strip().split("\n")[0].lower()
    word, option = line.split(" ")[0], f"({letter.lower()})"
    return word.replace(".", "") in option or option in word


def videommmu_author_choice(response: str, letters: str, options: Sequence[str]) -> str | None:
    """Read a letter as `parse_multi_choice_response` in Video-MMMU's videommmu/utils.py (88b4ac3).

    Searched are letters before a full stop or colon, else in parentheses, else before a blank;
    else, in a response of more than five words, the texts of options. The first of these forms that
    occurs decides; of several letters in it, the last.

    >>> options = ["left side", "right", "up", "down"]
    >>> said = ("B. right", "(A) or (C)", "B) left", "It has to be on the right of it")
    >>> [videommmu_author_choice(text, "ABCD", options) for text in said]
    ['B', 'C', None, 'B']
    """
    text = response[:MAX_TEXT]
    for mark in ENDS:
        text = text.strip(mark)
    text = f" {text} "
    marked = [[letter for letter in letters if f"{letter}{mark}" in text] for mark in ".:"]
    if any(marked):
        form = "{}." if marked[0] else "{}:"
        return _last([*marked[0], *marked[1]], text, form)
    if in_parentheses := [letter for letter in letters if f"({letter})" in text]:
        return _last(in_parentheses, text, "({})")
    if before_blank := [letter for letter in letters if f"{letter} " in text]:
        return _last(before_blank, text, " {} ")
    lower = text.lower()
    if len(text.split()) > LONG:
        texts = dict(zip(letters, (option.lower() for option in options), strict=False))
        if places := [
            (lower.rfind(option), letter) for letter, option in texts.items() if option in lower
        ]:
            return max(places, key=lambda place_and_letter: place_and_letter[0])[1]
    return None


def _last(letters: Sequence[str], text: str, form: str) -> str:
    """Return the letter whose form occurs last; the first such letter if places are equal."""
    return max(letters, key=lambda letter: text.rfind(form.format(letter)))
