"""Records of a table as questions and phrases, by its description."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from string import Formatter
from typing import Literal, TypeVar

from harness.errors import DataError
from harness.media import Media
from harness.spec import Spec
from harness.tasks.pointing.task import region_answer
from harness.tasks.qa.images import open_images
from harness.tasks.qa.questions import FILE, INDEX, Fields, Question
from harness.tasks.qa.task import Videos
from harness.tasks.qa.videos import Clip
from harness.tasks.segmentation.task import Phrase
from harness.tasks.table.cells import BASE64_LENGTH, image_cells, is_absent, is_empty, plain_value
from harness.tasks.table.description import Description
from harness.tasks.table.layouts import LAYOUTS, SIZE
from harness.tasks.table.lengths import Lengths
from harness.tasks.table.protocols import check_truth
from harness.tasks.table.rows import Record
from harness.tasks.table.truth import boxes_of, mask_of, plain_answer, region_of
from harness.types import Answer, AnswerForm

T = TypeVar("T")
CHOICE_FORMS: Mapping[str, Literal["letter", "marked", "place", "option"]] = {
    "letter": "letter",
    "marked": "marked",
    "place": "place",
    "place_from_1": "place",
    "option": "option",
    "field": "place",
}


@dataclass(frozen=True)
class Records:
    """The records of a table, read by its description."""

    description: Description
    table: Path
    frames: int | Spec | None = None
    protocol: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The table and its description."""
        return self.table, self.description.path

    @cached_property
    def folder(self) -> Path:
        """The folder of media."""
        return self.table.parent / self.description.media.folder

    @property
    def videos(self) -> Videos | None:
        """The videos, where questions have some."""
        if not self.description.media.video:
            return None
        rate = self.description.media.frames_per_second
        return Videos((self.folder,), self.frames, frames_per_second=rate)

    def rows(self) -> Iterator[tuple[str, Callable[[], Record]]]:
        """Yield the place of each record and the function that returns it, with its number."""
        options = self.description.question.options
        optional = () if isinstance(options, str) else options
        listed = LAYOUTS[self.description.layout](self.table, self.fields, optional)
        for index, (where, parse) in enumerate(listed):
            yield where, partial(self._numbered, parse, index)

    def _numbered(self, parse: Callable[[], Record], index: int) -> Record:
        return {**parse(), FILE: self.table.stem, INDEX: index}

    def each(self, make: Callable[[Record, str], T]) -> Iterator[T | DataError]:
        """Yield what `make` returns of each record that counts, or its error."""
        wanted = self.description.question.where
        for where, parse in self.rows():
            try:
                row = parse()
                if missing := [name for name in self.fields if name not in row]:
                    raise DataError(
                        where,
                        expected=", ".join(self.fields),
                        found=f"no {', '.join(missing)}, but {', '.join(row)}"[:300],
                    )
                if all(row.get(name) in _listed(value) for name, value in wanted.items()):
                    yield make(row, where)
            except DataError as error:
                yield error if where in str(error) else DataError(f"{where}: {error}")

    def questions(self) -> Iterator[Question | DataError]:
        """Yield each record's question, or its error."""
        return self.each(self.question)

    def phrases(self) -> Iterator[Phrase | DataError]:
        """Yield each record's phrase with its mask, or its error."""
        return self.each(self.phrase)

    @property
    def _text_key(self) -> str:
        """Field of the question's text that a record gets when it is read, as messages name it."""
        return f"{self.description.question.text} (question)"

    @property
    def _options_key(self) -> str:
        """The same of the list of options."""
        options = self.description.question.options
        return f"{options if isinstance(options, str) else ', '.join(options)} (options)"

    @property
    def _answer_key(self) -> str:
        """The same of the choice, in one convention."""
        return f"{self.description.answer.field} (answer)"

    @cached_property
    def _reader(self) -> Fields:
        question, answer = self.description.question, self.description.answer
        clip = self.description.media.clip or None
        return Fields(
            id=_pattern(question.id) or f"{{{INDEX}}}",
            media=_pattern(self.description.media.video),
            question=self._text_key,
            answer=self._answer_key if answer.field and answer.form == "choice" else "",
            form=CHOICE_FORMS.get(answer.written, "letter"),
            options=self._options_key if question.options else "",
            lettered=question.lettered,
            letters=question.letters,
            clip=None if clip is None else (clip[0], clip[1]),
            group=_pattern(question.group),
            categories=question.categories,
        )

    @cached_property
    def fields(self) -> Sequence[str]:
        """The fields that every record has to have."""
        question, media = self.description.question, self.description.media
        names = [*media.image_fields, *media.clip, *question.categories.values(), *question.where]
        for pattern in (question.id, question.text, question.group, media.video):
            names += names_in(_pattern(pattern))
        if isinstance(question.options, str):
            names += [question.options] if question.options else []
        names += [self.description.answer.field] if self.description.answer.field else []
        return [name for name in dict.fromkeys(names) if name not in (FILE, INDEX)]

    def question(self, row: Record, where: str) -> Question:
        """Return a record's question.

        Raises:
            DataError: a field is missing or of another kind; the field is named.
        """
        described, answer = self.description, self.description.answer
        prepared = {
            **row,
            self._text_key: self._text(row, where),
            self._options_key: self._options(row, where),
        }
        if answer.form == "choice" and answer.field:
            prepared[self._answer_key] = self._choice(row[answer.field])
        question = self._reader.read_record(prepared, where)
        where = f"{where}, question {question.id!r}"
        _refuse_equal(question.options, f"{where}: {self._options_key}")
        if question.clip is not None:
            names = " and ".join(map(repr, described.media.clip))
            self._lengths.check(str(question.media), question.clip, f"{where}: {names}")
        if described.media.image_fields:
            question = replace(
                question,
                media=self._images(row, where),
                text=question.text.replace("<image>", "").strip(),
                group=question.group if described.question.group else "",
            )
        self._check_size(row, question, where)
        if not answer.field or answer.form == "choice":
            return replace(question, form=AnswerForm(answer.form))
        return replace(
            self._with_truth(question, row[answer.field], f"{where}: {answer.field!r}"),
            form=AnswerForm(answer.form),
        )

    def _with_truth(self, question: Question, value: object, where: str) -> Question:
        answer = self.description.answer
        if answer.form in ("boxes", "points"):
            media = self._opened(question)
            if media.fault is not None:  # named as a lost medium; no answer of it counts
                return replace(question, answer=Answer(no_target=True))
            if answer.form == "boxes":
                boxes = (
                    ()
                    if value is None or plain_value(value) == []
                    else boxes_of(value, answer, media, where)
                )
                return replace(question, answer=Answer(boxes=boxes, no_target=not boxes))
            levels = region_of(value, answer, media, self.folder, where)
            return replace(question, answer=region_answer(levels))
        truth, references = plain_answer(value, answer, where)
        check_truth(self.protocol, truth, where)
        if truth.interval is not None:
            self._lengths.check(str(question.media), Clip(*truth.interval), where)
        return replace(question, answer=truth, references=references)

    @cached_property
    def _lengths(self) -> Lengths:
        return Lengths(self.folder, self.description.media.frames_per_second)

    def _check_size(self, row: Record, question: Question, where: str) -> None:
        """Raise DataError if the file states another size for an image than the image has."""
        stated = row.get(SIZE)
        if not isinstance(stated, list):
            return
        media = self._opened(question)
        if media.fault is None and tuple(stated) != media.size:
            width, height = media.size
            raise DataError(
                f"{where}: 'width' and 'height'",
                expected=f"the size of its image, {width} × {height}",
                found=" × ".join(map(str, stated)),
                fix="Was the image resized or turned? Its boxes and masks are in pixels of the "
                "original.",
            )

    def _opened(self, question: Question) -> Media:
        if self.videos is not None:
            raise DataError(
                f"description {self.description.path}",
                expected=f"images for answers of the form {self.description.answer.form}",
                found="videos",
            )
        return open_images(question)[0]

    def phrase(self, row: Record, where: str) -> Phrase:
        """Return a record's phrase and its mask.

        Raises:
            DataError: a field is missing or of another kind; the field is named.
        """
        question = replace(self, description=self._unanswered).question(row, where)
        media = open_images(question)[0]
        field = self.description.answer.field
        image = question.media[0]
        assert not isinstance(image, str), "masks are of images"
        place = f"{where}, question {question.id!r}: {field!r}"
        return Phrase(
            id=question.id,
            text=question.text,
            image=image,
            mask=mask_of(row[field], self.description.answer, media.size, self.folder, place),
            where=where,
            group=question.group,
            categories=question.categories,
        )

    @cached_property
    def _unanswered(self) -> Description:
        return replace(self.description, answer=replace(self.description.answer, field=""))

    def _text(self, row: Record, where: str) -> str:
        pattern = self.description.question.text
        if "{" not in pattern:
            return str(row[pattern]) if not is_empty(row[pattern]) else ""
        filled = {name: "" if is_empty(row[name]) else row[name] for name in names_in(pattern)}
        return pattern.format_map(filled).strip()

    def _options(self, row: Record, where: str) -> object:
        options = self.description.question.options
        if isinstance(options, str):
            value = plain_value(row[options]) if options else None
            if isinstance(value, dict):  # by letter: {"A": "left", "B": "right"}
                value = [value[letter] for letter in sorted(value)]
            return value
        values = [row.get(name) for name in options]
        while values and is_absent(values[-1]):
            values.pop()
        if any(map(is_absent, values)):
            raise DataError(
                f"{where}: {', '.join(map(repr, options))}",
                expected="options in the first fields, and none between them empty",
                found=repr(values)[:60],
            )
        return [value if isinstance(value, str) else repr(value) for value in values]

    def _choice(self, value: object) -> object:
        answer = self.description.answer
        if isinstance(value, str):
            value = value.strip()
        if answer.written == "place_from_1":
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            return number - 1 if type(number) is int else value
        names = self.description.question.options
        if answer.written == "field" and value in names and not isinstance(names, str):
            return names.index(str(value))
        if answer.written == "letter" and isinstance(value, str) and len(value) == 1:
            return value.upper()
        return value

    def _images(self, row: Record, where: str) -> tuple[bytes | Path, ...]:
        images: list[bytes | Path] = []
        for name in self.description.media.image_fields:
            if not is_empty(row[name]) and row[name] != []:
                cell = self._referred(row[name])
                images += image_cells(cell, f"{where}: {name!r}", self.folder)
        if not images:
            fields = ", ".join(map(repr, self.description.media.image_fields))
            raise DataError(f"{where}: {fields}", expected="at least one image", found="none")
        return tuple(images)

    def _referred(self, cell: object) -> object:
        """Return a cell, or the image of the record that it names, as VLMEvalKit's tables do."""
        if not isinstance(cell, str) or not cell.strip().isdecimal():
            return cell
        if (self.folder / cell).exists():
            return cell
        return self._shared_images.get(cell.strip(), cell)

    @cached_property
    def _shared_images(self) -> Mapping[str, object]:
        """Images of records that others name by their id; those alone are held in memory."""
        name, key = self.description.media.image_fields[0], self._id_field
        rows = [(str(row[key]), row[name]) for _, parse in self.rows() if key in (row := parse())]
        named = {str(cell).strip() for _, cell in rows if len(str(cell)) < BASE64_LENGTH}
        return {id: cell for id, cell in rows if id in named and len(str(cell)) >= BASE64_LENGTH}

    @property
    def _id_field(self) -> str:
        id = self.description.question.id
        return id if id and "{" not in id else "index"


def _refuse_equal(options: Sequence[str], where: str) -> None:
    words = [" ".join(option.split()) for option in options]
    if equal := [word for word in words if words.count(word) > 1]:
        raise DataError(
            where,
            expected="options that differ",
            found=f"{equal[0]!r} {words.count(equal[0])} times"[:80],
            fix="Leave the cells of absent options empty, or such records out with `where`.",
        )


def _pattern(text: str) -> str:
    """Return a field's name as a pattern; a pattern as it is."""
    return f"{{{text}}}" if text and "{" not in text else text


def names_in(pattern: str) -> list[str]:
    """Return the fields that a pattern names."""
    return [name for _, name, _, _ in Formatter().parse(pattern) if name]


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]
