"""Read the records of a table as questions or phrases, by its description."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from harness.tasks.qa.questions import FILE, INDEX, Fields, Question, fill_pattern, filled
from harness.tasks.qa.task import Videos
from harness.tasks.qa.videos import Clip
from harness.tasks.segmentation.task import Phrase
from harness.tasks.table.cells import (
    BASE64_LENGTH,
    THOUSANDS,
    image_cells,
    is_absent,
    is_empty,
    plain_value,
    without_marks,
)
from harness.tasks.table.conventions import by_marks, conventions_of, leave_one_out, letter_of
from harness.tasks.table.description import CHECK, WRITTEN, Description
from harness.tasks.table.image_fields import (
    as_list,
    found_in,
    has_image,
    is_no_image,
    numbered_beside,
    refuse_more_images,
    with_images,
)
from harness.tasks.table.layouts import LAYOUTS, SIZE
from harness.tasks.table.lengths import Lengths
from harness.tasks.table.nested import at_path, jq_path
from harness.tasks.table.protocols import BINARY, BITS, check_truth
from harness.tasks.table.rows import Record, file_columns, per_record
from harness.tasks.table.truth import boxes_of, mask_of, plain_answer, region_of
from harness.tasks.table.unread_fields import (
    SIZES_OF_IMAGES,
    UNREAD,
    refuse_ignored,
    refuse_marks,
    refuse_other_boxes,
    stated_size,
)
from harness.types import Answer, AnswerForm

T = TypeVar("T")
WRITTEN_IN_PIXELS = ("boxes", "points", "mask")
DECIMAL = re.compile(r"[-+]?\d*\.\d+")
"""The text of a number with a point."""
MEMBER = re.compile(r"(?P<list>.+)\.(?P<place>\d+)(?:\.\D.*)?")
"""Field of a member of a list, or of a field of that: `options.0`, `options.0.text`."""
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
        names = [name for image_names in self._names_of_images for name in image_names]
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

    @property
    def _options_key(self) -> str:
        """Name of the field for the list of options that `question` adds."""
        options = self.description.question.options
        return f"{options if isinstance(options, str) else ', '.join(options)} (options)"

    @property
    def _answer_key(self) -> str:
        """Name of the field for the choice that `question` adds, in one convention."""
        return f"{self.description.answer.field} (answer)"

    @cached_property
    def _reader(self) -> Fields:
        """Reader of a record to which the three fields above have been added."""
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
        answer = self.description.answer
        names = [*media.clip, *question.categories.values(), *question.where]
        patterns = (*media.image_fields, question.id, question.text, question.group, media.video)
        for pattern in (*patterns, answer.field):
            is_name = pattern in self._names_with_braces
            names += [pattern] if is_name else names_in(_pattern(pattern))
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
        if described.media.image_fields and not has_image(row, self._names_of_images):
            fields = ", ".join(map(repr, described.media.image_fields))
            raise DataError(
                f"{where}: {fields}",
                expected="at least one image",
                found="none",
                fix=f"{self._without_images}.",
            )
        prepared = {
            **row,
            **{name: _time(row[name]) for name in described.media.clip if name in row},
            self._text_key: self._text(row, where),
            self._options_key: self._options(row, where),
        }
        if answer.form == "choice" and answer.field:
            place = f"{where}: {answer.field!r}"
            choice, options = _cell(row, answer.field, place), prepared[self._options_key]
            self._refuse_other_convention(choice, options, place)
            prepared[self._answer_key] = self._choice(choice)
        texts = [str(prepared[self._text_key])]
        if isinstance(options := prepared[self._options_key], list):
            texts += map(str, options)
        is_text = answer.form == "text" and answer.field in row
        refuse_marks(row, texts, str(row[answer.field]) if is_text else "", named, where)
        question = self._reader.read_record(prepared, where)
        where = f"{where}, question {question.id!r}"
        if question.text.strip() == CHECK:  # the printed command of `data init` has it
            raise DataError(where, expected="a question", found=f"the placeholder {CHECK}")
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
                place=f"{where}: {', '.join(map(repr, described.media.image_fields))}",
            )
        self._check_size(row, question, where)
        if not answer.field or answer.form == "choice":
            return replace(question, form=AnswerForm(answer.form))
        place = f"{where}: {answer.field!r}"
        answered = self._with_truth(question, _cell(row, answer.field, place), place)
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
        is_open = isinstance(value, str) and THOUSANDS.fullmatch(value.strip())
        if answer.form == "count" and is_open and not self._has_decimals:
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

    def _check_size(self, row: Record, question: Question, where: str) -> None:
        """Raise DataError if the file states another size for an image than the image has."""
        answer = self.description.answer
        in_pixels = answer.form in WRITTEN_IN_PIXELS and answer.coordinates == "pixels"
        are_of_box = {"width", "height"} & {*names_in(_pattern(answer.field))}
        names: tuple[str, ...] = ("width", "height")
        stated = row.get(SIZE)
        is_beside = in_pixels and answer.written != "image" and not are_of_box
        if not isinstance(stated, list) and not (is_beside and SIZES_OF_IMAGES & row.keys()):
            return
        media = self._opened(question)
        if stated is None:
            names, stated = stated_size(row, media.size) or (names, None)
        if not isinstance(stated, list):
            return
        is_other = media.fault is None and tuple(stated) != media.size
        if is_other and not (names == ("width", "height") and self._are_sides(row, stated)):
            width, height = media.size
            raise DataError(
                f"{where}: {' and '.join(map(repr, names))}",
                expected=f"the size of its image, {width} × {height}",
                found=" × ".join(map(str, stated)),
                fix="Was the image resized or turned? Its boxes and masks are in pixels of the "
                "original. If the stated size is wrong, remove it.",
            )

    def _are_sides(self, row: Record, size: Sequence[int]) -> bool:
        """Return True if [width, height] are the extent of the record's only box, in pixels."""
        answer = self.description.answer
        box = plain_value(row.get(answer.field))
        if isinstance(box, list) and len(box) == 1:
            box = box[0]
        if answer.written not in WRITTEN["boxes"] or not isinstance(box, list) or len(box) != 4:
            return False
        if not all(type(side) in (int, float) for side in box):
            return False
        first, extent = box[:2], box[2:]
        if answer.written == "xyxy":
            extent = [end - start for start, end in zip(first, extent, strict=True)]
        return all(abs(side - of_box) < 1 for side, of_box in zip(size, extent, strict=True))

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
                _cell(row, field, place),
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
        for name in [pattern] if pattern in row else names_in(_pattern(pattern)):
            if isinstance(row[name], (list, dict)):
                raise self._text_error(row[name], name, where)
        if "{" not in pattern or pattern in row:
            return str(row[pattern]) if not is_empty(row[pattern]) else ""
        values = {name: "" if is_absent(row[name]) else row[name] for name in names_in(pattern)}
        return filled(pattern, values).strip()

    def _text_error(self, value: object, name: str, where: str) -> DataError:
        """Return the error for a list or an object in the place of a question's text."""
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

    def _options(self, row: Record, where: str) -> object:
        """Return the options as a list of texts, or a value that the reader refuses, as it is."""
        options = self.description.question.options
        if isinstance(options, str):
            value = plain_value(row[options]) if options else None
            if isinstance(value, dict):  # by letter: {"A": "left", "B": "right"}
                written = self.description.answer.written
                if written in ("letter", "place", "place_from_1") and leave_one_out(value):
                    raise DataError(
                        f"{where}: {options!r}",
                        expected="options from A, 0 or 1 on, of which none is left out",
                        found=", ".join(map(str, value))[:60],
                    )
                value = by_marks(value)
            if isinstance(value, list):
                return [repr(text) if type(text) in (int, float) else text for text in value]
            return value
        values = [row.get(name) for name in options]
        _refuse_more(row, options, where)
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
        """Return an answer in the convention of `CHOICE_FORMS` that its own one stands for."""
        answer = self.description.answer
        if isinstance(value, str):
            value = value.strip()
        if answer.written == "place_from_1":
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            return number - 1 if type(number) is int else value
        names = self.description.question.options
        if answer.written == "field" and value in names and not isinstance(names, str):
            return names.index(str(value))
        if answer.written == "letter" and isinstance(value, str):
            return letter_of(value) or value
        is_number = type(value) in (int, float)
        return repr(value) if answer.written == "option" and is_number else value

    def _refuse_other_convention(self, value: object, options: object, where: str) -> None:
        """Raise DataError if an answer names an option in another convention than the stated."""
        answer, names = self.description.answer, self.description.question.options
        if not isinstance(options, list) or is_empty(value):
            return
        columns = () if isinstance(names, str) else names
        fitting = conventions_of(str(value).strip(), [str(text) for text in options], columns)
        if fitting and answer.written not in (*fitting, "marked"):
            ways = " or ".join(f'written = "{name}"' for name in fitting)
            raise DataError(
                where,
                expected=f"an option, written as {answer.written!r}",
                found=repr(value)[:60],
                fix=f"If all answers are so, {ways} in the description reads them.",
            )

    def _images(self, row: Record, where: str) -> tuple[bytes | Path, ...]:
        """Return the images of a record, of which there must be one at least."""
        images: list[bytes | Path] = []
        refuse_more_images(row, self.description.media.image_fields, where)
        for name in self.description.media.image_fields:
            place = f"{where}: {name!r}"
            value = _cell(row, name, place)
            if not is_no_image(value):
                images += image_cells(self._referred(value), place, self.folder)
        return tuple(images)

    @property
    def _names_of_images(self) -> Sequence[Sequence[str]]:
        """The fields of each image: one, or those of a pattern."""
        images = self.description.media.image_fields
        braced = self._names_with_braces
        return [[image] if image in braced else names_in(_pattern(image)) for image in images]

    @cached_property
    def _without_images(self) -> str:
        """The way to leave out records without an image."""
        description = self.description
        where = description.question.where
        return with_images(self.table, description.layout, self._names_of_images, where)[1]

    def _referred(self, cell: object) -> object:
        """Return a cell, or, as in VLMEvalKit, the image of the other record whose id it is."""
        if not isinstance(cell, str) or not cell.strip().isdecimal():
            return cell
        if (self.folder / cell).exists():
            return cell
        return self._shared_images.get(cell.strip(), cell)

    @cached_property
    def _shared_images(self) -> Mapping[str, object]:
        """Images, by the record's id, that other records name; only these are held in memory."""
        name, key = self.description.media.image_fields[0], self._id_field
        rows = [(str(row[key]), row[name]) for _, parse in self.rows() if key in (row := parse())]
        named = {str(cell).strip() for _, cell in rows if len(str(cell)) < BASE64_LENGTH}
        return {id: cell for id, cell in rows if id in named and len(str(cell)) >= BASE64_LENGTH}

    @property
    def _id_field(self) -> str:
        """Field of the id that other records name; `index` where the description has none."""
        id = self.description.question.id
        return id if id and "{" not in id else "index"


