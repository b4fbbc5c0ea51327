"""CountBench's captions state their number; a question must not."""

import re

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
OTHERS = {
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

LETTER = r"[^\W\d_]"


def without_number(caption: str, number: int) -> str:
    """Ask for the number that a caption states, with that number left out.

    It is left out as digits and in words, in any case, also where it is part of a compound
    ("five-piece", "5pcs"); longer numbers and words that contain it stay.

    >>> without_number("Five red apples on a table", 5)
    'How many are there? The picture shows: "… red apples on a table"'
    >>> without_number("SET OF 10 often-used icons (10pcs, 100 colours)", 10)
    'How many are there? The picture shows: "SET OF … often-used icons (…pcs, 100 colours)"'
    """
    hidden = re.sub(r"\d+", lambda digits: _unless_number(digits, number), caption.strip())
    words = [*OTHERS.get(number, ()), *WORDS[number : number + 1]]
    if words:
        either = "|".join(words)
        hidden = re.sub(rf"(?<!{LETTER})({either})(?!{LETTER})", "…", hidden, flags=re.IGNORECASE)
    return f'How many are there? The picture shows: "{hidden}"'


def _unless_number(digits: re.Match[str], number: int) -> str:
    short = len(digits[0]) <= 9
    return "…" if short and int(digits[0]) == number else digits[0]
