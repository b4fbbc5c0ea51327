"""Walk over a JSON file value by value; memory holds one value and the text that was read ahead.

`JsonFile` takes each value's text and range of bytes from a `Scanner`, and skips the values that
it does not want. The JSON module of Python then decodes the text.
"""

import json
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from harness.layout.files import parse

CHUNK_BYTES = 2**20  # bytes that are read at once
MAX_VALUE_BYTES = 2**28  # bytes of one value
BLANKS = re.compile(r"[ \t\r\n]*")
MAX_CUT_DISTANCE = 16
"""Characters from the end of the text that was read, within which a mistake in the JSON may only
be the end: `tru` is cut from `true`."""
NUMBER_LOOKAHEAD = 3
"""Characters after a number that show whether it has ended: `1` may go on with `e+1`."""
BOM = "\xef\xbb\xbf"  # the byte-order mark of UTF-8, one character per byte


class DuplicateKey(ValueError):
    """Raised for a key that occurs twice in one object."""


class SecondValue(ValueError):
    """Raised for a second value in a file: JSON allows one, JSON lines have several."""


class ByteSpan(NamedTuple):
    """Range of bytes in a file: first byte, and the byte after the last, counted from 0."""

    start: int
    end: int


def decoded(text: str) -> str:
    """Decode a text of `Scanner`, whose characters stand for bytes, as UTF-8."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8")


class Scanner:
    """Walk over the values of one open file; raise ValueError where it is not complete JSON.

    The text holds one character per byte (latin-1), so that an index in it gives the byte in the
    file. JSON's own syntax is ASCII; `decoded` decodes a value's texts as UTF-8 afterwards.

    A walk is a loop over `members` or `elements`, whose body must take or skip the value.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._text = ""
        self._at = 0  # index in the text up to which it was walked over
        self._before = 0  # bytes of the file before the text
        self._decoder = json.JSONDecoder()
        self._read_more()
        if self._text.startswith(BOM):
            self._at = len(BOM)

    def peek(self) -> str:
        """Return the next character that is not blank; "" at the end of the file."""
        while True:
            match = BLANKS.match(self._text, self._at)
            assert match is not None, "the pattern matches an empty text too"
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def members(self, *, once: bool = True) -> Iterator[tuple[str, int]]:
        """Yield the keys of an object, and the byte at which each begins.

        Args:
            once: True to hold the keys and raise DuplicateKey for one that occurs twice.
        """
        seen: set[str] = set()
        self._expect_mark("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                raise self._fault(f"{self.peek()!r} in the place of a key")
            text, span = self.take_value()
            key = str(parse(decoded(text)))
            if key in seen:
                raise DuplicateKey(f"the key {key[:60]!r} twice, again at byte {span.start}")
            if once:
                seen.add(key)
            self._expect_mark(":")
            yield key, span.start
            if self.peek() == "}":
                self._at += 1
                return
            self._expect_mark(",")

    def elements(self) -> Iterator[int]:
        """Yield the numbers of a list's values, from 0."""
        self._expect_mark("[")
        if self.peek() == "]":
            self._at += 1
            return
        number = 0
        while True:
            self.peek()
            yield number
            number += 1
            if self.peek() == "]":
                self._at += 1
                return
            self._expect_mark(",")
            if self.peek() == "]":
                raise self._fault("']' after a comma")

    def take_value(self) -> tuple[str, ByteSpan]:
        """Return the text of the next value, for `decoded`, and its range of bytes."""
        self.peek()
        end = self._end()
        text = self._text[self._at : end]
        span = ByteSpan(self._before + self._at, self._before + end)
        self._at = end
        return text, span

    def skip(self) -> None:
        """Pass over the next value; memory holds one of its members or elements at a time."""
        mark = self.peek()
        if mark == "{":
            for _ in self.members():
                self._pass_whole()
        elif mark == "[":
            for _ in self.elements():
                self._pass_whole()
        else:
            self._pass_whole()

    def finish(self) -> None:
        """Check that the file ends after the value that was walked over.

        Raises:
            SecondValue: an object follows, as in JSON lines.
            ValueError: anything else follows.
        """
        if (next_mark := self.peek()) == "{":
            raise SecondValue(f"{next_mark!r} after the end at byte {self._before + self._at}")
        if next_mark:
            raise self._fault(f"{next_mark!r} after the end")

    def _pass_whole(self) -> None:
        self.peek()
        self._at = self._end()

    def _end(self) -> int:
        """Return the index in the text after the value that begins at `_at`; read on as needed."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # A value that was cut by the chunk is read again with twice as much of the file.
                is_near_end = error.pos + MAX_CUT_DISTANCE > len(self._text)
                may_be_cut = is_near_end or error.msg.startswith("Unterminated")
                n_unread = len(self._text) - self._at
                if may_be_cut and n_unread > MAX_VALUE_BYTES:
                    raise self._fault(f"a value of more than {MAX_VALUE_BYTES} bytes") from error
                if not may_be_cut or not self._read_more(n_unread):
                    message = f"{error.msg} at byte {self._before + error.pos}"
                    raise ValueError(message) from error
                continue
            except RecursionError as error:
                raise self._fault("too many levels") from error
            except ValueError as error:  # a number of too many digits
                raise self._fault(str(error)) from error
            is_number = not isinstance(value, (str, list, dict))  # or a word: true, false, null
            if is_number and len(self._text) - end < NUMBER_LOOKAHEAD and self._read_more():
                continue
            return end

    def _expect_mark(self, mark: str) -> None:
        if (next_mark := self.peek()) != mark:
            raise self._fault(
                f"{next_mark!r}, not {mark!r}" if next_mark else f"the end, not {mark!r}"
            )
        self._at += 1

    def _fault(self, message: str) -> ValueError:
        return ValueError(f"{message} at byte {self._before + self._at}")

    def _read_more(self, n_bytes: int = 0) -> bool:
        """Drop the text before `_at` and read on, at least a chunk; return False at the end."""
        raw = self._file.read(max(CHUNK_BYTES, n_bytes))
        if raw:
            self._before += self._at
            self._text = self._text[self._at :] + raw.decode("latin-1")
            self._at = 0
        return bool(raw)
