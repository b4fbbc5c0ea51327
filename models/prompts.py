"""The words of a method are data files of its folder, and are sent as they were published.

Networks that were trained from scratch, as `pocket` was, have never read such words; they can be
asked in a few of their own, and know the grammar of the response from their training alone.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

Wording: TypeAlias = Literal["paper", "short"]
"""The words around a question: the published ones, or ours (`short.txt`)."""


@lru_cache
def text_of(package: str, name: str) -> str:
    """A text of a package, word for word: official prompts end without a newline."""
    return files(package).joinpath(name).read_text("utf-8").removesuffix("\n")


def wording_of(prompt: object) -> Wording:
    """The wording of a model's prompt, which may be of a kind that has one only."""
    wording: Wording = getattr(prompt, "wording", "paper")
    return wording


def asked_briefly(question: str) -> str:
    """A question in the words of the wording `short`."""
    return text_of("harness.models", "short.txt").replace("{Question}", question)


def fill_prompt(template: str, *, question: str, answer: str) -> str:
    """A prompt with its example of an answer, and the question.

    >>> fill_prompt("{Question} Such as {Answer}", question="is it {Answer}?", answer="[]")
    'is it {Answer}? Such as []'
    """
    # The answer first: a question may contain "{Answer}", the example cannot.
    return template.replace("{Answer}", answer).replace("{Question}", question, 1)
