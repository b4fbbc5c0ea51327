"""Questions from benchmarks' records, by a declaration of the fields.

Every record that `read_records` passes on has two more fields, which patterns and categories may
name: `_file`, the name of its file without the suffix, and `_index`, its number in the file from 0.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter, ascii_uppercase
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from harness.errors import DataError, HarnessError
from harness.tasks.qa.options import texts
from harness.tasks.qa.tables import images_of, number, text, unparsed_records
from harness.tasks.qa.videos import Clip
from harness.types import Answer, AnswerForm

NOTHING: Mapping[str, str] = MappingProxyType({})
LARGEST = 1e12  # of a number that is an answer
FILE, INDEX = "_file", "_index"
MARKED = re.compile(r"\s*\(?([A-Z])\b")

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, checked."""

    id: str
    text: str
    """Text of the question, without its options."""
    media: str | tuple[bytes | Path, ...]
    """Name of its video, or its images: encoded files or paths."""
    answer: Answer | None
    """True answer; None where the organisers keep it."""
    form: AnswerForm | None = None
    """Form of answer, where the ground truth has several."""
    size: tuple[int, int] | None = None
    """Width and height that its media have to have; None: the record says nothing of it."""
    clip: Clip | None = None
    """Part of the video that is asked about; None: all of it."""
    options: tuple[str, ...] = ()
    """Without their letters."""
    group: str = ""
    """Group for the clusters of statistics; by default the medium's name or content."""
    unit: str = ""
    """Unit of the questions that are scored together, in a row; by default it is alone."""
    categories: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    """Further right texts."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Data for the benchmark's scorer besides the letter and the existing letters."""
    objects: tuple[str, ...] = ()
    """Objects that the benchmark names beside the text."""
    problem_type: str = ""
    """The benchmark's own name for the form of its answer; see `Query.problem_type`."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The whole record, for fields of one benchmark alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Names of a record's fields."""

    id: str
    """Pattern of the id, such as `{video}|{number}`."""
    media: str = ""
    """Pattern of the name of the video's file, such as `{scene}.mp4`."""
    images: Sequence[str] = ()
    """Fields of the images, where there is no video: each one image, a list of them, or null."""
    question: str = "question"
    answer: str = "answer"
    """Field of the true answer; empty where there is none."""
    form: Literal["letter", "marked", "place", "option", "number", "text"] = "letter"
    """Form of the ground truth: the letter of an option, alone or as in `(A)` or `A. left`; its
    place from 0, its text (of equal options the first is right, as in lmms-eval's MVBench); a
    number, or any text."""
    options: str | tuple[str, ...] = ()
    """Field of the list of options, or the fields of one each, of which those at the end may be
    null; empty where there is none."""
    lettered: bool = False
    """True if options begin with their letters, as `A. left` does: a list, or a text of lines."""
    letters: str = ""
    """Letters of the options, where these stand in the question's text."""
    otherwise: Literal["", "number", "text"] = ""
    """Form of the ground truth of a question without options; empty: every one has some."""
    max_options: int = len(ascii_uppercase)
    """Options at most."""
    clip: tuple[str, str] | None = None
    """The fields of the seconds at which a part of the video begins and ends. A record that has
    neither, or null in both, asks about all of the video; one without an end, up to its end."""
    group: str = ""
    """Pattern of the group for clusters of statistics; by default the medium."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """The fields of the breakdowns, by the breakdowns' names."""
    nullable: Mapping[str, str] = field(default_factory=dict)
    """Further such fields, which may be null or have any value."""
    kinds: Mapping[str, tuple[str, Sequence[str]]] = field(default_factory=dict)
    """Breakdowns by what a field begins with: the field, and its beginnings; else it is `other`."""
    allowed_values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The values that a field may have, by the field's name, which may be `_file`."""
    positive: bool = False
    """True if a number has to be above 0."""
    others: Mapping[str, Literal["number", "text", "any"]] = field(default_factory=dict)
    """Further fields that the benchmark needs, and their types."""

    def __post_init__(self) -> None:
        known = {*self.columns, FILE, INDEX}
        for name in self.allowed_values:
            if name not in known:
                raise HarnessError(
                    f"Fields: allowed_values: {name!r}",
                    expected=f"a field of the record that is read: {', '.join(sorted(known))}",
                    found=f"the category of {self.categories[name]!r}"
                    if name in self.categories
                    else "none of them",
                )

    @property
    def columns(self) -> dict[str, str]:
        """Every field that is needed, with a word on its content."""
        columns = dict.fromkeys(_names(self.id), "id")
        columns |= dict.fromkeys(_names(self.media), "medium")
        columns |= dict.fromkeys(self.images, "image")
        columns |= {self.question: "question", self.answer: "ground_truth"}
        columns |= dict.fromkeys(self.option_fields, "options")
        columns |= dict.fromkeys(self.categories.values(), "category") | dict(self.others)
        columns |= dict.fromkeys(self.nullable.values(), "category, or null")
        columns |= {name: "category" for name, _ in self.kinds.values()}
        return {name: what for name, what in columns.items() if name not in ("", FILE, INDEX)}

    @property
    def optional(self) -> dict[str, str]:
        """Fields that are read if a table has them."""
        return dict.fromkeys(self.clip or (), "seconds")

    @property
    def option_fields(self) -> tuple[str, ...]:
        """The fields that hold the options."""
        return self.options if isinstance(self.options, tuple) else (self.options,)

    def questions(self, paths: Sequence[Path]) -> "Iterator[Question | DataError]":
        """Yield each record's question, or its error; see the function `read_records`."""
        return read_records(paths, self.columns, self.read_record, optional=self.optional)

    def read_record(self, row: Mapping[str, object], where: str, place: Path = Path()) -> Question:
        """The question of a record.

        Args:
            row: The record.
            where: Where it stands, for messages.
            place: The folder of the images that have a name alone.

        Raises:
            DataError: a field is missing or of another kind; the field is named.
        """
        id = fill_pattern(self.id, row, where)
        where = f"{where}, question {id!r}"
        for name, values in self.allowed_values.items():
            if row.get(name) not in values:
                raise DataError(
                    f"{where}: {name!r}",
                    expected=f"one of {', '.join(values)}",
                    found=repr(row.get(name))[:60],
                )
        for name, kind in self.others.items():
            if kind != "any":
                (number if kind == "number" else text)(row, name, where)
        options = self._options(row, where) if self.options else ()
        wording = text(row, self.question, where)
        if not self.images:
            media: str | tuple[bytes | Path, ...] = fill_pattern(self.media, row, where)
        else:
            cells = [row[name] for name in self.images if row[name] is not None]
            media = images_of(cells, f"{where}: {', '.join(map(repr, self.images))}", place)
            wording = wording.replace("<image>", "").strip()
        group = "" if self.images else str(media)
        return Question(
            id=id,
            text=wording,
            media=media,
            clip=self._clip(row, where) if self.clip else None,
            options=options,
            answer=self._answer(row, options, where) if self.answer else None,
            group=fill_pattern(self.group, row, where) if self.group else group,
            categories={
                **{name: _category(row, key, where) for name, key in self.categories.items()},
                **{name: str(row[key] or "") for name, key in self.nullable.items()},
                **{name: _kind(row, *rule, where) for name, rule in self.kinds.items()},
            },
            extra={"letters": self.letters} if self.letters else {},
            row=row,
        )

    def _clip(self, row: Mapping[str, object], where: str) -> Clip | None:
        assert self.clip is not None, "the caller has looked"
        first, last = self.clip
        given = [name for name in self.clip if row.get(name) is not None]
        if not given:
            return None
        start = number(row, first, where)
        clip = Clip(start, number(row, last, where)) if last in given else Clip(start)
        if not 0 <= clip.start <= clip.end:
            raise DataError(
                f"{where}: {first!r} and {last!r}",
                expected="0 ≤ the first ≤ the second",
                found=f"{row.get(first)} and {row.get(last)}",
            )
        return clip

    def _options(self, row: Mapping[str, object], where: str) -> tuple[str, ...]:
        given: Any = [row.get(name) for name in self.option_fields]
        if isinstance(self.options, str):
            (given,) = given
        else:
            given = [
                option for option in given if option is not None and str(option).lower() != "nan"
            ]
        if self.otherwise and not given:
            return ()
        where = f"{where}: {', '.join(map(repr, self.option_fields))}"
        if self.lettered and isinstance(given, str):
            given = [line for line in given.split("\n") if line.strip()]
        if (
            not isinstance(given, list)
            or not 2 <= len(given) <= self.max_options
            or not all(isinstance(option, str) for option in given)
        ):
            raise DataError(
                where,
                expected=f"2 to {self.max_options} texts"
                + (" that begin with A., B., …" if self.lettered else ""),
                found=repr(given)[:60],
            )
        return texts(given, where) if self.lettered else tuple(given)

    def _answer(self, row: Mapping[str, object], options: Sequence[str], where: str) -> Answer:
        value, where = row.get(self.answer), f"{where}: {self.answer!r}"
        form = self.form if options or not self.otherwise else self.otherwise
        if form == "number":
            return Answer(number=numeric(value, where, positive=self.positive))
        if form == "text":
            return Answer(text=text(row, self.answer, where.rpartition(": ")[0]))
        letters = list(self.letters or ascii_uppercase[: len(options)])
        if form == "marked" and (marked := MARKED.match(str(value))):
            value = marked[1]
        if form == "option":
            if not isinstance(value, str) or value not in options:
                raise DataError(
                    where,
                    expected=f"one of the options: {', '.join(map(repr, options))}"[:200],
                    found=repr(value)[:60],
                )
            return Answer(choice=letters[options.index(value)])  # the first of equal ones
        if form == "place":
            value = int(value) if isinstance(value, str) and value.isdecimal() else value
            if type(value) is not int or not 0 <= value < len(letters):
                raise DataError(where, expected=f"0 to {len(letters) - 1}", found=repr(value)[:40])
            return Answer(choice=letters[value])
        if value not in letters:
            raise DataError(
                where,
                expected=f"a letter of an option: {', '.join(letters)}",
                found=repr(value)[:40],
            )
        return Answer(choice=str(value))


