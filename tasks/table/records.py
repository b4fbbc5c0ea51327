"""Read the records of a table as questions or phrases, by its description."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from harness.errors import DataError
from harness.media import Media
from harness.spec import Spec
from harness.tasks.pointing.task import region_answer
from harness.tasks.qa.images import open_images
from harness.tasks.qa.questions import FILE, INDEX, Fields, Question, filled
from harness.tasks.qa.task import Videos
from harness.tasks.qa.videos import Clip
from harness.tasks.segmentation.task import Phrase
from harness.tasks.table.cells import (
    THOUSANDS,
    is_absent,
    is_empty,
    plain_value,
)
from harness.tasks.table.description import CHECK, WRITTEN, Description
from harness.tasks.table.image_fields import (
    as_list,
    found_in,
    numbered_beside,
)
from harness.tasks.table.layouts import LAYOUTS
from harness.tasks.table.lengths import Lengths
from harness.tasks.table.nested import jq_path
from harness.tasks.table.patterns import cell_of, names_in, pattern_of
from harness.tasks.table.protocols import BINARY, BITS, check_truth
from harness.tasks.table.record_images import RecordImages
from harness.tasks.table.record_options import Options, refuse_equal
from harness.tasks.table.rows import Record, file_columns, per_record
from harness.tasks.table.stated_sizes import check_size
from harness.tasks.table.truth import boxes_of, mask_of, plain_answer, region_of
from harness.tasks.table.unread_fields import (
    UNREAD,
    refuse_ignored,
    refuse_marks,
    refuse_other_boxes,
)
from harness.types import Answer, AnswerForm

T = TypeVar("T")
DECIMAL = re.compile(r"[-+]?\d*\.\d+")
"""The text of a number with a point."""


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
        """The folder that the names of images and videos are below."""
        return self.table.parent / self.description.media.folder

    @property
    def videos(self) -> Videos | None:
        """The videos; None where questions are about images."""
        if not self.description.media.video:
            return None
        rate = self.description.media.frames_per_second
        return Videos((self.folder,), self.frames, frames_per_second=rate)

    def rows(self) -> Iterator[tuple[str, Callable[[], Record]]]:
        """Yield (place for errors, function that returns the record) of each record."""
        options = self.description.question.options
        optional = (*UNREAD, *(() if isinstance(options, str) else options))
        optional += self.description.answer.also
        images = self.description.media.image_fields
        if len(images) > 1:  # a record may have more
            optional += tuple(numbered_beside(images, file_columns(self.table)))
        wanted = list(self.description.question.where)
        required: Sequence[str] = [name for name in self.fields if name not in self._sparse]
        if wanted:  # records that are left out may lack the others
            required, optional = wanted, (*self.fields, *optional)
        listed = LAYOUTS[self.description.layout](self.table, required, optional)
        for index, (where, parse) in enumerate(listed):
            yield where, partial(self._numbered, parse, index)

    def _numbered(self, parse: Callable[[], Record], index: int) -> Record:
        """Return a record with the table's name and its own number added."""
        absent = dict.fromkeys(self._sparse)
        return {**absent, **parse(), FILE: self.table.stem, INDEX: index}

    @cached_property
    def _sparse(self) -> Sequence[str]:
        """Fields of several images of a JSON record, which it may lack if another one has them."""
        images = self.description.media.image_fields
        if len(images) < 2 or self.table.suffix.lower() not in (".json", ".jsonl"):
            return ()
        names = [name for image_names in self._images.names for name in image_names]
        return found_in(LAYOUTS[self.description.layout](self.table, (), names), names)

    def each(self, make: Callable[[Record, str], T]) -> Iterator[T | DataError]:
        """Yield the result of `make` for each record that fits `question.where`, or its error."""
        wanted = self.description.question.where
        for where, parse in self.rows():
            try:
                row = parse()
                _require(row, list(wanted), where)
                if all(row[name] in as_list(value) for name, value in wanted.items()):
                    _require(row, self.fields, where)
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
        """Name of the field for the question's text that `question` adds; messages show it."""
        return f"{self.description.question.text} (question)"

    @cached_property
    def _options(self) -> Options:
        return Options(self.description.question.options, self.description.answer.written)

    @cached_property
    def _images(self) -> RecordImages:
        return RecordImages(
            self.description, self.table, self.folder, self._names_with_braces, self.rows
        )

    @property
    def _answer_key(self) -> str:
        """Name of the field for the choice that `question` adds, in one convention."""
        return f"{self.description.answer.field} (answer)"

    @cached_property
    def _reader(self) -> Fields:
        """Reader of a record with the added fields `_text_key`, `_options.key`, `_answer_key`."""
        question, answer = self.description.question, self.description.answer
        clip = self.description.media.clip or None
        return Fields(
            id=pattern_of(question.id) or f"{{{INDEX}}}",
            media=pattern_of(self.description.media.video),
            question=self._text_key,
            answer=self._answer_key if answer.field and answer.form == "choice" else "",
            form=self._options.form,
            options=self._options.key if question.options else "",
            lettered=question.lettered,
            letters=question.letters,
            clip=None if clip is None else (clip[0], clip[1]),
            group=pattern_of(question.group),
            categories=question.categories,
        )

    @cached_property
    def fields(self) -> Sequence[str]:
        """The fields that every record has to have."""
        question, media = self.description.question, self.description.media
        answer = self.description.answer
        names = [*media.clip, *question.categories.values(), *question.where]
        patterns = (*media.image_fields, question.id, question.text, question.group, media.video)
        for pattern in (*patterns, answer.field):
            is_name = pattern in self._names_with_braces
            names += [pattern] if is_name else names_in(pattern_of(pattern))
        if isinstance(question.options, str):
            names += [question.options] if question.options else []
        return [name for name in dict.fromkeys(names) if name not in (FILE, INDEX)]

    @cached_property
    def _names_with_braces(self) -> frozenset[str]:
        """Fields whose names have braces, and which are not patterns: the first record has them."""
        question, media = self.description.question, self.description.media
        used = (question.text, *media.image_fields, self.description.answer.field)
        patterns = [name for name in used if "{" in name]
        if not patterns:
            return frozenset()
        row: Record = {}
        with suppress(DataError):  # named where the records are read
            for _, parse in LAYOUTS[self.description.layout](self.table, (), patterns):
                row = parse()
                break
        return frozenset(patterns) & row.keys()

    @cached_property
    def _named(self) -> frozenset[str]:
        """All fields that the description names."""
        options = self.description.question.options
        listed = [options] if isinstance(options, str) else options
        return frozenset((*self.fields, *listed, *self.description.answer.also))

    def question(self, row: Record, where: str) -> Question:
        """Return a record's question.

        Raises:
            DataError: a field is missing or of another kind; the field is named.
        """
        return self._question(row, self._named, where)

    def _question(self, row: Record, named: frozenset[str], where: str) -> Question:
        """Return a record's question; `named` are the fields that the whole description names."""
        described, answer = self.description, self.description.answer
        refuse_ignored(row, answer.form, named, where)
        if answer.written in WRITTEN["boxes"]:
            refuse_other_boxes(row, answer.written, answer.field not in ("", *row), where)
        self._images.refuse_none(row, where)
        prepared = {
            **row,
            **{name: _time(row[name]) for name in described.media.clip if name in row},
            self._text_key: self._text(row, where),
            self._options.key: self._options.of(row, where),
        }
        if answer.form == "choice" and answer.field:
            place = f"{where}: {answer.field!r}"
            choice, options = cell_of(row, answer.field, place), prepared[self._options.key]
            self._options.refuse_other_convention(choice, options, place)
            prepared[self._answer_key] = self._options.choice(choice)
        texts = [str(prepared[self._text_key])]
        if isinstance(options := prepared[self._options.key], list):
            texts += map(str, options)
        is_text = answer.form == "text" and answer.field in row
        refuse_marks(row, texts, str(row[answer.field]) if is_text else "", named, where)
        question = self._reader.read_record(prepared, where)
        where = f"{where}, question {question.id!r}"
        if question.text.strip() == CHECK:  # the printed command of `data init` has it
            raise DataError(where, expected="a question", found=f"the placeholder {CHECK}")
        refuse_equal(question.options, f"{where}: {self._options.key}")
        if question.clip is not None:
            names = " and ".join(map(repr, described.media.clip))
            self._lengths.check(str(question.media), question.clip, f"{where}: {names}")
        if described.media.image_fields:
            question = replace(
                question,
                media=self._images.of(row, where),
                text=question.text.replace("<image>", "").strip(),
                group=question.group if described.question.group else "",
                place=f"{where}: {', '.join(map(repr, described.media.image_fields))}",
            )
        check_size(row, answer, partial(self._opened, question), where)
        if not answer.field or answer.form == "choice":
            return replace(question, form=AnswerForm(answer.form))
        place = f"{where}: {answer.field!r}"
        answered = self._with_truth(question, cell_of(row, answer.field, place), place)
        for name in answer.also:
            if name in self._unknown:
                raise DataError(place, expected=f"some records with {name!r} (also)", found="none")
            if not is_empty(row.get(name)) and plain_value(row[name]) != []:
                truth, others = plain_answer(row[name], answer, f"{where}: {name!r}")
                further = (*answered.references, str(truth.text), *others)
                answered = replace(answered, references=further)
        return replace(answered, form=AnswerForm(answer.form))

    def _with_truth(self, question: Question, value: object, where: str) -> Question:
        """Return a question with the ground truth of a cell, in any form but a choice."""
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
        if answer.form == "count" and isinstance(plain_value(value), list):
            raise self._uncounted(value, where)
        # "1.250" may be 1 or 1250, unless another ground truth shows that points are decimal.
        is_ambiguous = isinstance(value, str) and THOUSANDS.fullmatch(value.strip())
        if answer.form == "count" and is_ambiguous and not self._has_decimals:
            meant = str(value).strip()
            raise DataError(
                where,
                expected="a whole number without a point",
                found=repr(value)[:40],
                fix=f"Write {meant.replace('.', '')} or {meant.partition('.')[0]}, as it is meant.",
            )
        truth, references = plain_answer(value, answer, where)
        bit = (truth.text or "").strip().lower()
        if self.protocol == BINARY.name and bit in BITS and self._are_bits:
            truth = replace(truth, text=BITS[bit])
        check_truth(self.protocol, truth, where)
        if truth.interval is not None:
            self._lengths.check(str(question.media), Clip(*truth.interval), where)
        return replace(question, answer=truth, references=references)

    def _uncounted(self, value: object, where: str) -> DataError:
        """Return the error for a list in the place of a count."""
        name = self.description.answer.field
        program = f'.count = (getpath({jq_path(name)}) | if type == "array" then length else '
        program += 'error("not a list") end)'
        if name != "count":
            program = f'if has("count") then error("a count beside the list") else {program} end'
        typed = per_record(
            self.table, program, 'has the number of its members, for field = "count"'
        )
        fix = f"{typed or 'Write the number of its members'}."
        return DataError(where, expected="a number", found=repr(value)[:40], fix=fix)

    @cached_property
    def _has_decimals(self) -> bool:
        """True if a ground truth has a point that cannot part thousands: `0.000`, `2.5`."""
        name = self.description.answer.field
        for _, parse in self.rows():
            with suppress(DataError):  # named where the record is read
                text = str(parse().get(name)).strip()
                if DECIMAL.fullmatch(text) and not THOUSANDS.fullmatch(text):
                    return True
        return False

    @cached_property
    def _unknown(self) -> frozenset[str]:
        """Fields of further right texts that no record has."""
        names = {*self.description.answer.also}
        for _, parse in self.rows() if names else ():
            with suppress(DataError):  # named where the record is read
                names -= parse().keys()
        return frozenset(names)

    @cached_property
    def _are_bits(self) -> bool:
        """True if the ground truth of every record is 1, 0, true or false."""
        name, wanted = self.description.answer.field, self.description.question.where
        for _, parse in self.rows():
            with suppress(DataError):  # named where the record is read
                row = parse()
                is_asked = all(row.get(key) in as_list(value) for key, value in wanted.items())
                if is_asked and str(row.get(name)).strip().lower() not in BITS:
                    return False
        return True

    @cached_property
    def _lengths(self) -> Lengths:
        return Lengths(self.folder, self.description.media.frames_per_second)

    def _opened(self, question: Question) -> Media:
        """Open a question's image; a DataError if the description has videos."""
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
        question = replace(self, description=self._unanswered)._question(row, self._named, where)
        media = self._opened(question)
        field = self.description.answer.field
        image = question.media[0]
        assert not isinstance(image, str), "masks are of images"
        place = f"{where}, question {question.id!r}: {field!r}"
        return Phrase(
            id=question.id,
            text=question.text,
            image=image,
            mask=mask_of(
                cell_of(row, field, place),
                self.description.answer,
                media,
                self.folder,
                place,
            ),
            where=where,
            group=question.group,
            categories=question.categories,
        )

    @cached_property
    def _unanswered(self) -> Description:
        """The description without the field of the ground truth."""
        return replace(self.description, answer=replace(self.description.answer, field=""))

    def _text(self, row: Record, where: str) -> str:
        """Return the question's text: a field, or a pattern with its fields filled in."""
        if constant := self.description.question.constant:
            return constant
        pattern = self.description.question.text
        for name in [pattern] if pattern in row else names_in(pattern_of(pattern)):
            if isinstance(row[name], (list, dict)):
                raise self._text_error(row[name], name, where)
        if "{" not in pattern or pattern in row:
            return str(row[pattern]) if not is_empty(row[pattern]) else ""
        values = {name: "" if is_absent(row[name]) else row[name] for name in names_in(pattern)}
        return filled(pattern, values).strip()

    def _text_error(self, value: object, name: str, where: str) -> DataError:
        """Return the error for a list or an object in the place of a question's text.

        For a list, the fix is a command of jq that makes a record of each of its texts. If the
        answer, too, may be a list with a member for each text, the program refuses such records:

            if (getpath(["answer"]) | type) == "array" and (getpath(["answer"]) | length) > 1
            and (getpath(["answer"]) | length) == (getpath(["question"]) | length)
            then error("an answer for each text") else
            (getpath(["question"]) | if . == [] then error("a record without a text") else . end)[]
            as $text | setpath(["question"]; $text) end
        """
        path = jq_path(name)
        answer = self.description.answer
        program = f'getpath({path}) | if . == [] then error("a record without a text") else . end'
        program = f"({program})[] as $text | setpath({path}; $text)"
        if answer.form in ("text", "choice", "number", "count", "boxes"):
            given = f"getpath({jq_path(answer.field)})"
            condition = f'({given} | type) == "array" and ({given} | length) > 1 and '
            if answer.form == "boxes":
                condition += f'({given}[0] | type) != "number" and '
            condition += f"({given} | length) == (getpath({path}) | length)"
            program = f'if {condition} then error("an answer for each text") else {program} end'
        does = "has a record for each of its texts, all with the answer of the record."
        typed = per_record(self.table, program, does)
        fix = typed if isinstance(value, list) else ""
        return DataError(f"{where}: {name!r}", expected="a text", found=repr(value)[:60], fix=fix)


def _require(row: Record, names: Sequence[str], where: str) -> None:
    """Raise DataError if a record lacks one of these fields."""
    if missing := [name for name in names if name not in row]:
        raise DataError(
            where,
            expected=", ".join(names),
            found=f"no {', '.join(missing)}, but {', '.join(row)}"[:300],
        )


def _time(cell: object) -> object:
    """Return the number that a cell of CSV is, None for an empty one; other cells as they are."""
    if not isinstance(cell, str) or is_absent(cell):
        return None if isinstance(cell, str) else cell
    return float(cell) if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", cell) else cell
