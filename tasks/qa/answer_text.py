"""`answer_text`: the text of a prediction that the scorers of question benchmarks read.

A protocol that repeats a published scorer reads the response itself, so that the score of a
response does not depend on the model's grammar. The answer that the grammar parsed counts in our
own protocols, and where places or times are asked for, which each grammar writes in its own form.
A prediction without a response (a file of plain answers, a perfect answer) has its answer written
in the shortest form.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.responses import OTHER_NUMBER, tag_text
from harness.scores import Scores
from harness.task import Protocol
from harness.thoughts import after_thought
from harness.types import Answer, Prediction, Sample


def answer_text(prediction: Prediction) -> str | None:
    """Return the part of a prediction's last response that is scored; None without an answer.

    It is the last `<answer>…</answer>` after the thought, or else all text after the thought. A
    response without a thought is returned with its spaces, which some scorers count. Whether the
    model's parser could read the response does not matter; of several responses to a question for
    one, none counts.

    >>> from harness.types import Answer
    >>> responses = ("<think>A or B?</think><answer> B. </answer>",)
    >>> answer_text(Prediction(query_id="q", answer=Answer(choice="B"), responses=responses))
    'B.'
    >>> answer_text(Prediction(query_id="q", answer=Answer(number=1e-5)))
    '0.00001'
    """
    if prediction.responses:
        if _is_of_other_number(prediction):
            return None
        response = prediction.responses[-1]
        text = after_thought(response)
        answer = tag_text(text, "answer", which="last")
        if answer is not None:
            return answer
        return text if text == response else text.strip()
    return None if prediction.answer is None else correct_text(prediction.answer)


def _is_of_other_number(prediction: Prediction) -> bool:
    """Return True if a prediction has more or fewer responses than its model's parser reads."""
    failure = prediction.failure
    return failure is not None and OTHER_NUMBER.match(failure.message) is not None


def with_whole_responses(protocol: Protocol) -> dict[str, Protocol]:
    """Return a protocol and its variant `NAME@whole`, by their names.

    The variant scores whole responses, with reasoning and tags, as the published code does;
    `answer_text` removes these.
    """

    def uncut(prediction: Prediction) -> Prediction:
        if not prediction.responses or _is_of_other_number(prediction):
            return prediction
        answer = Answer(text=prediction.responses[-1])
        return replace(prediction, responses=(), answer=answer, failure=None)

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        return protocol.score(unit, [uncut(prediction) for prediction in predictions])

    reads = protocol.reads
    assert reads is not None, "it reads responses"
    whole_variant = replace(
        protocol,
        name=f"{protocol.name}@whole",
        score=score,
        reads=lambda sample, prediction: reads(sample, uncut(prediction)),
        about=f"{protocol.name}, of whole responses: with reasoning and tags, as published",
    )
    return {variant.name: variant for variant in (protocol, whole_variant)}


def read_by(read: Callable[..., object]) -> Callable[..., object]:
    """Return the function `reads` of a protocol: what its scorer reads in a prediction.

    `read` is called with the sample, the answer's text and the keywords of a protocol's `rule`. It
    returns what it reads, or None if it reads nothing; False counts as read, and becomes True.
    """

    def reads(sample: Sample, prediction: Prediction, **rule: bool) -> object:
        text = answer_text(prediction)
        reading = None if text is None else read(sample, text, **rule)
        return True if reading is False else reading

    return reads


def has_number(sample: Sample, prediction: Prediction) -> bool:
    """Return True if the model's parser read a number: `reads` of protocols that score it."""
    return prediction.answer is not None and prediction.answer.number is not None


def correct_text(answer: Answer) -> str | None:
    """Return the letter, number or text of an answer as text; None: it has neither."""
    if answer.choice is not None:
        return answer.choice
    if answer.number is not None:
        return digits(answer.number)
    if answer.count is not None:
        return str(answer.count)
    return answer.text


def digits(number: float) -> str:
    """Return a number as text without an exponent, which some scorers cannot read.

    Whole numbers have no point.

    >>> digits(3.0), digits(-0.25), digits(1e-7)
    ('3', '-0.25', '0.0000001')
    """
    text = f"{number:.15f}" if "e" in repr(number) else repr(number)
    return text.rstrip("0").rstrip(".") if "." in text else text
