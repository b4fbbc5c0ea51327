"""Read a large JSON file one entry at a time, as tasks do with annotations of a whole benchmark.

`JsonFile` walks over one list or object of the file and yields an `Entry` for each value. The entry
holds the value's text; `Entry.parse` decodes it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.foreign import new_name, refuse_foreign
from harness.layout.files import parse, readable
from harness.layout.json_scanner import ByteSpan, DuplicateKey, Scanner, SecondValue, decoded

TRUNCATED_FIX = "It may be truncated: copy or download it again."
KIND_OF = {"{": "an object", "[": "a list", '"': "a text", "": "the end of the file"}
"""Kind of a JSON value by its first character, in words for messages."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a JSON list or object, not yet decoded."""

    path: Path
    key: str | int
    """The value's key in an object, or its number in a list, from 0."""
    text: str
    span: ByteSpan

    def parse(self) -> Any:
        """Return the value as plain data.

        Raises:
            DataError: a key occurs twice in one of its objects, or a text is not Unicode. The
                entries after this one can still be read.
        """
        where = f"file {self.path}, entry {self.key!r} at byte {self.span.start}"
        with raised_as(DataError, where, "JSON", ValueError):
            return parse(decoded(self.text))


@dataclass(frozen=True, slots=True)
class JsonFile:
    """Values of one list or object of a JSON file, in the file's order; memory holds one at a time.

    Each walk opens the file again and reads it to its end, so that a truncated file is detected.
    The constructor does not open the file.
    """

    path: Path
    at: tuple[str, ...] = ()
    """The keys that lead to the list or object; empty if it is the whole file."""

    def entries(self) -> Iterator[Entry]:
        """Yield the values of the object, with their keys.

        Memory holds all keys, to refuse one that occurs twice.

        Raises:
            DataError: there is no object, it is not JSON, or a key occurs twice.
        """
        return self._values("{")

    def items(self) -> Iterator[Entry]:
        """Yield the values of the list, with their numbers from 0; raise DataError for no list."""
        return self._values("[")

    def members(self) -> Iterator[tuple[str, ByteSpan]]:
        """Yield the keys of the object, and the range of bytes of each key with its value.

        A key that occurs twice is yielded twice. Raises DataError as `entries` does.
        """
        with self._scanning() as scanner:
            for key, start in self._walk(scanner, self.at, "{", False):
                yield str(key), ByteSpan(start, scanner.take_value()[1].end)
            scanner.finish()

    def read_text(self, span: ByteSpan) -> str:
        """Return the text in a range of bytes, still to be decoded by `json_scanner.decoded`."""
        with readable(self.path), open_regular(self.path) as file:
            file.seek(span.start)
            return file.read(span.end - span.start).decode("latin-1")

    def _values(self, bracket: str) -> Iterator[Entry]:
        with self._scanning() as scanner:
            for key, _ in self._walk(scanner, self.at, bracket, bracket == "{"):
                text, span = scanner.take_value()
                yield Entry(self.path, key, text, span)
            scanner.finish()

    def _walk(
        self, scanner: Scanner, keys: tuple[str, ...], wanted: str, once: bool
    ) -> Iterator[tuple[str | int, int]]:
        """Yield each value's key and the key's first byte (0 in a list), with `scanner` before it.

        The caller takes the value from `scanner` before it asks for the next.

        Args:
            scanner: Stands at the beginning of an object or list of the file.
            keys: The keys that lead from there to the list or object whose values are yielded.
            wanted: The bracket with which that begins.
            once: Whether to refuse a key that occurs twice.
        """
        bracket = "{" if keys else wanted
        if (mark := scanner.peek()) != bracket:
            refuse_foreign(
                self.path, DataError, f"file {self.path}", f"JSON, {KIND_OF[bracket]}", text=True
            )
            raise self._type_error(keys, bracket, KIND_OF.get(mark, "a number or a word"))
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

    def _type_error(
        self, keys: tuple[str, ...], bracket: str, actual: str
    ) -> DataError | ValueError:
        """Return the error for `actual` in place of `bracket`, where `keys` are still to follow."""
        if actual == KIND_OF[""]:
            return ValueError("Expecting value at its end")
        depth, name = len(self.at) - len(keys), self.path.name
        may_be_lines = bracket == "[" and actual == KIND_OF["{"] and not depth
        fix = f"`jq -s . {quote(name)} > {new_name(name, '.json')}` makes a list of JSON lines."
        return DataError(
            f"{self.path}: {self.at[depth - 1]!r}" if depth else f"file {self.path}",
            expected=f"complete JSON, {KIND_OF[bracket]}",
            found=actual,
            fix=fix if may_be_lines else "",
        )

    @contextmanager
    def _scanning(self) -> Iterator[Scanner]:
        """Open the file; turn a fault in its JSON into a DataError with the file and the byte."""
        with readable(self.path), open_regular(self.path) as file:
            try:
                yield Scanner(file)
            except DuplicateKey as error:
                raise DataError(
                    f"file {self.path}", expected="complete JSON, each key once", found=str(error)
                ) from error
            except SecondValue as error:
                raise DataError(
                    f"file {self.path}",
                    expected="one value of JSON",
                    found=f"{error}, as in JSON lines",
                ) from error
            except ValueError as error:
                refuse_foreign(self.path, DataError, f"file {self.path}", "complete JSON")
                fault = f"{error} of {self.path.stat().st_size}"
                raise DataError(
                    f"file {self.path}", expected="complete JSON", found=fault, fix=TRUNCATED_FIX
                ) from error
