"""Load and fill prompt templates: text files in a method's folder, word for word as published.

Networks that were trained from scratch, such as `pocket`, have never read published prompts. They
are asked in the short wording (`short.txt`), and know the format of the response from training.
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
    """Return a package's text file without the newline at its end, which no official prompt has."""
    return files(package).joinpath(name).read_text("utf-8").removesuffix("\n")


def wording_of(prompt: object) -> Wording:
    """Return the wording of a model's prompt; "paper" if the prompt has no choice of wording."""
    wording: Wording = getattr(prompt, "wording", "paper")
    return wording


def asked_briefly(question: str) -> str:
    """Return the request for a question in the wording `short`."""
    return fill(text_of("harness.models", "short.txt"), Question=question)


def fill(template: str, /, **values: object) -> str:
    """Return a template with each `{name}` replaced by its value.

    A filled-in value is not searched for further names: a question may contain "{Answer}".

    >>> fill("{Question} Such as {Answer}", Question="is it {Answer}?", Answer="[]")
    'is it {Answer}? Such as []'

    Raises:
        ModelError: the template lacks the `{name}` of a value, so that the model would never see
            that value.
    """
    missing = [name for name in values if f"{{{name}}}" not in template]
    if missing:
        raise ModelError(
            f"prompt {template[:60]!r}",
            expected=f"{{{missing[0]}}} for the {missing[0].lower()}",
            found="a prompt without it",
            fix="Put it back into the file of the prompt.",
        )
    placeholder = re.compile(rf"\{{({'|'.join(map(re.escape, values))})\}}")  # "{Question}"
    return placeholder.sub(lambda match: str(values[match[1]]), template)
