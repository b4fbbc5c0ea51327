"""The words of a method are data files of its folder, and are sent as they were published.

Networks that were trained from scratch, as `pocket` was, have never read such words; they can be
asked in a few of their own, and know the grammar of the response from their training alone.
"""

import re
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias, get_args

from harness.errors import ModelError

Wording: TypeAlias = Literal["paper", "short"]
"""The words around a question: the published ones, or ours (`short.txt`)."""
WORDINGS: tuple[Wording, ...] = get_args(Wording)


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
    return fill(text_of("harness.models", "short.txt"), Question=question)


def fill(template: str, /, **values: object) -> str:
    """Return a template with values in the place of their names in braces.

    What is filled in is not looked at again: a question may contain "{Answer}".

    >>> fill("{Question} Such as {Answer}", Question="is it {Answer}?", Answer="[]")
    'is it {Answer}? Such as []'

    Raises:
        ModelError: the template has no place for one of the values, so that the model would never
            see it.
    """
    missing = [name for name in values if f"{{{name}}}" not in template]
    if missing:
        raise ModelError(
            f"prompt {template[:60]!r}",
            expected=f"{{{missing[0]}}} for the {missing[0].lower()}",
            found="a prompt without it",
            fix="Put it back into the file of the prompt.",
        )
    places = re.compile("|".join(rf"\{{{re.escape(name)}\}}" for name in values))
    return places.sub(lambda place: str(values[place[0][1:-1]]), template)
