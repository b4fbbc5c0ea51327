"""Read the pickles of RefCOCO and other benchmarks without executing code.

A pickle is a program for a small stack machine. This module runs the machine of Python's `pickle`
(its pure Python version), but only with the instructions that build plain data. Instructions that
import, call, build objects or refer to outside data are refused by name.

Limits: integers have at most 64 bits. Containers are nested at most `MAX_DEPTH` deep, which also
excludes a list that contains itself. A shared value counts each time it is used, so that a short
file cannot expand to a huge tree. The memo is a dictionary, so a large index costs no memory.
"""

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, cast

from harness.errors import DataError
from harness.files import read_bytes
from harness.foreign import refuse_foreign
from harness.layout import readable

MAX_BYTES = 2**28  # size of a file
MAX_SHARING = 4  # values per byte of the file
MAX_DEPTH = 16  # levels of nested containers
MAX_MARKS = 4 * MAX_DEPTH  # open marks
AS_IN_PYTHON = """
NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 STRING BINSTRING SHORT_BINSTRING
BINBYTES SHORT_BINBYTES BINBYTES8 EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT
EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 PUT BINPUT LONG_BINPUT MEMOIZE
GET BINGET LONG_BINGET POP POP_MARK DUP PROTO
"""
"""Names of instructions that run as in Python's unpickler, without a check."""
CHECKED = "BINFLOAT UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8"
"""Names of instructions whose value is checked after they have run; see `_checked`."""
WHOLE, REAL = rb"-?(0|[1-9]\d{0,19})", rb"[-+.e\d]{1,64}"
"""Patterns of integers (`-12`, not `012`) and floats (`1e-05`, not `1_0`) in text lines, as Python
writes them. Python's two unpicklers, in C and in Python, disagree on other spellings."""
TRUTHS = {b"00": False, b"01": True}  # lines of the instruction INT in protocol 0


def read_plain_pickle(path: Path) -> object:
    """Return the plain data in a pickle: lists, tuples, dictionaries, texts, bytes, numbers, None.

    Texts of Python 2 are read as Latin-1.

    Raises:
        DataError: the file is missing, too large or truncated, does not end after one value, or
            does not hold plain data within the limits. The message names the byte.
    """
    with readable(path):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"file {path}", expected=f"at most {MAX_BYTES} bytes", found=str(size))
        raw = read_bytes(path)
    try:
        return loads(raw)
    except DataError as error:
        refuse_foreign(path, DataError, f"file {path}", "a pickle of plain data")
        raise DataError(f"file {path}: {error}") from error


def loads(raw: bytes) -> object:
    r"""Return the plain data in the bytes of a pickle; see `read_plain_pickle`.

    >>> loads(b"(lp0\nS'left'\np1\naI3\na.")
    ['left', 3]
    >>> loads(b"cos\nsystem\n(S'true'\ntR.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    harness.errors.DataError: pickle, byte 0: expected plain data, found the instruction GLOBAL. ...
    """
    machine = _Machine(raw)
    try:
        value = machine.load()
    except (EOFError, IndexError) as error:
        raise machine.refusal("a complete pickle", "one that was cut") from error
    except AttributeError as error:  # the value below has no `append` or `update`
        actual = f"something put into a {type(error.obj).__name__}"
        raise machine.refusal("plain data", actual) from error
    except (ValueError, pickle.UnpicklingError, DeprecationWarning) as error:
        raise machine.refusal("plain data", str(error)[:80]) from error
    _check_tree(value, MAX_SHARING * len(raw) + 64)
    return value


class _Machine(pickle._Unpickler):
    """Python's stack machine, limited to the instructions in `STEPS`.

    A mark starts a new stack; the stacks below it are in `metastack`. The attributes have the names
    that the methods of `pickle._Unpickler` use.
    """

    pop_mark: Callable[[], list[Any]]

    def __init__(self, raw: bytes) -> None:
        self.file = io.BytesIO(raw)
        super().__init__(self.file, encoding="latin-1")
        self.start = 0  # offset in bytes of the current instruction, for errors
        self.stack: list[Any] = []
        self.metastack: list[list[Any]] = []
        self.append = self.stack.append

    def load(self) -> object:
        """Run the program and return its only value."""
        file, steps = self.file, STEPS
        while True:
            self.start = file.tell()
            code = file.read(1)
            if code == b".":  # STOP
                break
            step = steps.get(code)
            if step is None:
                raise self._unknown(code)
            step(self)
        if file.read(1) or len(self.stack) != 1 or self.metastack:
            raise self.refusal("one value and the end of the file", "something else")
        return self.stack[0]

    def _unknown(self, code: bytes) -> Exception:
        """Return the error for an instruction outside `STEPS`; an empty code is the file's end."""
        if code in REFUSED:
            fix = "It would run code: do not trust where it comes from."
            return self.refusal("plain data", f"the instruction {REFUSED[code]}", fix)
        return self.refusal("an instruction of a pickle", repr(code)) if code else EOFError()

    def refusal(self, expected: str, actual: str, fix: str = "") -> DataError:
        """Return the error for the current instruction."""
        return DataError(f"pickle, byte {self.start}", expected=expected, found=actual, fix=fix)

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse to import; no instruction of `STEPS` calls this."""
        raise self.refusal("plain data", f"{module}.{name}")

    def read(self, number: int) -> bytes:
        """Return the next `number` bytes."""
        data = self.file.read(number)
        if len(data) < number:
            raise EOFError
        return data

    def readline(self) -> bytes:
        """Return the next line; a carriage return before its end is removed."""
        line = self.file.readline()
        if line[-1:] != b"\n":
            raise EOFError
        return line[:-2] + b"\n" if line[-2:] == b"\r\n" else line


Step: TypeAlias = Callable[[_Machine], object]
"""Function that applies an instruction to the machine; its return value is ignored."""


def _as_in_python(name: str) -> Step:
    """Return the instruction of Python's own unpickler."""
    return cast(Step, pickle._Unpickler.dispatch[CODES[name][0]])