def _refuse_more(row: Record, options: Sequence[str], where: str) -> None:
    """Raise DataError if a list has more options than the fields that name its members."""
    places = [match for name in options if (match := MEMBER.fullmatch(name))]
    names = {match["list"] for match in places}
    if len(places) < len(options) or len(names) != 1 or len({m["place"] for m in places}) == 1:
        return
    (list_name,) = names
    listed = plain_value(next(iter(at_path(row, list_name)), None))
    if isinstance(listed, list) and len(listed) > len(options):
        raise DataError(
            f"{where}: {list_name!r}",
            expected=f"{len(options)} options at most, as the description names",
            found=str(len(listed)),
            fix="Name the fields of the others in the description, too.",
        )


def _refuse_equal(options: Sequence[str], where: str) -> None:
    """Raise DataError if two options of a question are equal but for blanks."""
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


def _cell(row: Record, name: str, where: str) -> object:
    """Return a record's field, or of a pattern its text; None if a field of it is empty."""
    if "{" not in name or name in row:
        return without_marks(row[name])
    if any(is_empty(row[part]) for part in names_in(name)):
        return None
    return fill_pattern(name, row, where)


def names_in(pattern: str) -> list[str]:
    """Return the fields that a pattern names."""
    return [name for _, name, _, _ in Formatter().parse(pattern) if name]
