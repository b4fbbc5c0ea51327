"""Mapping of records: a TOML file that names files and fields, in the place of code.

No release of RVTBench or JiTBench could be looked at, so that nothing here is official but what the
papers say: levels, categories, tasks. `mapping.toml` beside this module documents every key.
"""

import tomllib
from collections.abc import Mapping as Plain
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Literal

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.plain import from_plain

PLACES = {"annotations": {"task"}, "frames": {"video", "frame"}}
"""The words that a template may hold."""


@dataclass(frozen=True, slots=True)
class Files:
    """The places of records and frames, below the benchmark's folder."""

    annotations: str
    """A template with {task}."""
    frames: str
    """A template with {video} and {frame}."""
    records: str = ""

    def __post_init__(self) -> None:
        for key, places in PLACES.items():
            path = getattr(self, key)
            try:
                held = {name for _, name, _, _ in Formatter().parse(path) if name is not None}
            except ValueError as error:
                raise ValueError(f"{key}: expected a path with words in braces: {error}") from error
            if not path or not held <= places or (key == "frames" and held != places):
                wanted = " and ".join(f"{{{name}}}" for name in sorted(places))
                raise ValueError(f"{key}: expected a path with {wanted}, found {path!r:.60}")


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of a record's fields, for each of ours; empty where it has none."""

    id: str
    level: str
    category: str
    video: str
    query: str
    task: str = ""
    frames: str = ""
    masks: str = ""
    boxes: str = ""
    text: str = ""
    options: str = ""
    choice: str = ""

    def __post_init__(self) -> None:
        for key in ("id", "level", "category", "video", "query"):
            if not getattr(self, key):
                raise ValueError(f"{key}: expected the name of a field, found none")


@dataclass(frozen=True, slots=True)
class Masks:
    """The form of masks, and the names of frame and run-length in the first form."""

    form: Literal["records", "frames", "track"]
    frame: str = ""
    rle: str = ""

    def __post_init__(self) -> None:
        for key in ("frame", "rle"):
            if self.form == "records" and not getattr(self, key):
                raise ValueError(f"{key}: expected the name of a field, found none")


@dataclass(frozen=True, slots=True)
class Boxes:
    """The form of boxes, and the meaning of their numbers."""

    form: Literal["frames", "track"] = "frames"
    order: Literal["xyxy", "xywh"] = "xyxy"
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping file, checked."""

    files: Files
    fields: Fields
    tasks: Plain[str, tuple[object, ...]]
    """The records' words for each of ours, as those of levels and categories."""
    levels: Plain[str, tuple[object, ...]]
    categories: Plain[str, tuple[object, ...]]
    masks: Masks = Masks("records", "frame", "rle")
    boxes: Boxes = Boxes()
    path: Path = Path()

    def __post_init__(self) -> None:
        for name in ("tasks", "levels", "categories"):
            for key, words in getattr(self, name).items():
                if not words:
                    raise ValueError(f"{name}: {key}: expected the records' words, found none")

    def file(self, task: str) -> str:
        """The annotation file of a task, relative to the benchmark's folder."""
        words = self.tasks.get(task, (task,))
        return self.files.annotations.replace("{task}", str(words[0]))

    def image(self, video: str, frame: str) -> str:
        """The image of a frame, relative to the benchmark's folder."""
        return self.files.frames.replace("{video}", video).replace("{frame}", frame)


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file.

    Raises:
        DataError: it is no TOML, lacks a key, has one that is not known, or a wrong value.
    """
    with raised_as(
        DataError, f"mapping {path}", "a TOML file", OSError, ValueError, RecursionError
    ):
        plain = tomllib.loads(read_text(path))
    fix = "tasks/rvtbench/mapping.toml tells every key."
    with raised_as(DataError, f"mapping {path}", "its tables and keys", ValueError, fix=fix):
        if "path" in plain:  # a field of ours, and no key of the file
            raise ValueError("expected no path, found one")
        return replace(from_plain(Mapping, plain), path=path)