def _checked(name: str) -> Step:
    """Return Python's instruction, followed by a check of the value that it builds."""
    step = _as_in_python(name)

    def run_and_check(machine: _Machine) -> None:
        step(machine)
        value = machine.stack[-1]
        if isinstance(value, str):
            value.encode()  # refuses half of a surrogate pair
        else:
            _finite(value)

    return run_and_check


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value}, which is not a number")
    return value


def _mark(machine: _Machine) -> None:
    if len(machine.metastack) >= MAX_MARKS:
        raise ValueError(f"more than {MAX_MARKS} marks")
    _as_in_python("MARK")(machine)


def _set_item(machine: _Machine) -> None:
    value = machine.stack.pop()
    _set_items(machine, [machine.stack.pop(), value])


def _set_items(machine: _Machine, items: list[Any]) -> None:
    """Put items, which alternate keys and values, into the dictionary on top of the stack.

    Keys must be text or integers. This is checked before they are hashed, because the hash of a
    tuple of shared tuples can take exponential time.
    """
    for key in items[::2]:
        if type(key) not in (str, int):
            type_name = type(key).__name__
            raise ValueError(f"a key that is neither text nor a whole number, {type_name}")
    if len(items) % 2:
        raise ValueError("a key without a value")
    machine.stack[-1].update(zip(items[::2], items[1::2], strict=False))


def _dict(machine: _Machine) -> None:
    items = machine.pop_mark()
    machine.append({})
    _set_items(machine, items)


def _line_step(form: bytes, read: Callable[[bytes], object]) -> Step:
    """Return an instruction that reads a number from a text line that matches the pattern."""
    pattern = re.compile(form)

    def step(machine: _Machine) -> None:
        line = machine.readline()[:-1]
        if not pattern.fullmatch(line):
            raise ValueError(f"{line[:20]!r} as a number of {len(line)} digits")
        machine.append(read(line))

    return step


def _long(machine: _Machine, size: int) -> None:
    """Put an integer of `size` little-endian bytes on the stack."""
    raw = machine.read(size)
    if size > 8:
        raise ValueError(f"a whole number of {size} bytes")
    machine.append(int.from_bytes(raw, "little", signed=True))


CODES = {opcode.name: opcode.code.encode("latin-1") for opcode in pickletools.opcodes}
STEPS: dict[bytes, Step] = {
    CODES[name]: step
    for name, step in {
        **{name: _as_in_python(name) for name in AS_IN_PYTHON.split()},
        **{name: _checked(name) for name in CHECKED.split()},
        "MARK": _mark,
        "SETITEM": _set_item,
        "SETITEMS": lambda machine: _set_items(machine, machine.pop_mark()),
        "DICT": _dict,
        "INT": _line_step(rb"0[01]|" + WHOLE, lambda line: TRUTHS.get(line, int(line))),
        "LONG": _line_step(WHOLE + b"L?", lambda line: int(line.removesuffix(b"L"))),
        "FLOAT": _line_step(REAL, lambda line: _finite(float(line))),
        "LONG1": lambda machine: _long(machine, *machine.read(1)),  # the byte as an int
        "LONG4": lambda machine: _long(machine, int.from_bytes(machine.read(4), "little")),
        "FRAME": lambda machine: machine.read(8),  # how much to read ahead
    }.items()
}
REFUSED = {code: name for name, code in CODES.items() if code not in STEPS and name != "STOP"}
"""Instructions that no benchmark's file needs; most of them can run code."""


def _check_tree(value: object, limit: int) -> None:
    """Raise DataError if a value is nested too deeply, contains itself, or has too many values.

    Walks level by level. A shared container counts at each reference, so the walk stops early.
    """
    levels = 0
    count = 1
    level = [value] if isinstance(value, (list, tuple, dict)) else []
    while level:
        levels += 1
        inner = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            count += len(container)
            inner += [item for item in items if isinstance(item, (list, tuple, dict))]
            if count > limit:
                break
        if levels > MAX_DEPTH or count > limit:
            raise DataError(
                "pickle",
                expected=f"at most {MAX_DEPTH} levels and {limit} values",
                found="more, by references to one value",
            )
        level = inner
