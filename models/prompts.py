"""The words of a method are data files of its folder, and are sent as they were published."""

from functools import lru_cache
from importlib.resources import files


@lru_cache
def text_of(package: str, name: str) -> str:
    """A text of a package, word for word: official prompts end without a newline."""
    return files(package).joinpath(name).read_text("utf-8").removesuffix("\n")


def filled(template: str, *, question: str, answer: str) -> str:
    """A prompt with its example of an answer, and the question.

    >>> filled("{Question} Such as {Answer}", question="is it {Answer}?", answer="[]")
    'is it {Answer}? Such as []'
    """
    # The answer first: a question may contain "{Answer}", the example cannot.
    return template.replace("{Answer}", answer).replace("{Question}", question, 1)
