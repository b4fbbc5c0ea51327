"""Turn the records of a benchmark's files into `Question`s, by a declaration of their `Fields`.

A benchmark's task declares `Fields`; `table_task` reads its files by them. Every record has two
further fields, which patterns and categories may name: `_file`, the name of its file without the
suffix, and `_index`, its number in the file from 0.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter, ascii_uppercase
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from harness.errors import DataError, HarnessError, raised_as
from harness.tasks.qa.options import texts
from harness.tasks.qa.tables import images_of, number, text, unparsed_records
from harness.tasks.qa.videos import Clip
from harness.types import Answer, AnswerForm

NOTHING: Mapping[str, str] = MappingProxyType({})
LARGEST = 1e12  # limit of the size of a true number
FILE, INDEX = "_file", "_index"
MARKED = re.compile(r"\s*\(?([A-Z])\b")  # "(A)", "A. left", "A"

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One checked question of a benchmark, before its media are opened."""

    id: str
    text: str
    """Text of the question, without its options."""
    media: str | tuple[bytes | Path, ...]
    """Name of its video, or its images: encoded files or paths."""
    answer: Answer | None
    """True answer; None if the organisers keep it secret."""
    form: AnswerForm | None = None
    """Form of answer; None: it follows from options and true answer (`form_of`)."""
    size: tuple[int, int] | None = None
    """(width, height) that its media must have; None: the record does not say."""
    clip: Clip | None = None
    """Part of the video that is asked about; None: all of it."""
    options: tuple[str, ...] = ()
    """Options without their letters."""
    group: str = ""
    """Cluster of dependent samples, for statistics; by default the medium's name or content."""
    unit: str = ""
    """Name of a unit of consecutive questions that are scored together; by default none."""
    categories: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    """Further right texts."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Data for the benchmark's scorer, besides the true letter and the letters of options."""
    objects: tuple[str, ...] = ()
    """Objects that the benchmark names beside the text."""
    problem_type: str = ""
    """The benchmark's own name for the form of its answer; see `Query.problem_type`."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The whole record, for fields of one benchmark alone."""
    place: str = ""
    """File, line and field of its images, for messages; by default the question's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Names of the fields in which a record of the benchmark's file has its parts.

    A pattern is a text with names of fields in braces: `{video}|{number}` of the record
    `{"video": "a", "number": 3}` is `a|3`.
    """

    id: str
    """Pattern of the sample's id, which is unique."""
    media: str = ""
    """Pattern of the name of the video's file, such as `{scene}.mp4`."""
    images: Sequence[str] = ()
    """Fields of the images, where there is no video: each one image, a list of them, or null."""
    question: str = "question"
    """Field of the question's text."""
    answer: str = "answer"
    """Field of the true answer; empty where there is none."""
    form: Literal["letter", "marked", "place", "option", "number", "text"] = "letter"
    """Form of the true answer: `letter` of an option (`A`), `marked` (`(A)` or `A. left`), `place`
    (0 is the first option), `option` (its text; of equal options the first, as in lmms-eval's
    MVBench), `number`, or any `text`."""
    options: str | tuple[str, ...] = ()
    """Field of the list of options, or a field for each option, of which the last may be null;
    empty where there are no options."""
    lettered: bool = False
    """True if each option begins with its letter, as `A. left`, in a list or in lines of a text."""
    letters: str = ""
    """Letters of the options, if the options are part of the question's text."""
    otherwise: Literal["", "number", "text"] = ""
    """Form of the true answer of a question without options; empty: every question has options."""
    max_options: int = len(ascii_uppercase)
    """Maximum number of options."""
    clip: tuple[str, str] | None = None
    """Fields of the start and end of the part of the video that is asked about, in seconds. Without
    both it is the whole video; without the end it goes on to the end of the video."""
    group: str = ""
    """Pattern of the group: samples of one group are resampled together (default: the medium)."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Field of each breakdown, by the breakdown's name: `{"skill": "question_type"}`."""
    nullable: Mapping[str, str] = field(default_factory=dict)
    """The same for fields that may be null or have any value."""
    kinds: Mapping[str, tuple[str, Sequence[str]]] = field(default_factory=dict)
    """Breakdowns by the beginning of a field's text: the field, and the beginnings; another text
    counts as `other`."""
    allowed_values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values that a field may have, by the field's name (`_file`: the name of the file)."""
    positive: bool = False
    """True if a number must be above 0."""
    others: Mapping[str, Literal["number", "text", "any"]] = field(default_factory=dict)
    """Further fields that a record must have, and their types."""

    def __post_init__(self) -> None:
        names = {*self.columns, FILE, INDEX}
        for name in self.allowed_values:
            if name not in names:
                raise HarnessError(
                    f"Fields: allowed_values: {name!r}",
                    expected=f"a field of the record that is read: {', '.join(sorted(names))}",
                    found=f"the category of {self.categories[name]!r}"
                    if name in self.categories
                    else "none of them",
                )

    @property
    def columns(self) -> dict[str, str]:
        """Every required field, with a word on its content for error messages."""
        columns = dict.fromkeys(_names(self.id), "id")
        columns |= dict.fromkeys(_names(self.media), "medium")
        columns |= dict.fromkeys(self.images, "image")
        columns |= {self.question: "question", self.answer: "ground_truth"}
        columns |= dict.fromkeys(self.option_fields, "options")
        columns |= dict.fromkeys(self.categories.values(), "category") | dict(self.others)
        columns |= dict.fromkeys(self.nullable.values(), "category, or null")
        columns |= {name: "category" for name, _ in self.kinds.values()}
        return {name: content for name, content in columns.items() if name not in ("", FILE, INDEX)}

    @property
    def optional(self) -> dict[str, str]:
        """Fields that are read if a table has them, with a word on their content."""
        return dict.fromkeys(self.clip or (), "seconds")

    @property
    def option_fields(self) -> tuple[str, ...]:
        """The fields that hold the options."""
        return self.options if isinstance(self.options, tuple) else (self.options,)

    def questions(self, paths: Sequence[Path]) -> "Iterator[Question | DataError]":
        """Yield each record's question, or its error; see the function `read_records`."""
        return read_records(paths, self.columns, self.read_record, optional=self.optional)

    def read_record(self, row: Mapping[str, object], where: str, root: Path = Path()) -> Question:
        """Return the question of a record.

        Args:
            row: The record.
            where: File and position of the record, for messages.
            root: Folder of images that the record gives by name.

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
        for name, content in self.others.items():
            if content == "number":
                number(row, name, where)
            elif content != "any":
                text(row, name, where)
        options = self._options(row, where) if self.options else ()
        wording = text(row, self.question, where)
        if not self.images:
            media: str | tuple[bytes | Path, ...] = fill_pattern(self.media, row, where)
        else:
            cells = [row[name] for name in self.images if row[name] is not None]
            media = images_of(cells, f"{where}: {', '.join(map(repr, self.images))}", root)
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
        """Return the part of the video that a record names; None: it names none."""
        assert self.clip is not None, "the caller has checked"
        first, last = self.clip
        present = [name for name in self.clip if row.get(name) is not None]
        if not present:
            return None
        start = number(row, first, where)
        clip = Clip(start, number(row, last, where)) if last in present else Clip(start)
        if not 0 <= clip.start <= clip.end:
            raise DataError(
                f"{where}: {first!r} and {last!r}",
                expected="0 ≤ the first ≤ the second",
                found=f"{row.get(first)} and {row.get(last)}",
            )
        return clip

    def _options(self, row: Mapping[str, object], where: str) -> tuple[str, ...]:
        """Return a record's options without letters; empty: it has none, and need not have any."""
        options: Any
        if isinstance(self.options, str):
            options = row.get(self.options)
        else:
            cells = [row.get(name) for name in self.options]
            options = [cell for cell in cells if cell is not None and str(cell).lower() != "nan"]
        if self.otherwise and not options:
            return ()
        where = f"{where}: {', '.join(map(repr, self.option_fields))}"
        if self.lettered and isinstance(options, str):
            options = [line for line in options.split("\n") if line.strip()]
        if (
            not isinstance(options, list)
            or not 2 <= len(options) <= self.max_options
            or not all(isinstance(option, str) for option in options)
        ):
            raise DataError(
                where,
                expected=f"2 to {self.max_options} texts"
                + (" that begin with A., B., …" if self.lettered else ""),
                found=repr(options)[:60],
            )
        return texts(options, where) if self.lettered else tuple(options)

    def _answer(self, row: Mapping[str, object], options: Sequence[str], where: str) -> Answer:
        """Return the true answer of a record, a letter, number or text, by `form`."""
        value, where = row.get(self.answer), f"{where}: {self.answer!r}"
        form = self.form if options or not self.otherwise else self.otherwise
        if form == "number":
            return Answer(number=numeric(value, where, positive=self.positive))
        if form == "text":
            return Answer(text=text(row, self.answer, where.rpartition(": ")[0]))
        letters = list(self.letters or ascii_uppercase[: len(options)])
        if form == "marked":
            marked = MARKED.match(str(value))
            value = marked[1] if marked else value
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
    make: Callable[[Mapping[str, object], str], RecordT],
    *,
    optional: Mapping[str, str] = NOTHING,
) -> Iterator[RecordT | DataError]:
    """Yield the result of `make` for every record, or its error, in the files' order.

    Args:
        paths: Files in the formats of `harness.tasks.qa.tables`, read one after the other.
        columns: The required fields, each with a word on its content.
        make: Function of a record, with its `_file` and `_index`, and its position as text.
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
    """Return a pattern with the record's fields filled in.

    >>> fill_pattern("{video}|{start}", {"video": "x.mp4", "start": 0.5}, "row 3")
    'x.mp4|0.5'

    Raises:
        DataError: a value is neither a text nor a number, or does not fit, as a text in `{id:03d}`.
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
    with raised_as(DataError, where, f"values that fit {pattern!r}", ValueError):
        return filled(pattern, values)


