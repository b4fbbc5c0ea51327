"""Find the images of records: names of files, bytes, base64, or the number of another record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.errors import DataError
from harness.tasks.table.cells import BASE64_LENGTH, image_cells
from harness.tasks.table.description import Description
from harness.tasks.table.image_fields import (
    has_image,
    is_no_image,
    refuse_more_images,
    with_images,
)
from harness.tasks.table.layouts import Rows
from harness.tasks.table.patterns import cell_of, names_in, pattern_of
from harness.tasks.table.rows import Record


@dataclass(frozen=True)
class RecordImages:
    """The images of one table's records."""

    description: Description
    table: Path
    folder: Path
    """The folder that names of files are below."""
    names_with_braces: frozenset[str]
    """Fields whose names have braces, and which are not patterns."""
    rows: Callable[[], Rows]

    @property
    def names(self) -> Sequence[Sequence[str]]:
        """The fields of each image: one, or those of a pattern."""
        fields, braced = self.description.media.image_fields, self.names_with_braces
        return [[field] if field in braced else names_in(pattern_of(field)) for field in fields]

    def refuse_none(self, row: Record, where: str) -> None:
        """Raise DataError if a record has no image."""
        fields = self.description.media.image_fields
        if fields and not has_image(row, self.names):
            raise DataError(
                f"{where}: {', '.join(map(repr, fields))}",
                expected="at least one image",
                found="none",
                fix=f"{self._way_out}.",
            )

    def of(self, row: Record, where: str) -> tuple[bytes | Path, ...]:
        """Return the images of a record."""
        images: list[bytes | Path] = []
        refuse_more_images(row, self.description.media.image_fields, where)
        for name in self.description.media.image_fields:
            place = f"{where}: {name!r}"
            value = cell_of(row, name, place)
            if not is_no_image(value):
                images += image_cells(self._referred(value), place, self.folder)
        return tuple(images)

    @cached_property
    def _way_out(self) -> str:
        """The way to leave out records without an image."""
        description = self.description
        where = description.question.where
        return with_images(self.table, description.layout, self.names, where)[1]

    def _referred(self, cell: object) -> object:
        """Return a cell, or, as in VLMEvalKit, the image of the other record whose id it is."""
        if not isinstance(cell, str) or not cell.strip().isdecimal():
            return cell
        if (self.folder / cell).exists():
            return cell
        return self._shared.get(cell.strip(), cell)

    @cached_property
    def _shared(self) -> Mapping[str, object]:
        """Images, by the record's id, that other records name; only these are held in memory."""
        name, id = self.description.media.image_fields[0], self.description.question.id
        key = id if id and "{" not in id else "index"
        rows = [(str(row[key]), row[name]) for _, parse in self.rows() if key in (row := parse())]
        named = {str(cell).strip() for _, cell in rows if len(str(cell)) < BASE64_LENGTH}
        return {id: cell for id, cell in rows if id in named and len(str(cell)) >= BASE64_LENGTH}
