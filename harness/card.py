"""Cards of benchmarks: data that can be read without importing the task or anything slow."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict

from harness.errors import DataError

LISTS = frozenset({"forms", "counts"})
TABLES = frozenset({"protocols", "splits", "videos", "hub"})
"""Fields of `card.toml` that are lists and tables; the others are texts."""


class Counts(TypedDict, total=False):
    """Published numbers by split, and the arguments with which they hold."""

    when: Mapping[str, object]
    splits: Mapping[str, int]
    videos: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Description of a benchmark, from `card.toml` beside the task; the task is not imported."""

    name: str
    """Name of the task, as on the command line."""
    title: str
    """Name of the benchmark, as its authors write it."""
    forms: tuple[str, ...]
    """Forms of answer, values of `harness.types.AnswerForm`."""
    headline: str
    """Name of the metric that ranks models, of the default protocol."""
    protocol: str
    """The default protocol."""
    protocols: Mapping[str, str]
    """Each protocol by name: whose scorer it is, in one line."""
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
    is resolved when it is first fetched) and `files` (patterns; all, without)."""

    @classmethod
    def read(cls, path: Path) -> "Card":
        """Read a `card.toml`.

        Raises:
            DataError: it is no TOML, or a field is missing, unknown or of another type.
        """
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # TOMLDecodeError, UnicodeDecodeError
            raise DataError(f"card {path}", expected="TOML in UTF-8", found=str(error)) from error
        _check_fields(path, plain)
        plain["forms"] = tuple(plain["forms"])
        plain["counts"] = tuple(plain.get("counts", ()))
        plain.setdefault("folder", plain["name"])
        return cls(**plain)

    def published_counts(self, split: str, arguments: Mapping[str, object]) -> tuple[int, int]:
        """Return the published numbers of samples and of videos of a split; 0 where one is not
        known.

        Args:
            split: The split's name.
            arguments: The task's arguments, as its record has them.
        """
        published: Counts = {"splits": self.splits, "videos": self.videos}
        for table in self.counts:
            if all(_matches(arguments.get(key), value) for key, value in table["when"].items()):
                published = table
        samples = published.get("splits", {}).get(split, 0)
        return samples, published.get("videos", {}).get(split, 0)


def _check_fields(path: Path, plain: Mapping[str, Any]) -> None:
    required = {
        one.name
        for one in fields(Card)
        if one.default is MISSING and one.default_factory is MISSING
    }
    if lacking := sorted(required - plain.keys()):
        raise DataError(f"card {path}", expected=f"fields {', '.join(lacking)}", found="none")
    if unknown := sorted(plain.keys() - {one.name for one in fields(Card)}):
        raise DataError(
            f"card {path}",
            expected=f"fields among {', '.join(one.name for one in fields(Card))}",
            found=", ".join(unknown),
        )
    for name, value in plain.items():
        kind = list if name in LISTS else dict if name in TABLES else str
        if not isinstance(value, kind):
            words = {list: "a list", dict: "a table", str: "a text"}
            raise DataError(f"card {path}: {name!r}", expected=words[kind], found=repr(value)[:60])
    if not all(isinstance(form, str) for form in plain["forms"]):
        raise DataError(f"card {path}: 'forms'", expected="texts", found=repr(plain["forms"])[:60])
    for table in plain.get("counts", ()):
        if not isinstance(table, dict) or not isinstance(table.get("when"), dict):
            raise DataError(
                f"card {path}: 'counts'", expected="tables with `when`", found=repr(table)[:60]
            )


def _matches(argument: object, allowed: object) -> bool:
    return argument in allowed if isinstance(allowed, list) else argument == allowed
