"""Mapping of records: a TOML file that names files and fields, in the place of code.

No release of RVTBench or JiTBench could be looked at, so that nothing here is official but what the
papers say: levels, categories, tasks. `mapping.toml` beside this module documents every key.
"""

import tomllib
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Plain
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, TypeAlias

from harness.errors import DataError, raised_as
from harness.files import read_text

BOXES = {"form": ("frames", "track"), "order": ("xyxy", "xywh"), "inclusive": (True, False)}
FORMS = ("records", "frames", "track")
MASKS = ("form", "frame", "rle")
FIELDS = (
    "id",
    "task",
    "level",
    "category",
    "video",
    "frames",
    "query",
    "masks",
    "boxes",
    "text",
    "options",
    "choice",
)
NEEDED = ("id", "level", "category", "video", "query")
PLACES = {"annotations": {"task"}, "frames": {"video", "frame"}}
"""The words that a template may hold."""

TABLES = ("files", "fields", "tasks", "levels", "categories", "masks", "boxes")

Fault: TypeAlias = tuple[str, str, str]
"""A key, what is expected there, and what was found."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping file, checked."""

    path: Path
    annotations: str
    """A template below the benchmark's folder, with {task}."""
    frames: str
    """A template with {video} and {frame}."""
    records: str = ""
    fields: Plain[str, str] = field(default_factory=dict)
    tasks: Plain[str, tuple[object, ...]] = field(default_factory=dict)
    levels: Plain[str, tuple[object, ...]] = field(default_factory=dict)
    categories: Plain[str, tuple[object, ...]] = field(default_factory=dict)
    masks: Plain[str, str] = field(default_factory=dict)
    boxes: Plain[str, object] = field(default_factory=dict)

    def file(self, task: str) -> str:
        """The annotation file of a task, relative to the benchmark's folder."""
        words = self.tasks.get(task, (task,))
        return self.annotations.replace("{task}", str(words[0]))

    def image(self, video: str, frame: str) -> str:
        """The image of a frame, relative to the benchmark's folder."""
        return self.frames.replace("{video}", video).replace("{frame}", frame)


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file.

    Raises:
        DataError: it is no TOML, lacks a key, has one that is not known, or a wrong value.
    """
    with raised_as(DataError, f"mapping {path}", "a TOML file", OSError, ValueError):
        plain = tomllib.loads(read_text(path))
    if problem := next(_problems(plain), None):
        key, expected, found = problem
        raise DataError(
            f"mapping {path}, {key}",
            expected=expected,
            found=found,
            fix="tasks/rvtbench/mapping.toml tells every key.",
        )
    words = {
        name: {key: tuple(value) for key, value in plain[name].items()}
        for name in ("tasks", "levels", "categories")
    }
    return Mapping(
        path,
        plain["files"]["annotations"],
        plain["files"]["frames"],
        plain["files"].get("records", ""),
        plain["fields"],
        **words,
        masks=plain.get("masks", {"form": "records", "frame": "frame", "rle": "rle"}),
        boxes={"form": "frames", "order": "xyxy", "inclusive": False, **plain.get("boxes", {})},
    )


def _problems(plain: Plain[str, Any]) -> Iterator[Fault]:
    """Yield (key, expected, found) of every fault."""
    for name in plain:
        if name not in TABLES or not isinstance(plain[name], dict):
            yield f"[{name}]", f"the tables {', '.join(TABLES)}", name
    for name in TABLES[:5]:
        if name not in plain:
            yield f"[{name}]", "this table", "none"
    yield from _files(plain["files"])
    yield from _texts("fields", plain["fields"], FIELDS, NEEDED)
    for name in ("tasks", "levels", "categories"):
        for key, words in plain[name].items():
            if not isinstance(words, list) or not words:
                yield f"{name}.{key}", "a list of the records' words", repr(words)[:40]
    yield from _masks(plain.get("masks", {}))
    for key, value in plain.get("boxes", {}).items():
        options = BOXES.get(key)
        if options is None:
            yield f"boxes.{key}", f"one of {', '.join(BOXES)}", key
        elif value not in options or isinstance(value, bool) != isinstance(options[0], bool):
            yield f"boxes.{key}", " or ".join(map(repr, options)), repr(value)[:40]


def _files(files: Plain[str, Any]) -> Iterator[Fault]:
    yield from _texts("files", files, (*PLACES, "records"), tuple(PLACES))
    for key, places in PLACES.items():
        try:
            held = {name for _, name, _, _ in Formatter().parse(files[key]) if name is not None}
        except ValueError as error:
            yield f"files.{key}", "a path with words in braces", str(error)
            continue
        if not held <= places or (key == "frames" and held != places):
            wanted = " and ".join(f"{{{name}}}" for name in sorted(places))
            yield f"files.{key}", f"a path with {wanted}", repr(files[key])[:60]


def _texts(
    name: str, table: Plain[str, object], known: Sequence[str], needed: Sequence[str]
) -> Iterator[Fault]:
    """Faults of a table of texts under known keys, some of which are needed."""
    for key, value in table.items():
        if key not in known:
            yield f"{name}.{key}", f"one of {', '.join(known)}", key
        elif not isinstance(value, str):
            yield f"{name}.{key}", "text", repr(value)[:40]
    for key in needed:
        if not table.get(key):
            yield f"{name}.{key}", "text", "none"


def _masks(masks: Plain[str, object]) -> Iterator[Fault]:
    form = masks.get("form")
    yield from _texts("masks", masks, MASKS, MASKS[1:] if form == "records" else ())
    if masks and form not in FORMS:
        yield "masks.form", " or ".join(map(repr, FORMS)), repr(form)
