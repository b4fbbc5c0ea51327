"""TempCompass: rules that match a response with the true answer, without a language model.

Each rule takes a response and the true answer and returns True (right), False (wrong), or None if
it does not apply: the official scripts then ask a language model, or score 0 with `--disable_llm`
(protocol `tempcompass/rules`). All equal the scripts of llyx97/TempCompass at commit e1b4631.
"""

import re

from harness.errors import DataError
from harness.scores import Metric

ASPECTS = ("action", "direction", "speed", "order", "attribute_change")
METRICS = (*(Metric(aspect) for aspect in ASPECTS), Metric("avg", about="over all questions"))
"""A question has two `Mean`s, of its aspect and of `avg`, which is a mean over questions."""
MATCH_RATE = Metric(
    "Match Success Rate",
    about="share of responses that fit one of the rules; captions have no rules",
)
"""Metric that the official scripts print beside the averages."""


def strip_marks(response: str) -> str:
    """Return the response without end-of-sentence marks and blanks around it.

    >>> strip_marks(" B. dunking</s>")
    'B. dunking'
    """
    return response.replace("</s>", "").strip()


def multiple_choice(response: str, answer: str) -> bool | None:
    """Return True if a response picks the true option of a question (`eval_multi-choice.py`).

    Args:
        response: Text such as "B", "B. …", "B) …", or the whole option.
        answer: The whole true option, "B. dunking".

    Raises:
        DataError: the answer is empty.

    >>> responses = ("A", "A. dunking", "B) x", "A: dunking", "dunking")
    >>> [multiple_choice(response, "A. dunking") for response in responses]
    [True, True, False, None, None]
    """
    if not answer:
        raise DataError("true option", expected="a text", found="nothing")
    predicted = strip_marks(response)
    if predicted == answer:
        return True
    if re.match(r"[A-D](?:[.)]|\Z)", predicted):
        return predicted[0] == answer[0]
    return None


def yes_no(response: str, answer: str) -> bool | None:
    """Return True if a response begins with the true one of "yes" and "no" (`eval_yes_no.py`).

    "Nothing" begins with "no".

    >>> [yes_no(response, "no") for response in ("No, it is not", "yes", "Nothing", "it is")]
    [True, False, True, None]
    """
    predicted = strip_marks(response).lower()
    for word in ("yes", "no"):
        if predicted.startswith(word):
            return word == answer
    return None


def caption_match(response: str, question: str, answer: str) -> bool | None:
    r"""Return True if a response picks the true caption (`eval_caption_matching.py`).

    A response picks an option by the option's whole text, by its sentence (also after ") "), or by
    its name ("Caption A", "A"), in which full stops do not count. If several of these fit, the last
    one in this order counts.

    Args:
        response: The response.
        question: A line with the question, then a line for each option, "Caption A: …".
        answer: The whole true option.

    Raises:
        DataError: an option or the answer is not "name: sentence", the name of two words.

    >>> question = "Which?\nCaption A: A man runs.\nCaption B: A man sits."
    >>> responses = ("B", "Caption A.", "(b) A man sits.", "the second")
    >>> [caption_match(response, question, "Caption B: A man sits.") for response in responses]
    [True, False, True, None]
    """
    predicted = strip_marks(response)
    options = question.split("\n")[1:]
    if not all(": " in option for option in options) or len(answer.split(": ")[0].split()) < 2:
        raise DataError(
            "captions to choose from",
            expected='lines such as "Caption A: A man runs"',
            found=repr(question)[:60],
        )
    picked = None
    for candidate, forms in _candidates(options, predicted):
        if candidate in forms:
            picked = candidate
    if picked is None:
        return None
    name, sentence = answer.split(": ")[:2]
    return picked in (answer, answer.split(":")[0], sentence, name.split()[1])


def _candidates(options: list[str], predicted: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (a text that picks an option, forms of the response one of which must equal it).

    The texts are the options, their sentences, their names ("Caption A") and short names ("A").
    """
    names = [option.split(": ")[0] for option in options]
    short_names = names
    for prefix in ("Sentence ", "Option ", "Caption "):
        short_names = [name.replace(prefix, "") for name in short_names]
    after_parenthesis = predicted.split(") ")[1:2]  # [] without a parenthesis
    return [
        *((option, (predicted,)) for option in options),
        *((option.split(": ")[1], (predicted, *after_parenthesis)) for option in options),
        *((name, (predicted, predicted.replace(".", ""))) for name in (*names, *short_names)),
    ]


def captioning(judgement: str, answer: str) -> bool | None:
    r"""Return True if a judge picks the true option from the caption alone (`eval_captioning.py`).

    The judge's last line with "Answer" counts, or else all of its text. It has to begin with the
    true option's letter, a full stop and a blank, and to name no other letter. None if the judge
    returned nothing: the official script then *subtracts* 1.

    >>> responses = ("Reasoning: …\nAnswer: A. dunking", "B. x", "")
    >>> [captioning(said, "A. dunking") for said in responses]
    [True, False, None]
    """
    if not judgement or judgement == "invalid_request_error":
        return None
    predicted = _counted_part(judgement)
    named = sum(predicted.count(f"{letter}.") for letter in "ABCD")
    return named == 1 and predicted.split(". ")[0] == answer.split(". ")[0]


def chooses(judgement: str) -> bool:
    """Return True if the counted part of a judge's response begins with an option or "None".

    Any other response is wrong in `captioning`.

    >>> [chooses(said) for said in ("Answer: A. dunking", "Answer: None", "A", "(A) x", "no idea")]
    [True, True, False, False, False]
    """
    return re.match(r"[A-D]\. |none\b", _counted_part(judgement), re.IGNORECASE) is not None


def _counted_part(judgement: str) -> str:
    """Return the counted part of a judge's response: its last line with "Answer", else all."""
    lines = [line.strip() for line in judgement.split("\n")]
    answers = [line.replace("Answer:", "").strip() for line in lines if "Answer" in line]
    return answers[-1] if answers else judgement
