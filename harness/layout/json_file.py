"""A large JSON file, read one entry at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.foreign import refuse_foreign
from harness.layout.files import parse, readable
from harness.layout.json_scanner import ByteSpan, DuplicateKey, Scanner, decoded

FIX = "It may have been cut while it was copied: fetch it again."
KINDS = {"{": "an object", "[": "a list", '"': "a text", "": "the end of the file"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a list or an object, not yet decoded."""

    path: Path
    key: str | int
    """The key of an object's value, or the number of a list's, from 0."""
    text: str
    place: ByteSpan

    def parse(self) -> Any:
        """The value as plain data.

        Raises:
            DataError: a key occurs twice in one object of it, or a text is no Unicode. The entries
                after it can be read all the same.
        """
        where = f"file {self.path}, entry {self.key!r} at byte {self.place.start}"
        with raised_as(DataError, where, "JSON", ValueError):
            return parse(decoded(self.text))


@dataclass(frozen=True, slots=True)
class JsonFile:
    """Values of one list or object of a JSON file, in its order; none of them stays in memory.

    Each walk opens the file again and reads it to its end, so that a file that was cut is never
    taken for a whole one. Opening looks at nothing.
    """

    path: Path
    at: tuple[str, ...] = ()
    """The keys that lead to the list or object; none: it is the whole file."""

    def entries(self) -> Iterator[Entry]:
        """Yield the values of an object, with their keys; raise DataError if there is none.

        A key that comes twice is refused; all keys are held in memory for that.
        """
        return self._values("{")

    def items(self) -> Iterator[Entry]:
        """Yield the values of a list, with their numbers from 0; raise DataError for no list."""
        return self._values("[")

    def members(self) -> Iterator[tuple[str, ByteSpan]]:
        """Yield the keys of an object, and the place of each with its value, which is not decoded.

        A key that comes twice is given twice. Raises DataError as `entries` does.
        """
        with self._scanning() as scanner:
            for key, start in self._walk(scanner, self.at, "{", False):
                yield str(key), ByteSpan(start, scanner.take_value()[1].end)
            scanner.finish()

    def read_text(self, place: ByteSpan) -> str:
        """The text at a place, for `json_scanner.decoded`."""
        with readable(self.path), open_regular(self.path) as file:
            file.seek(place.start)
            return file.read(place.end - place.start).decode("latin-1")

    def _values(self, kind: str) -> Iterator[Entry]:
        with self._scanning() as scanner:
            for key, _ in self._walk(scanner, self.at, kind, kind == "{"):
                text, place = scanner.take_value()
                yield Entry(self.path, key, text, place)
            scanner.finish()

    def _walk(
        self, scanner: Scanner, keys: tuple[str, ...], wanted: str, once: bool
    ) -> Iterator[tuple[str | int, int]]:
        """Yield the keys of the values; each value has to be read before the next key."""
        kind = "{" if keys else wanted
        if (mark := scanner.peek()) != kind:
            refuse_foreign(
                self.path, DataError, f"file {self.path}", f"JSON, {KINDS[kind]}", text=True
            )
            raise self._type_error(keys, kind, KINDS.get(mark, "a number or a word"))
        if not keys:
            yield from (
                scanner.members(once=once)
                if wanted == "{"
                else ((number, 0) for number in scanner.elements())
            )
            return
        is_found = False
        for key, _ in scanner.members():
            if key == keys[0]:
                is_found = True
                yield from self._walk(scanner, keys[1:], wanted, once)
            else:
                scanner.skip()
        if not is_found:
            raise DataError(f"{self.path}: {keys[0]!r}", expected="this field", found="none")

    def _type_error(self, keys: tuple[str, ...], kind: str, actual: str) -> DataError | ValueError:
        depth = len(self.at) - len(keys)
        where = f"{self.path}: {self.at[depth - 1]!r}" if depth else f"file {self.path}"
        if actual == KINDS[""]:
            return ValueError("Expecting value at its end")
        return DataError(where, expected=f"complete JSON, {KINDS[kind]}", found=actual)

    @contextmanager
    def _scanning(self) -> Iterator[Scanner]:
        """Open the file; turn a fault in it into a DataError that names the file and the byte."""
        with readable(self.path), open_regular(self.path) as file:
            try:
                yield Scanner(file)
            except DuplicateKey as error:
                raise DataError(
                    f"file {self.path}", expected="complete JSON, each key once", found=str(error)
                ) from error
            except ValueError as error:
                refuse_foreign(self.path, DataError, f"file {self.path}", "complete JSON")
                fault = f"{error} of {self.path.stat().st_size}"
                raise DataError(
                    f"file {self.path}", expected="complete JSON", found=fault, fix=FIX
                ) from error
