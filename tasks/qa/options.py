"""Options of a question with and without letters, and the strict score of the chosen letter."""

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase

from harness.errors import DataError
from harness.judging import same_words
from harness.metrics.choices import strict_choice
from harness.scores import Mean, Scores
from harness.task import ground_truth, single_answer
from harness.tasks.qa.answer_text import answer_text
from harness.types import Prediction, Sample

LETTERED = re.compile(r"\s*([A-Z])\s*[.):]\s*(.*)\Z", re.DOTALL)  # "A. left", "B) right"


def texts(options: Sequence[str], where: str) -> tuple[str, ...]:
    """Return options without their letters, which must be A, B, … in this order.

    Raises:
        DataError: an option has no letter or another one, or there are fewer than 2.

    >>> texts(["A. left", " B. right"], "record 3")
    ('left', 'right')
    """
    bare = []
    for letter, option in zip(ascii_uppercase, options, strict=False):
        match = LETTERED.match(option)
        if match is None or match[1] != letter:
            raise DataError(
                f"{where}: option {letter}",
                expected="texts that begin with A., B., …",
                found=repr(option)[:60],
            )
        bare.append(match[2].strip())
    if not 2 <= len(options) == len(bare):
        raise DataError(
            f"{where}: options", expected=f"2 to {len(ascii_uppercase)}", found=str(len(options))
        )
    return tuple(bare)


def lettered(options: Sequence[str]) -> list[str]:
    """Return options with their letters.

    >>> lettered(["left", "right"])
    ['A. left', 'B. right']
    """
    return [f"{letter}. {option}" for letter, option in zip(ascii_uppercase, options, strict=False)]


def strict_accuracy(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return 1 as `accuracy` if a response states the true letter, else 0.

    Without options, the response must have exactly the words of the true text.
    """
    sample, target, prediction = single_answer(unit, predictions)
    text, truth = answer_text(prediction) or "", target.answer.text
    if truth is not None and target.extra["letter"] is None:
        return {"accuracy": Mean(float(same_words(text, truth)))}
    return {"accuracy": Mean(float(stated_letter(sample, text) == target.extra["letter"]))}


def stated_letter(sample: Sample, text: str) -> str | None:
    """Return the letter that a text states, of the question's options, or None.

    Without options, return the text itself, or None if it is empty: strict protocols with `read_by`
    count a response as failed for which this is None.
    """
    extra = ground_truth(sample).extra
    if extra["letter"] is None:
        return text.strip() or None
    return strict_choice(text, letters=extra["letters"])


def response(prediction: Prediction, read: Callable[[str], str | None]) -> tuple[bool, str | None]:
    """Return whether there is an answer, and the letter that `read` takes from its text."""
    text = answer_text(prediction)
    return text is not None, None if text is None else read(text)
