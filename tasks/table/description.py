"""The TOML file beside a table: which field holds what, and in which convention it is written."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.plain import from_plain
from harness.tasks.table.layouts import LAYOUTS

Form = Literal[
    "choice", "number", "count", "text", "boxes", "points", "mask", "interval", "mask_track"
]  # values of `harness.types.AnswerForm`
CHECK = "CHECK"
"""Mark of what a draft could not know."""
VIDEOS = "youtube_vos"
"""The layout of videos with a mask in every frame, which is not one of rows."""
WRITTEN: Mapping[str, tuple[str, ...]] = {
    "choice": ("letter", "marked", "place", "place_from_1", "option", "field"),
    "boxes": ("xyxy", "xywh", "cxcywh"),
    "points": ("xyxy", "xywh", "cxcywh", "image", "coco"),
    "mask": ("image", "coco"),
    "interval": ("seconds", "milliseconds"),
}
"""Conventions of the ground truth by the form of answer, of which the description names one.

A choice is its `letter` (B), `marked` with it ("(B) left"), its place from 0 or 1, the text of the
`option`, or the name of the option's `field`. A mask is an `image` or in `coco`'s polygons or
run-lengths; points count in a box or a mask. docs/tasks/table.md has examples.
"""
PARTS: Mapping[str, float] = {"relative": 1.0, "percent": 100.0, "thousandths": 1000.0}
"""Number that stands for the whole width or height of the image, by the unit of coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFields:
    """The section `media`."""

    images: str | tuple[str, ...] = ""
    """Field of an image or of a list of them, a pattern such as `{id}.jpg`, or several of these."""
    video: str = ""
    """Pattern of a video's name, such as `{video}.mp4`."""
    folder: str = "."
    """Folder of named files, from the table's own."""
    clip: tuple[str, ...] = ()
    """The fields of the seconds at which the part of the video begins and ends."""
    frames_per_second: float = 1.0
    """Rate of videos that are folders of frames."""

    def __post_init__(self) -> None:
        if self.images and self.video:
            raise ValueError("expected images or video, found both")
        if len(self.clip) not in (0, 2) or (self.clip and not self.video):
            raise ValueError(
                "clip: expected two fields, the seconds of begin and end, of a video, "
                f"found {list(self.clip)!r}"
            )

    @property
    def image_fields(self) -> tuple[str, ...]:
        """The fields of images; () where there is a video."""
        if isinstance(self.images, str):
            return (self.images,) if self.images else ()
        return tuple(self.images)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFields:
    """The section `question`."""

    text: str = ""
    """Field of the question, or a pattern with fields in braces."""
    constant: str = ""
    """The question that all records ask, in place of `text`."""
    id: str = ""
    """Field of the id, or a pattern; by default the record's number, from 0."""
    options: str | tuple[str, ...] = ()
    """Field of the list of options, or one field for each."""
    lettered: bool = False
    """True if options begin with `A. `, `B. `, …."""
    letters: str = ""
    """Letters of options that stand in the question's text, such as ABCD."""
    group: str = ""
    """Pattern of the group that statistics cluster by; by default the medium."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Fields of the breakdowns, by the breakdowns' names."""
    where: Mapping[str, object] = field(default_factory=dict)
    """Values of fields; records with others are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerField:
    """The section `answer`."""

    form: Form
    field: str = ""
    """Field of the ground truth, or a pattern, as of a mask's file; empty where it is not public.

    In TOML, an interval may have two fields, `["start", "end"]`: they become a pattern.
    """
    written: str = ""
    """The convention it is written in; see `WRITTEN`."""
    coordinates: Literal["pixels", "relative", "percent", "thousandths"] = "pixels"
    """Frame of boxes and points: pixels of the image, or fractions, percent or thousandths of its
    width and height (`PARTS`)."""
    also: tuple[str, ...] = ()
    """Fields of further right texts, which may be empty or missing."""
    separator: str | None = None
    """Mark between the right texts of a cell; "" states that a cell is one text."""

    def __post_init__(self) -> None:
        for name in ("separator", "also"):
            if getattr(self, name) and self.form != "text":
                raise ValueError(f"{name}: expected the form 'text', found {self.form!r}")
        conventions = WRITTEN.get(self.form, ())
        if self.written not in (conventions or ("",)):
            wanted = " or ".join(map(repr, conventions)) or f"nothing for the form {self.form!r}"
            raise ValueError(f"written: expected {wanted}, found {self.written!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """The section `scoring`."""

    protocol: str = ""
    """A protocol of the form of answer, or of a benchmark, as `BENCHMARK:PROTOCOL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One description, checked but for the table's fields."""

    name: str
    """The benchmark's name in records and on boards."""
    media: MediaFields
    answer: AnswerField
    question: QuestionFields = QuestionFields()
    version: int = 1
    """Raised by its author when questions or ground truth change."""
    layout: str = "rows"
    """`rows`: a record a row; else a layout of `LAYOUTS`, from which rows are made."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Tables by their split, from the folder of the description; empty: the table beside it."""
    scoring: Scoring = Scoring()
    path: Path = Path()
    """The file itself; not one of its keys."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            expected = "letters, digits and _, and no digit first"
            raise ValueError(f"name: expected {expected}, found {self.name!r}")
        if self.layout not in (*LAYOUTS, VIDEOS):
            known = " or ".join(map(repr, (*LAYOUTS, VIDEOS)))
            raise ValueError(f"layout: expected {known}, found {self.layout!r}")
        if (self.layout == VIDEOS) != (self.answer.form == "mask_track"):
            raise ValueError(
                f"answer: form: expected 'mask_track' exactly with layout = {VIDEOS!r}, "
                f"found {self.answer.form!r} with {self.layout!r}"
            )
        drafted = {"question: text": self.question.text, "media: images": self.media.images}
        for key, value in drafted.items():
            if value == CHECK:
                raise ValueError(f"{key}: expected a field of the table, found still {CHECK!r}")
        if self.question.text and self.question.constant:
            raise ValueError("question: expected text or constant, found both")
        if self.layout != VIDEOS and not (self.question.text or self.question.constant):
            raise ValueError("question: text: expected a field or a pattern, found none")
        if self.layout != VIDEOS and not (self.media.images or self.media.video):
            raise ValueError("media: expected images = FIELD or video = PATTERN, found neither")
        choice, options = (
            self.answer.form == "choice",
            self.question.options or self.question.letters,
        )
        if choice and not options:
            raise ValueError(
                'question: expected options = FIELD, or letters = "ABCD" where the text holds '
                "the options, of a benchmark of choices, found neither"
            )


def read_description(path: Path) -> Description:
    """Read a TOML file.

    Raises:
        DataError: it is missing, not TOML, or a key is missing, unknown or of another type.
    """
    expected = "a description of a table, as docs/tasks/table.md has it"
    with raised_as(DataError, f"file {path}", expected, OSError, ValueError):
        plain = tomllib.loads(read_text(path))
        if "path" in plain:
            raise ValueError("expected no key 'path', found one")
        return replace(from_plain(Description, _with_joined_fields(plain)), path=path)


def _with_joined_fields(plain: dict[str, object]) -> dict[str, object]:
    """Return a description whose two fields of an interval, begin and end, are one pattern."""
    answer = plain.get("answer")
    names = answer.get("field") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(names, list):
        return plain
    if answer.get("form") != "interval" or len(names) != 2:
        raise ValueError(
            f"answer: field: expected a field, or the two of an interval, found {names!r}"
        )
    if unfit := [name for name in names if not isinstance(name, str) or {*name} & {*"{}[].:!"}]:
        raise ValueError(
            "answer: field: expected two names without . : ! [ ] { }, "
            f"found {unfit[0]!r}; give the field another name"
        )
    return {**plain, "answer": {**answer, "field": f"{{{names[0]}}} - {{{names[1]}}}"}}
