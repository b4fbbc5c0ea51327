"""Text of a question from a draft: one of several wordings, some words exchanged."""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from harness.world.draws import Draws
from stv_builder.drafts import Draft

FIELD = re.compile(r"\{(\w+)\}")


@lru_cache
def templates() -> Mapping[str, Mapping[str, list[str]]]:
    """`templates.toml`: wordings by kind and name, and synonyms."""
    text = files("stv_builder").joinpath("templates.toml").read_text("utf-8")
    return tomllib.loads(text)


def question_text(draft: Draft, draws: Draws, *, synonyms: bool = True) -> str:
    """The text of a question.

    Args:
        draft: The draft of the question.
        draws: Decide which wording and which synonyms; nothing else does.
        synonyms: Without, the first wording as it stands.
    """
    wordings: list[str] = templates()[draft.kind][draft.wording]
    if not synonyms:
        return fill_fields(wordings[0], draft.fields)
    return fill_fields(exchange_synonyms(draws.choice(wordings), draws), draft.fields)


def exchange_synonyms(text: str, draws: Draws) -> str:
    """`text` with some words exchanged for synonyms; fields in braces stay as they are."""
    for words, others in templates()["synonyms"].items():
        whole = rf"(?<![\w{{]){re.escape(words)}(?![\w}}])"
        if re.search(whole, text) and draws.chance(1, 2):
            text = re.sub(whole, draws.choice(others), text)
    return text


def fill_fields(text: str, fields: Mapping[str, str]) -> str:
    """`text` with its fields; a KeyError for one that is not given."""
    return FIELD.sub(lambda match: fields[match[1]], text)
