"""Ground truth and protocols of RVTBench's VQA and summary tasks, whose answers are texts.

Texts are scored by BLEU-4, ROUGE-L and CIDEr over all samples, choices by their letter. BERTScore,
the papers' fourth number, needs a neural network: `--metrics "bertscore(model=…)"` adds it.
"""

from collections.abc import Sequence
from functools import partial
from string import ascii_uppercase

from harness.metrics.caption_tokens import Tokenizer
from harness.metrics.captions import Name, caption, caption_metrics
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, single_answer
from harness.tasks.rvtbench.records import Record
from harness.tasks.rvtbench.task import Film
from harness.types import Answer, Prediction, Sample, Target

NAMES: tuple[Name, ...] = ("ROUGE-L", "BLEU-4", "CIDEr")
HEADLINE = "ROUGE-L"
"""The only one of NAMES that is 1 for perfect answers of any length."""


def text_target(record: Record, film: Film) -> Target:
    """Return the true text of a record; of a list, the texts after the first are references."""
    plain = record.get("text", (str, list))
    texts = [plain] if isinstance(plain, str) else plain
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise record.error("text", "a text or a list of them, none blank", repr(plain)[:60])
    return Target(answer=Answer(text=texts[0]), references=tuple(texts[1:]))


def options_of(record: Record) -> tuple[str, ...]:
    """Return the options of a record, 2 to 26 texts."""
    options = record.get("options", list)
    if not 2 <= len(options) <= len(ascii_uppercase) or not all(
        isinstance(option, str) and option.strip() for option in options
    ):
        raise record.error("options", "2 to 26 texts, none blank", repr(options)[:60])
    return tuple(options)


def choice_target(record: Record, film: Film) -> Target:
    """Return the true letter, which a record states as the letter or as the option's text."""
    options, record_text = options_of(record), record.text("choice").strip()
    letters = list(ascii_uppercase[: len(options)])
    if record_text not in options and record_text not in letters:
        raise record.error(
            "choice",
            f"a letter from A to {letters[-1]}, or one of the options",
            repr(record_text)[:40],
        )
    letter = letters[options.index(record_text)] if record_text in options else record_text
    return Target(answer=Answer(choice=letter), references=(options[letters.index(letter)],))


def score_text(
    unit: Sequence[Sample], predictions: Sequence[Prediction], *, names: Sequence[str]
) -> Scores:
    """Return a sample's texts under each metric's name; metrics are computed over the corpus.

    A failure counts as an empty answer.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None and sample.target.answer.text is not None
    predicted = prediction.answer.text if prediction.answer is not None else None
    item = caption(predicted or "", [sample.target.answer.text, *sample.target.references])
    return dict.fromkeys(names, item)


def score_choice(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return 1 for the right letter, 0 for another one and for a failure."""
    _, target, prediction = single_answer(unit, predictions)
    predicted = prediction.answer.choice if prediction.answer is not None else None
    return {"accuracy": Mean(float(predicted == target.answer.choice))}


def by_text(name: str, tokenizer: Tokenizer, about: str) -> Protocol:
    """Return a protocol of the caption metrics NAMES with a tokenizer."""
    metrics = caption_metrics(NAMES, tokenizer=tokenizer)
    names = [metric.name for metric in metrics]
    scored = partial(score_text, names=names)
    return Protocol(
        name=name,
        score=scored,
        metrics=metrics,
        headline=names[NAMES.index(HEADLINE)],
        ceiling=Ceiling(value=1.0),
        about=about,
    )


TEXT = {
    "rvtbench/text": by_text(
        "rvtbench/text",
        "ptb",
        "ROUGE-L, BLEU-4 and CIDEr of pycocoevalcap, with its own tokens; "
        "add BERTScore by --metrics",
    ),
    "rvtbench/text_simple": by_text(
        "rvtbench/text_simple",
        "simple",
        "the same with tokens that need no Java; not comparable with the other",
    ),
}

CHOICE = Protocol(
    name="rvtbench/choice",
    score=score_choice,
    metrics=(Metric("accuracy", about="share of questions with the right letter"),),
    headline="accuracy",
    ceiling=Ceiling(value=1.0),
    about="for releases with options: the right letter; no answer counts as wrong",
)
