"""`Mapping`: a TOML file that names the files and fields of a release of RVTBench or JiTBench.

No release of RVTBench or JiTBench was available. Levels, categories and tasks are from the papers;
the layout is our own, and a mapping adapts the reader to another layout without code.
`mapping.toml` beside this module documents every key.
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

PLACEHOLDERS = {"annotations": {"task"}, "frames": {"video", "frame"}}
"""Words in braces that the path of each field of `Files` may contain."""


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of records and frames below the benchmark's folder."""

    annotations: str
    """Path of the annotation file; may contain {task}."""
    frames: str
    """Path of a frame's image, with {video} and {frame}."""
    records: str = ""
    """Key path, such as `data.items`, of the list of records in a JSON file; empty: the file is the
    list."""

    def __post_init__(self) -> None:
        for key, allowed in PLACEHOLDERS.items():
            path = getattr(self, key)
            try:
                used = {name for _, name, _, _ in Formatter().parse(path) if name is not None}
            except ValueError as error:
                raise ValueError(f"{key}: expected a path with words in braces: {error}") from error
            if not path or not used <= allowed or (key == "frames" and used != allowed):
                placeholders = " and ".join(f"{{{name}}}" for name in sorted(allowed))
                raise ValueError(f"{key}: expected a path with {placeholders}, found {path!r:.60}")


@dataclass(frozen=True, slots=True)
class Fields:
    """Name of the record's field for each datum of a sample; empty: records have no such field."""

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
    """Form of a record's masks; see `records._iter_frames`.

    For the form `records`, `frame` and `rle` are the keys of a mask's frame name and run-length.
    """

    form: Literal["records", "frames", "track"]
    frame: str = ""
    rle: str = ""

    def __post_init__(self) -> None:
        for key in ("frame", "rle"):
            if self.form == "records" and not getattr(self, key):
                raise ValueError(f"{key}: expected the name of a field, found none")


@dataclass(frozen=True, slots=True)
class Boxes:
    """Form of a record's boxes, and the meaning of their four numbers, in pixels."""

    form: Literal["frames", "track"] = "frames"
    order: Literal["xyxy", "xywh"] = "xyxy"
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """A checked mapping file."""

    files: Files
    fields: Fields
    tasks: Plain[str, tuple[object, ...]]
    """Our task → values of a record's field for it; `levels` and `categories` likewise."""
    levels: Plain[str, tuple[object, ...]]
    categories: Plain[str, tuple[object, ...]]
    masks: Masks = Masks("records", "frame", "rle")
    boxes: Boxes = Boxes()
    path: Path = Path()

    def __post_init__(self) -> None:
        for name in ("tasks", "levels", "categories"):
            for key, official_words in getattr(self, name).items():
                if not official_words:
                    raise ValueError(f"{name}: {key}: expected the records' words, found none")

    def file(self, task: str) -> str:
        """Return the annotation file of a task, relative to the benchmark's folder."""
        official_words = self.tasks.get(task, (task,))
        return self.files.annotations.replace("{task}", str(official_words[0]))

    def image(self, video: str, frame: str) -> str:
        """Return the image of a frame, relative to the benchmark's folder."""
        return self.files.frames.replace("{video}", video).replace("{frame}", frame)


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file.

    Raises:
        DataError: it is not TOML, lacks a key, or has an unknown key or a wrong value.
    """
    with raised_as(
        DataError, f"mapping {path}", "a TOML file", OSError, ValueError, RecursionError
    ):
        plain = tomllib.loads(read_text(path))
    fix = "tasks/rvtbench/mapping.toml tells every key."
    with raised_as(DataError, f"mapping {path}", "its tables and keys", ValueError, fix=fix):
        if "path" in plain:  # a field of `Mapping` that is not a key of the file
            raise ValueError("expected no path, found one")
        return replace(from_plain(Mapping, plain), path=path)
