"""Cards of benchmarks: `card.toml` beside each task, read without importing the task.

Commands, boards and docs take a benchmark's title, protocols, published counts and source from its
card.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Required, TypedDict

from harness.errors import DataError, raised_as
from harness.plain import from_plain


class Counts(TypedDict, total=False):
    """Published numbers by split, and the arguments with which they hold."""

    when: Required[Mapping[str, object]]
    splits: Mapping[str, int]
    videos: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Description of a benchmark."""

    name: str
    """Name of the task, as on the command line."""
    title: str
    """Name of the benchmark, as its authors write it."""
    protocol: str
    """The default protocol."""
    splits: Mapping[str, int]
    """Published number of samples of each split; 0 where it is not known."""
    default_split: str = ""
    """The task's default. A card that gives none has the function's default, or else the first of
    `splits`: `plugins.find_card` sets it."""
    protocols: Mapping[str, str] = field(default_factory=dict)
    """Each protocol by name: whose scorer it is, in one line. Only the default if the card gives
    none."""
    forms: tuple[str, ...] = ()
    """Forms of answer, values of `harness.types.AnswerForm`."""
    headline: str = ""
    """Name of the metric that ranks models, of the default protocol."""
    paper: str = ""
    licence: str = ""
    data: str = ""
    """Source of the files, and the folders that they go to."""
    ids: str = ""
    """Format of the ids of predictions that were made elsewhere."""
    example: str = ""
    """One record as it is in the files; `…` stands for bytes or text that is left out."""
    notes: str = ""
    folder: str = ""
    """Folder below ROOT with the files; the benchmark's name if the card gives none. Several
    benchmarks may share one."""
    videos: Mapping[str, int] = field(default_factory=dict)
    """Published number of videos of each split, where known. A video is a group of samples."""
    counts: tuple[Counts, ...] = ()
    """Tables that replace `splits` and `videos` for some arguments of the task:

        [[counts]]
        when = {protocol = "rec/instance", split_by = ["unc", "google"]}
        splits = {val = 3811}

    matches a task whose arguments have these values (any value of a list). The last matching table
    replaces both fields, so that a number it leaves out counts as not known; a table with `when`
    alone says that nothing is published.
    """
    hub: Mapping[str, object] | None = None
    """For `harness data fetch`: `repository` on the Hugging Face hub (or a table `repositories`,
    by the folders that they go to, below this benchmark's), `revision` (a commit, or a branch that
    is resolved when it is first fetched) and `files` (patterns; default: all files)."""

    @classmethod
    def read(cls, path: Path) -> "Card":
        """Read a `card.toml`.

        Raises:
            DataError: it is not TOML, or a field is missing, unknown or of another type.
        """
        keys = "a card's keys (docs/plugins.md), UTF-8"
        with raised_as(DataError, f"card {path}", keys, OSError, ValueError):
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
            card = from_plain(cls, {"folder": plain.get("name", ""), **plain})
        return replace(card, protocols=card.protocols or {card.protocol: ""})

    def published_counts(self, split: str, arguments: Mapping[str, object]) -> tuple[int, int]:
        """Return the published numbers of samples and of videos of a split; 0 where one is not
        known.

        Args:
            split: The split's name.
            arguments: The task's arguments, as its record has them.
        """
        published: Counts = {"when": {}, "splits": self.splits, "videos": self.videos}
        for table in self.counts:
            if all(_matches(arguments.get(key), value) for key, value in table["when"].items()):
                published = table
        samples = published.get("splits", {}).get(split, 0)
        return samples, published.get("videos", {}).get(split, 0)


def _matches(argument: object, allowed: object) -> bool:
    return argument in allowed if isinstance(allowed, list) else argument == allowed
