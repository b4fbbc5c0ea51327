"""The stack machine that executes a pickle, restricted to plain data on its stack.

Of protocols 0 to 5 it knows what builds lists, tuples, dictionaries, texts, bytes, numbers, ground
truth values and None.
"""

import math
import pickletools
import struct
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from harness.errors import DataError

MAX_DEPTH = 16  # of containers in containers
MAX_MARKS = 4 * MAX_DEPTH  # that wait at once
MAX_DIGITS = 20  # of a whole number written as text

T = TypeVar("T")


class Machine:
    """The stack machine. A mark begins a new stack; the one below waits in `marked`."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0
        self.start = 0
        self.stack: list[object] = []
        self.marked: list[list[object]] = []
        self.memo: dict[int, object] = {}

    def run(self) -> object:
        """Carry out the program; the one value that it leaves."""
        raw, steps = self.raw, STEPS
        while True:
            self.start = self.at
            code = raw[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                break
            step = steps[code]
            if step is None:
                raise self._unknown(bytes([code]))
            step(self)
        if self.at != len(raw) or len(self.stack) != 1 or self.marked:
            raise self.refusal("one value and the end of the file", "something else")
        return self.stack[0]

    def _unknown(self, code: bytes) -> DataError:
        if code not in REFUSED:
            return self.refusal("an instruction of a pickle", repr(code))
        fix = "It would run code: do not trust where it comes from."
        return DataError(
            f"pickle, byte {self.start}",
            expected="plain data",
            found=f"the instruction {REFUSED[code]}",
            fix=fix,
        )

    def refusal(self, expected: str, found: str) -> DataError:
        """The error for the instruction that is being carried out."""
        return DataError(f"pickle, byte {self.start}", expected=expected, found=found)

    def take(self, number: int) -> bytes:
        """The next bytes."""
        end = self.at + number
        if end > len(self.raw):
            raise IndexError
        part = self.raw[self.at : end]
        self.at = end
        return part

    def line(self) -> bytes:
        """The bytes up to the end of the line; a carriage return before it is dropped."""
        end = self.raw.find(b"\n", self.at)
        if end < 0:
            raise IndexError
        part = self.raw[self.at : end]
        self.at = end + 1
        return part.removesuffix(b"\r")

    def number(self, form: str) -> int:
        """A whole number without sign, such as a length."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def pop_mark(self) -> list[object]:
        """Pop the items that were pushed since the last mark."""
        items = self.stack
        self.stack = self.marked.pop()
        return items


Step: TypeAlias = Callable[[Machine], object]
"""Function that applies an instruction to the machine; its return value is ignored."""


def _mark(machine: Machine) -> None:
    if len(machine.marked) >= MAX_MARKS:
        raise ValueError(f"more than {MAX_MARKS} marks")
    machine.marked.append(machine.stack)
    machine.stack = []


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    _top(machine, list).append(value)


def _append_items(machine: Machine) -> None:
    items = machine.pop_mark()
    _top(machine, list).extend(items)


def _set_item(machine: Machine) -> None:
    value = machine.stack.pop()
    key = machine.stack.pop()
    _top(machine, dict)[_key(key)] = value


def _set_items(machine: Machine) -> None:
    items = machine.pop_mark()
    _top(machine, dict).update(_pairs(items))


def _pairs(items: list[object]) -> dict[object, object]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    return {_key(key): value for key, value in zip(items[::2], items[1::2], strict=True)}


def _key(key: object) -> object:
    if type(key) not in (str, int):
        raise ValueError(f"a key that is neither text nor a whole number, {type(key).__name__}")
    return key


def _top(machine: Machine, kind: type[T]) -> T:
    value = machine.stack[-1]
    if type(value) is not kind or not isinstance(value, kind):
        raise ValueError(f"something put into a {type(value).__name__}")
    return value


def _collect_step(make: Callable[[list[object]], object]) -> Step:
    def step(machine: Machine) -> None:
        items = machine.pop_mark()
        machine.stack.append(make(items))

    return step


def _last_step(number: int) -> Step:
    def step(machine: Machine) -> None:
        if len(machine.stack) < number:
            raise IndexError
        machine.stack[-number:] = [tuple(machine.stack[-number:])]

    return step


def _constant(value: object) -> Step:
    return lambda machine: machine.stack.append(value)


def _new_step(kind: type) -> Step:
    return lambda machine: machine.stack.append(kind())


def _fixed_step(form: str) -> Step:
    length = struct.calcsize(form)

    def step(machine: Machine) -> None:
        (value,) = struct.unpack(form, machine.take(length))
        machine.stack.append(_finite(value))

    return step


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value}, which is no number")
    return value


