"""Cards of benchmarks: data that can be read without importing the task or anything slow."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from harness.errors import DataError


class Counts(TypedDict, total=False):
    """Published numbers by split, and the arguments with which they hold."""

    when: Mapping[str, object]
    splits: Mapping[str, int]
    videos: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Description of a benchmark, from `card.toml` beside the task; the task is not imported."""

    name: str
    title: str
    forms: tuple[str, ...]
    headline: str
    protocol: str
    """The default protocol."""
    protocols: Mapping[str, str]
    splits: Mapping[str, int]
    """Published number of samples of each split; 0 where it is not known."""
    default_split: str
    paper: str
    licence: str
    data: str
    """Source of the files, and the folders that they go to."""
    ids: str
    """Format of the ids of predictions that were made elsewhere."""
    example: str = ""
    """One record as it is in the files; `…` stands for bytes or text that is left out."""
    notes: str = ""
    folder: str = ""
    """The folder below ROOT that holds its files, which several benchmarks may share; its name,
    where none is given."""
    videos: Mapping[str, int] = field(default_factory=dict)
    """Published number of videos of each split, where known. A video is a group of samples."""
    counts: tuple[Counts, ...] = ()
    """Numbers of samples and videos that depend on a task's arguments: tables with `when`
    (arguments and the value, or list of values, that they have), `splits` and `videos`. The last
    table that matches counts; numbers that it leaves out are not known."""
    hub: Mapping[str, object] | None = None
    """For `harness data fetch`: `repository` on the Hugging Face hub (or a table `repositories`,
    by the folders that they go to, below this benchmark's), `revision` (a commit, or a branch that
    is resolved when it is first fetched) and `files` (patterns; all, without)."""

    @classmethod
    def read(cls, path: Path) -> "Card":
        """Read a `card.toml`."""
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
            plain = {"folder": plain["name"], "counts": (), **plain}
            return cls(**{**plain, **{key: tuple(plain[key]) for key in ("forms", "counts")}})
        except (OSError, tomllib.TOMLDecodeError, TypeError, KeyError) as error:
            raise DataError(
                f"card {path}", expected="the fields of harness.card.Card", found=str(error)
            ) from error

    def published_counts(self, split: str, arguments: Mapping[str, object]) -> tuple[int, int]:
        """Return the published numbers of samples and of videos of a split; 0 where one is not
        known.

        Args:
            split: The split's name.
            arguments: The task's arguments, as its record has them.
        """
        found: Counts = {"splits": self.splits, "videos": self.videos}
        for table in self.counts:
            if all(_is(arguments.get(key), value) for key, value in table["when"].items()):
                found = table
        return found.get("splits", {}).get(split, 0), found.get("videos", {}).get(split, 0)


def _is(value: object, wanted: object) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted
