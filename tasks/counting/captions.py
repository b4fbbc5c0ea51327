"""CountBench's captions state their number; a question must not."""

import re

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def without_number(caption: str, number: int) -> str:
    """Ask for the number that a caption states, with that number left out.

    >>> without_number("Five red apples on a table", 5)
    'How many are there? The picture shows: "… red apples on a table"'
    """
    word = WORDS[number] if 0 <= number < len(WORDS) else str(number)
    hidden = re.sub(rf"\b({word}|{number})\b", "…", caption.strip(), flags=re.IGNORECASE)
    return f'How many are there? The picture shows: "{hidden}"'