class _Fields(Formatter):
    """A formatter whose fields may have dots in their names."""

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, str]:
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value; zeros stand before a number, also before one that a table has as text.

        >>> _Fields().format_field("7", "03"), _Fields().format_field(7, "03d")
        ('007', '007')
        """
        if isinstance(value, str) and re.fullmatch(r"0\d+d?", format_spec):
            if not value.strip().isdecimal():
                raise ValueError(f"{value!r} is not a number to put zeros before")
            value = int(value)
        return str(super().format_field(value, format_spec))


def filled(pattern: str, values: Mapping[str, object]) -> str:
    """Return a pattern with each `{name}` replaced by its value, also of names with dots.

    >>> filled("{meta.name}.jpg", {"meta.name": "a"})
    'a.jpg'
    """
    return _Fields().vformat(pattern, (), values)


def numeric(value: object, where: str, *, positive: bool = False) -> float:
    """Return a number as a float, also if it is written as text; otherwise raise DataError."""
    try:
        parsed = float(value) if isinstance(value, (str, int, float)) else None
        parsed = None if "_" in str(value) else parsed  # Python reads 10_20 as 1020
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
    """Return a field, a text or a whole number, as the value of a category."""
    value = row.get(name)
    if type(value) is float and value.is_integer():
        value = int(value)
    return str(value) if type(value) is int else text(row, name, where)


def _kind(row: Mapping[str, object], name: str, beginnings: Sequence[str], where: str) -> str:
    """Return the first of the beginnings with which a field's text begins, else `other`."""
    value = text(row, name, where)
    return next((beginning for beginning in beginnings if value.startswith(beginning)), "other")


def _names(pattern: str) -> list[str]:
    """Return the names of the fields in a pattern."""
    return [name for _, name, _, _ in Formatter().parse(pattern) if name]