def read_records(
    paths: Sequence[Path],
    columns: Mapping[str, str],
    make: Callable[[Mapping[str, object], str], Made],
    *,
    optional: Mapping[str, str] = NOTHING,
) -> Iterator[Made | DataError]:
    """Yield the result of `make` for every record, or its error, in the files' order.

    Args:
        paths: Parquet, lines of JSON, or JSON that is a list; read as they are needed.
        columns: The required fields, each with a word on its content.
        make: Takes a record with its `_file` and `_index`, and where it stands.
        optional: Fields that are read if a table has them.
    """
    for path in paths:
        entries = unparsed_records(path, columns, optional=optional)
        for index, (where, parse) in enumerate(entries):
            try:
                yield make({**parse(), FILE: path.stem, INDEX: index}, where)
            except DataError as error:
                yield error if where in str(error) else DataError(f"{where}: {error}")


def fill_pattern(pattern: str, row: Mapping[str, object], where: str) -> str:
    """A pattern with the record's fields in it.

    >>> fill_pattern("{video}|{start}", {"video": "x.mp4", "start": 0.5}, "row 3")
    'x.mp4|0.5'
    """
    values = {name: row.get(name) for name in _names(pattern)}
    for name, value in values.items():
        if isinstance(value, str):
            text(row, name, where)
        elif type(value) not in (int, float):
            raise DataError(
                f"{where}: {name!r}", expected="a text or a number", found=repr(value)[:40]
            )
        else:
            number(row, name, where)
    return pattern.format_map(values)


def numeric(value: object, where: str, *, positive: bool = False) -> float:
    """A finite number, or a text that is one."""
    try:
        parsed = float(value) if isinstance(value, (str, int, float)) else None
    except ValueError:
        parsed = None
    if (
        parsed is None
        or isinstance(value, bool)
        or not abs(parsed) < LARGEST
        or (positive and parsed <= 0)
    ):
        raise DataError(
            where,
            expected="a number above 0" if positive else "a number",
            found=repr(value)[:40],
            fix="Write decimals with a point, and thousands without a mark."
            if isinstance(value, str) and "," in value
            else "",
        )
    return parsed


def _category(row: Mapping[str, object], name: str, where: str) -> str:
    """A field as a breakdown: a text, or a whole number."""
    value = row.get(name)
    if type(value) is float and value.is_integer():
        value = int(value)
    return str(value) if type(value) is int else text(row, name, where)


def _kind(row: Mapping[str, object], name: str, beginnings: Sequence[str], where: str) -> str:
    value = text(row, name, where)
    return next((beginning for beginning in beginnings if value.startswith(beginning)), "other")


def _names(pattern: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(pattern) if name]
