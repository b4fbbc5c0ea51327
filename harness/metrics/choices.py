"""Readers of the chosen option from a response: those of official scorers, and a strict one.

Most official readers return the first capital letter that could be an option, after cutting phrases
such as "The answer is", so that "Because" picks B. `strict_choice` returns a letter only if the
response states it as its answer. Scorers of tasks call them; None means that no option was read.
"""

import hashlib
import re
from collections.abc import Sequence

from harness.errors import DataError, ParseError
from harness.stated.letters import stated_letter

FIVE_LETTERS = "ABCDE"

VIDEO_MME_PHRASES = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    # Two commas are missing in the official list, so that two pairs of phrases are one each.
    "The best option isThe correct option is",
    "Best answer:Best option:",
    "Answer:",
    "Option:",
    "The correct answer",
    "The correct option",
)
VIDEO_MME_V2_PHRASES = (
    "Final Answer:",
    *VIDEO_MME_PHRASES[:4],
    "The best option is",
    "The correct option is",
    "Best answer:",
    "Best option:",
    "Answer:",
    "Option:",
)
LONGVIDEOBENCH_PHRASES = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option is",
    "The correct option is",
    "Best answer:",
    "Best option:",
)
# The first of these forms that occurs anywhere decides; letters are of either case.
STI_BENCH_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.MULTILINE)
    for form in (
        r"\(([A-E])\)",  # (B)
        r"ans\s*=\s*[\"']?([A-E])",  # ans = 'B
        r"answer\s*[=:]\s*([A-E])",  # Answer: B
        r"option\s+([A-E])",  # option B
        r"\b([A-E])\s*(?:was|is)\s*correct",  # B is correct
        r"\b([A-E])[).]\s*$",  # B. at the end of a line
    )
)


def video_mme_choice(response: str) -> str | None:
    """The letter A to D that Video-MME's scorer reads, or None.

    The first of these letters anywhere in the response counts, after some phrases were cut:
    "Because" picks B. Equal to `extract_characters_regex` in `eval_your_results.py`
    (thanku-all/parse_answer, commit afd52cf), whose "" is None here. The protocol
    `videomme/official` leaves a None out of the numerator *and* the denominator; `videomme/strict`
    counts it wrong.

    >>> responses = "(C) a cat", "Because of it", "The answer: none"
    >>> [video_mme_choice(response) for response in responses]
    ['C', 'B', None]
    """
    return _first_letter(response, VIDEO_MME_PHRASES, "ABCD")


def video_mme_v2_choice(response: str) -> str | None:
    """The letter A to H that Video-MME-v2's scorer reads, or None.

    Equal to `extract_characters_regex_v2` in `evaluation/test_video_mme_v2.py`
    (MME-Benchmarks/Video-MME-v2, commit b24176a), whose "" is None here.

    >>> responses = "Final Answer: H", "However", "i do not know"
    >>> [video_mme_v2_choice(response) for response in responses]
    ['H', 'H', None]
    """
    return _first_letter(response, VIDEO_MME_V2_PHRASES, "ABCDEFGH")


def longvideobench_choice(response: str) -> str | None:
    """The letter A to E that the scorer of LongVideoBench reads, or None.

    It may be a letter beyond the question's own options. Equal to `parse_multi_choice_response` in
    `lmms_eval/tasks/longvideobench/utils.py` (lmms-eval, commit 75571cf), except that the official
    code picks an option at random where this returns None; see `seeded_choice`.

    >>> responses = "E. the end", "The answer is B", "no idea"
    >>> [longvideobench_choice(response) for response in responses]
    ['E', 'B', None]
    """
    return _first_letter(response, LONGVIDEOBENCH_PHRASES, FIVE_LETTERS)


def seeded_choice(sample_id: str, letters: Sequence[str]) -> str:
    """Return a pseudo-random option that depends only on the sample's id and the letters.

    LongVideoBench gives an unreadable response a random option. The official code draws it from the
    process's generator, so that its score changes from run to run; this one does not.

    Raises:
        DataError: there is no option.

    >>> [seeded_choice(f"video_{number}", "ABCD") for number in range(6)]
    ['A', 'B', 'A', 'A', 'D', 'B']
    """
    if not letters:
        raise DataError(f"options of {sample_id!r}", expected="at least one", found="none")
    digest = hashlib.blake2b(sample_id.encode(), digest_size=8, person=b"harness-choice")
    return letters[int.from_bytes(digest.digest()) % len(letters)]


def sti_bench_choice(response: str) -> str | None:
    """The letter A to E that STI-Bench's script reads, or None.

    The first of `STI_BENCH_FORMS` that is found gives the letter ("(b)", "Option d…"), else the
    last character of the stripped response. Equal to `extract_answer` and the column `correct`
    of `opensource_test.py` (STI-Bench, commit 43ddebe), which ends with an error for an empty
    response; here it is None.

    >>> responses = ("Answer: b", "It is D", "option described", "B is wrong", "")
    >>> [sti_bench_choice(response) for response in responses]
    ['B', 'D', 'D', None, None]
    """
    for form in STI_BENCH_FORMS:
        match = form.search(response)
        if match:
            return match[1].upper()
    last = response.strip()[-1:]
    return last if last and last in FIVE_LETTERS else None


def strict_choice(
    response: str, *, letters: str = "ABCD", options: Sequence[str] = ()
) -> str | None:
    """The one letter that the response states as its answer (`harness.stated.letters`), or None.

    Two different letters are not an answer, nor is a word that happens to begin with one ("A
    dog", "Because").

    >>> [strict_choice(response) for response in ("(B) a cat", "b", "I think the answer is **D**.")]
    ['B', 'B', 'D']
    >>> responses = "", "A dog", "Because", "A. or the answer is B", "E"
    >>> [strict_choice(response) for response in responses]
    [None, None, None, None, None]
    """
    try:
        return stated_letter(response, letters, options)
    except ParseError:
        return None


def _first_letter(response: str, phrases: Sequence[str], letters: str) -> str | None:
    """Return the first of `letters` in a response from which the phrases were removed."""
    text = response.strip()
    for phrase in phrases:
        text = text.replace(phrase, "")
    match = re.search(f"[{letters}]", text)
    return match[0] if match else None
