"""Text of a model's answer, in the form that a benchmark's scorer takes.

One rule for every benchmark of questions: a protocol that repeats a published scorer reads the
response, so that a response has one score whatever the model is called. What the model's own
grammar has read counts where that scorer reads nothing and the benchmark asks for places or times,
which each grammar writes in its own form, and by protocols that are ours. Without a response (a
file of plain answers, a perfect answer), the answer is written in its shortest form.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.responses import tag_text
from harness.scores import Scores
from harness.task import Protocol
from harness.thoughts import after_thought
from harness.types import Answer, Prediction, Sample


def answer_text(prediction: Prediction) -> str | None:
    """Return the last response of a prediction that counts; None if there is none.

    The last `<answer>…</answer>` after its thought, else all that follows the thought; a response
    without a thought is whole, with its blanks, which some scorers count. One that the model's
    parser could not read counts too.

    >>> from harness.types import Answer
    >>> told = ("<think>A or B?</think><answer> B. </answer>",)
    >>> answer_text(Prediction(query_id="q", answer=Answer(choice="B"), responses=told))
    'B.'
    >>> answer_text(Prediction(query_id="q", answer=Answer(number=1e-5)))
    '0.00001'
    """
    if prediction.responses:
        response = prediction.responses[-1]
        said = after_thought(response)
        answer = tag_text(said, "answer", which="last")
        if answer is not None:
            return answer
        return said if said == response else said.strip()
    return None if prediction.answer is None else correct_text(prediction.answer)


def with_whole_responses(protocol: Protocol) -> dict[str, Protocol]:
    """A protocol, and `PROTOCOL@whole`: the same of a response with its reasoning and tags.

    `answer_text` cuts these off, which the published code does not.
    """

    def uncut(prediction: Prediction) -> Prediction:
        if not prediction.responses:
            return prediction
        answer = Answer(text=prediction.responses[-1])
        return replace(prediction, responses=(), answer=answer, failure=None)

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        return protocol.score(unit, [uncut(prediction) for prediction in predictions])

    reads = protocol.reads
    assert reads is not None, "it reads responses"
    whole = replace(
        protocol,
        name=f"{protocol.name}@whole",
        score=score,
        reads=lambda sample, prediction: reads(sample, uncut(prediction)),
        about=f"{protocol.name}, of whole responses: with reasoning and tags, as published",
    )
    return {variant.name: variant for variant in (protocol, whole)}


def read_by(read: Callable[..., object]) -> Callable[..., object]:
    """Return a protocol's `reads`: what `read` finds in the text; None: nothing.

    `read` takes a sample and a text, and by keyword the `rule` that protocols differ in. A verdict,
    true or false, is True.
    """

    def reads(sample: Sample, prediction: Prediction, **rule: bool) -> object:
        text = answer_text(prediction)
        reading = None if text is None else read(sample, text, **rule)
        return True if reading is False else reading

    return reads


def has_number(sample: Sample, prediction: Prediction) -> bool:
    """The `reads` of protocols that score the number which the model's own parser read."""
    return prediction.answer is not None and prediction.answer.number is not None


def correct_text(answer: Answer) -> str | None:
    """Return a letter, a number or a text in its usual spelling; None where there is none."""
    if answer.choice is not None:
        return answer.choice
    if answer.number is not None:
        return digits(answer.number)
    if answer.count is not None:
        return str(answer.count)
    return answer.text


def digits(number: float) -> str:
    """A number without an exponent, which not every scorer reads; whole numbers without a point.

    >>> digits(3.0), digits(-0.25), digits(1e-7)
    ('3', '-0.25', '0.0000001')
    """
    text = f"{number:.15f}" if "e" in repr(number) else repr(number)
    return text.rstrip("0").rstrip(".") if "." in text else text
