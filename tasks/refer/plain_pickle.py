"""Reader of benchmarks' pickles that never executes their code.

A pickle is a program for a small stack machine. The one of `pickle_machine` knows the instructions
that build plain data and refuses by name those that import, call, build objects or reach outside.
Nothing is imported from Python's own `pickle`.

Limits: a memo entry costs a byte of the file, not the index that it names; whole numbers have 64
bits; containers are nested at most `MAX_DEPTH` deep, which also rules out a list within itself; and
shared values count each time, so that a short file cannot expand to a huge tree.
"""

import struct
from pathlib import Path

from harness.errors import DataError
from harness.files import read_bytes
from harness.layout import readable
from harness.tasks.refer.pickle_machine import MAX_DEPTH, Machine

MAX_BYTES = 2**28  # of a file
MAX_SHARING = 4  # times as many values as the file has bytes


def read_plain_pickle(path: Path) -> object:
    """The plain data in a pickle: lists, tuples, dictionaries, texts, bytes, numbers and None.

    Texts of Python 2 are read as Latin-1.

    Raises:
        DataError: it is missing, too large or cut off, does not end with its one value, or holds
            anything else than plain data within the limits. The message names the byte.
    """
    with readable(path):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"file {path}", expected=f"at most {MAX_BYTES} bytes", found=str(size))
        raw = read_bytes(path)
    try:
        return loads(raw)
    except DataError as error:
        raise DataError(f"file {path}: {error}") from error


def loads(raw: bytes) -> object:
    r"""The plain data in the bytes of a pickle; see `read_plain_pickle`.

    >>> loads(b"(lp0\nS'left'\np1\naI3\na.")
    ['left', 3]
    >>> loads(b"cos\nsystem\n(S'true'\ntR.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    harness.errors.DataError: pickle, byte 0: expected plain data, found the instruction GLOBAL. ...
    """
    machine = Machine(raw)
    try:
        value = machine.run()
    except (IndexError, struct.error, TypeError) as error:
        cut = not isinstance(error, TypeError)
        found = "one that was cut" if cut else "a key that is a container"
        raise machine.refusal("a complete pickle", found) from error
    except ValueError as error:
        raise machine.refusal("plain data", str(error)[:80]) from error
    _check_tree(value, MAX_SHARING * len(raw) + 64)
    return value


def _check_tree(value: object, limit: int) -> None:
    """Raise DataError for a value nested too deeply, within itself, or too large for its file."""
    levels = 0
    seen = 1
    level = [value] if isinstance(value, (list, tuple, dict)) else []
    while level:
        levels += 1
        inner = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            seen += len(container)
            inner += [item for item in items if isinstance(item, (list, tuple, dict))]
            if seen > limit:
                break
        if levels > MAX_DEPTH or seen > limit:
            raise DataError(
                "pickle",
                expected=f"at most {MAX_DEPTH} levels and {limit} values",
                found="more: one value stands for many",
            )
        level = inner