def _counted_step(form: str, decode: Callable[[bytes], object]) -> Step:
    return lambda machine: machine.stack.append(decode(machine.take(machine.number(form))))


def _latin1(raw: bytes) -> str:
    return raw.decode("latin-1")


def _decode_long(raw: bytes) -> int:
    if len(raw) > 8:
        raise ValueError(f"a whole number of {len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


def _text_int(machine: Machine) -> None:
    line = machine.line().removesuffix(b"L")
    if line in (b"00", b"01"):  # how protocol 0 writes False and True
        machine.stack.append(line == b"01")
        return
    if len(line) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(line)} digits")
    machine.stack.append(int(line))


def _text_float(machine: Machine) -> None:
    line = machine.line()
    if len(line) > 64:
        raise ValueError(f"a number of {len(line)} digits")
    machine.stack.append(_finite(float(line)))


def _text_string(machine: Machine) -> None:
    """A text of Python 2 as its `repr` wrote it, in quotes and with escapes."""
    line = machine.line().strip()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise ValueError("a text without its quotes")
    inside = line[1:-1]
    # "unicode_escape" reads \u as well, which in a byte string are two characters.
    safe = inside.replace(b"\\u", b"\\\\u").replace(b"\\U", b"\\\\U").replace(b"\\N", b"\\\\N")
    machine.stack.append(
        (safe if b"\\" in inside else inside).decode(
            "unicode_escape" if b"\\" in inside else "latin-1"
        )
    )


def _text_unicode(machine: Machine) -> None:
    line = machine.line()
    text = line.decode("raw-unicode-escape")
    text.encode("utf-8")  # half a character is none
    machine.stack.append(text)


def _put_step(index: Callable[[Machine], int]) -> Step:
    def step(machine: Machine) -> None:
        machine.memo[index(machine)] = machine.stack[-1]

    return step


def _get(index: Callable[[Machine], int]) -> Step:
    def step(machine: Machine) -> None:
        wanted = index(machine)
        if wanted not in machine.memo:
            raise ValueError(f"memo entry {wanted}, which nothing was put into")
        machine.stack.append(machine.memo[wanted])

    return step


def _index_line(machine: Machine) -> int:
    line = machine.line()
    if not line.isdigit() or len(line) > MAX_DIGITS:
        raise ValueError("an index that is no whole number")
    return int(line)


def _index(form: str) -> Callable[[Machine], int]:
    return lambda machine: machine.number(form)


def _memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()


NAMED: dict[bytes, Step] = {
    b"(": _mark,
    b"a": _append,
    b"e": _append_items,
    b"s": _set_item,
    b"u": _set_items,
    b"l": _collect_step(list),
    b"d": _collect_step(_pairs),
    b"t": _collect_step(tuple),
    b")": _constant(()),
    b"\x85": _last_step(1),
    b"\x86": _last_step(2),
    b"\x87": _last_step(3),
    b"]": _new_step(list),
    b"}": _new_step(dict),
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"I": _text_int,
    b"L": _text_int,
    b"J": _fixed_step("<i"),
    b"K": _fixed_step("<B"),
    b"M": _fixed_step("<H"),
    b"\x8a": _counted_step("<B", _decode_long),
    b"\x8b": _counted_step("<I", _decode_long),
    b"F": _text_float,
    b"G": _fixed_step(">d"),
    b"S": _text_string,
    b"V": _text_unicode,
    b"U": _counted_step("<B", _latin1),
    b"T": _counted_step("<I", _latin1),
    b"X": _counted_step("<I", bytes.decode),
    b"\x8c": _counted_step("<B", bytes.decode),
    b"\x8d": _counted_step("<Q", bytes.decode),
    b"C": _counted_step("<B", bytes),
    b"B": _counted_step("<I", bytes),
    b"\x8e": _counted_step("<Q", bytes),
    b"p": _put_step(_index_line),
    b"q": _put_step(_index("<B")),
    b"r": _put_step(_index("<I")),
    b"g": _get(_index_line),
    b"h": _get(_index("<B")),
    b"j": _get(_index("<I")),
    b"\x94": _memoize,
    b"0": _pop,
    b"1": lambda machine: machine.pop_mark(),
    b"2": lambda machine: machine.stack.append(machine.stack[-1]),
    b"\x80": lambda machine: machine.take(1),
    b"\x95": lambda machine: machine.take(8),
}
REFUSED = {
    code: one.name
    for one in pickletools.opcodes
    if (code := one.code.encode("latin-1")) not in {*NAMED, b"."}
}
"""Instructions that no benchmark's file needs; most of them can run code."""
STEPS: tuple[Step | None, ...] = tuple(NAMED.get(bytes([code])) for code in range(256))
