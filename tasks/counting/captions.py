"""Turn CountBench's captions, which state the number of objects, into questions that do not."""

import re

NUMERALS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)
OTHER_WORDS = {
    2: ("twos", "both", "pair", "pairs", "couple", "couples", "duo", "duos", "twin", "twins"),
    3: ("threes", "trio", "trios", "triple", "triplet", "triplets"),
    4: ("fours", "quartet", "quartets", "quadruplets"),
    5: ("fives", "quintet", "quintets", "quintuplets"),
    6: ("sixes", "sextet", "half a dozen", "half-dozen", "half dozen"),
    7: ("sevens", "septet"),
    8: ("eights", "octet"),
    9: ("nines", "nonet"),
    10: ("tens",),
    12: ("dozen",),
}
"""Further words for a number, by the number."""

LETTER = r"[^\W\d_]"  # a letter of any script


def without_number(caption: str, number: int) -> str:
    """Return a question for the number of a caption, with the number replaced by `…`.

    Both its digits and its words are replaced, in any case, also in a compound ("five-piece",
    "5pcs"); longer numbers ("15") and longer words ("fiver") are not.

    >>> without_number("Five red apples on a table", 5)
    'How many are there? The picture shows: "… red apples on a table"'
    >>> without_number("SET OF 10 often-used icons (10pcs, 100 colours)", 10)
    'How many are there? The picture shows: "SET OF … often-used icons (…pcs, 100 colours)"'
    """
    hidden = re.sub(r"\d+", lambda digits: _unless_number(digits, number), caption.strip())
    number_words = [*OTHER_WORDS.get(number, ()), *NUMERALS[number : number + 1]]
    if number_words:
        either = "|".join(number_words)
        whole_word = rf"(?<!{LETTER})({either})(?!{LETTER})"
        hidden = re.sub(whole_word, "…", hidden, flags=re.IGNORECASE)
    return f'How many are there? The picture shows: "{hidden}"'


def _unless_number(digits: re.Match[str], number: int) -> str:
    """Return `…` if the digits are the number, or else the digits."""
    is_short = len(digits[0]) <= 9  # `int` refuses very long ones
    return "…" if is_short and int(digits[0]) == number else digits[0]
