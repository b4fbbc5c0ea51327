"""Letters of options as benchmarks' own authors read them, where lmms-eval reads otherwise.

Each names the authors' function, file and commit; None where that finds no letter.
"""

import re
from collections.abc import Sequence

from harness.responses import MAX_TEXT

API_ERROR = "API Error"
"""Text that the code of Video-MMMU writes in the place of an answer."""
ENDS = ",.!?;:'"
LONG = 5  # words, above which the text of an option is looked for


def blink_prediction(response: str) -> str | None:
    """The letter of a prediction as BLINK's evaluate.py (2d6a779) compares it: `(A)` alone.

    A bare letter counts too, which test_benchmark.py puts into parentheses before it is saved.

    >>> [blink_prediction(text) for text in ("(B)", "B", "(C) Point C", "(Z) Failed")]
    ['B', 'B', None, None]
    """
    match = re.fullmatch(r"([A-E])|\(([A-E])\)", response[:MAX_TEXT])
    return None if match is None else match[1] or match[2]


def blink_choice(response: str, letters: str) -> str | None:
    r"""The letter that `analyze_answer` of BLINK's test_benchmark.py (2d6a779) finds by its rules.

    A response that is nothing but `A` or `(A)`; else the only letter of an option that stands in
    parentheses between blanks, in the last paragraph or else in all of the response. Where there is
    none or several, the authors ask GPT-3.5; here it is None.

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
    """`extract_single_choice_with_word_boundary` of vlmeval/dataset/mmsi_bench.py (4e28bff).

    The first capital A to D that stands alone and is not followed by a word, in the first text
    between back quotes where there is one.

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
    """`check_ans` of MVBench's notebook (video_chat2/mvbench.ipynb, 4dd8210), of the first line.

    The first word without its full stops is part of `(a)`, which an empty response is too; or it
    has `(a)` in it. The notebook's prompt ends with `(`, which it puts before the response.

    >>> [is_mvbench_option(text, "A") for text in ("(A) left", "a dog", "", "The answer is A")]
    [True, True, True, False]
    """
    line = response[:MAX_TEXT].strip().split("\n")[0].lower()
    word, option = line.split(" ")[0], f"({letter.lower()})"
    return word.replace(".", "") in option or option in word


def videommmu_author_choice(response: str, letters: str, options: Sequence[str]) -> str | None:
    """`parse_multi_choice_response` of videommmu/utils.py in Video-MMMU's own code (88b4ac3).

    Letters before a full stop or a colon, else in parentheses, else before a blank; else, in a
    response of more than five words, the options whose text is in it. Of several the one counts
    that occurs last in the first of these forms that has any.

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
            return max(places, key=lambda place: place[0])[1]
    return None


def _last(letters: Sequence[str], text: str, form: str) -> str:
    """Return the letter whose form occurs last; the first such letter if places are equal."""
    return max(letters, key=lambda letter: text.rfind(form.format(letter)))
