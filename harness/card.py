"""What a benchmark is, as data that can be read without importing its task (or anything slow)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a benchmark is. Read from `card.toml` beside the task, without importing the task."""

    name: str
    title: str
    forms: tuple[str, ...]
    headline: str
    protocol: str
    """The default protocol."""
    protocols: Mapping[str, str]
    splits: Mapping[str, int]
    """Published number of samples a split; 0 where it is not known."""
    default_split: str
    paper: str
    licence: str
    data: str
    """Where the files are had, and the folders that they go to."""
    ids: str
    """How the ids of predictions from elsewhere are formed."""
    example: str = ""
    """One record as it stands in the files; `…` stands for bytes or text that is left out."""
    notes: str = ""
    hub: Mapping[str, Any] | None = None
    """For `harness data fetch`: `repository` on the Hugging Face hub (or a table `repositories`,
    by the folders that they go to), `revision` (a commit, or a branch that is resolved when it is
    fetched) and `files` (patterns; all, without)."""

    @classmethod
    def read(cls, path: Path) -> "Card":
        """Read a `card.toml`."""
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(**{**plain, "forms": tuple(plain["forms"])})
        except (OSError, tomllib.TOMLDecodeError, TypeError, KeyError) as error:
            raise DataError(
                f"card {path}", expected="the fields of harness.card.Card", found=str(error)
            ) from error
