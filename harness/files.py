"""Files from elsewhere: opened only if they are regular files, and identified by their content.

A file's content is hashed once. The hash is kept in the user's cache (`$HARNESS_CACHE`, else
`$XDG_CACHE_HOME/harness`, else `~/.cache/harness`), one small JSON file a folder, by name, size and
times of change. The cache may be deleted at any time, several processes may write it (the last one
wins), and where it cannot be written files are hashed each time.

The names of temporary files and folders hold the process that made them, so that what a killed one
left is removed by the next one that writes in the same folder.
"""

import hashlib
import io
import itertools
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_HASHES = 2**16  # files whose hashes are held in memory, each a few hundred bytes
MAX_WHOLE = 2**32
"""Bytes of a file that is read at once."""
HOLLOW = 2**26
"""Bytes from which on a file's holes are looked for."""
FRESH = 2 * 10**9
"""Nanoseconds since a file was changed in which it may change again without a sign of it."""
KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class NoFile(OSError):
    """A path names something other than a regular file; `strerror` says what."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading. A FIFO or a device, which might never end, is not opened.

    Raises:
        NoFile: it is a FIFO, a socket, a device or a folder, or a large file of little but holes,
            which claims a size that it does not have.
        OSError: it is not there, or cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        refuse_kind(path, status)
        _refuse_hollow(path, handle, status)
        if (hashes := _RECORDING.get()) is None:
            return os.fdopen(handle, "rb")
        return io.BufferedReader(_HashedFile(handle, path, status, hashes))
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: Path) -> bytes:
    """The content of a file; raises as `open_regular` does, and NoFile above `MAX_WHOLE`."""
    with open_regular(path) as file:
        _refuse_long(path, file)
        return file.read()


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The text of a file, each end of a line a newline.

    Raises:
        OSError: as `open_regular` does.
        UnicodeDecodeError: it is in another encoding.
    """
    with io.TextIOWrapper(open_regular(path), encoding=encoding) as file:
        _refuse_long(path, file)
        return file.read()


def lines_of(path: Path, limit: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, from 1, the first byte's place and the bytes of each line.

    Of a line that is longer than `limit` comes one byte more, by which it is refused; it is never
    held whole. Raises as `open_regular` does.
    """
    offset = 0
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(limit + 1), b""), start=1):
            yield number, offset, line
            offset += len(line)


def temporary_beside(path: Path, end: str = ".tmp") -> Path:
    """Return a new name beside a path; what killed processes left under such names is removed."""
    _remove_leftovers(path.parent)
    return path.with_name(f".{path.name[:100]}.{_process()}-{next(_NUMBERS)}{end}")


def temporary_prefix(what: str) -> str:
    """Return the beginning of names in the folder for temporary files, where leftovers are removed.

    Args:
        what: A word, for who looks into that folder.
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    return f"harness-{what}-{_process()}-"


def _process() -> str:
    return f"{_host()}-{os.getpid()}"


@cache
def _host() -> str:
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def _remove_leftovers(folder: Path) -> None:
    """Remove, once, the temporary files that ended processes of this machine left in a folder."""
    if folder in _TIDIED:
        return
    _TIDIED.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = TEMPORARY.match(entry.name)
            if not match or match[1] != _host() or _lives(int(match[2])):
                continue
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    Path(entry.path).unlink()


def _lives(process: int) -> bool:
    """Return True for a process that runs, but this one, which has made no such file here yet."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


TEMPORARY = re.compile(r"(?:\.|harness-).*[.-]([0-9a-f]{8})-([1-9]\d{0,8})-\w+(?:\.\w+)?\Z")
_NUMBERS = itertools.count()
_TIDIED: set[Path] = set()
"""Folders that this process has looked into."""


def content_hash(path: Path) -> bytes:
    """BLAKE2b (16 bytes) of a file's content; raises as `open_regular` does."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16)).digest()


class ReadHashes:
    """Hashes of files that are read anyway, so that none is read again for its hash alone."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[int], bytes]] = {}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Hash the files that this thread opens in the block, as far as they are read in order."""
        token = _RECORDING.set(self)
        try:
            yield
        finally:
            _RECORDING.reset(token)

    def store(self, path: Path, status: os.stat_result, content: bytes) -> None:
        """Keep the hash of a file that was read to its end; up to `MAX_HASHES` of them."""
        if len(self._known) < MAX_HASHES:
            self._known[str(path)] = status_marks(status), content

    def content_hash(self, path: Path) -> bytes:
        """Return `content_hash` of what was read, or of the file if it was not read whole.

        It is computed again where the file has changed since, by its size and times.
        """
        marks, content = self._known.get(str(path), (None, b""))
        return content if marks == status_marks(path.stat()) else content_hash(path)


_RECORDING: ContextVar[ReadHashes | None] = ContextVar("_RECORDING", default=None)


class _HashedFile(io.FileIO):
    """An open file that tells its hash once it was read from its first byte to its last."""

    def __init__(self, handle: int, path: Path, status: os.stat_result, hashes: ReadHashes) -> None:
        super().__init__(handle, "rb")
        self._path, self._status, self._hashes = path, status, hashes
        self._left = status.st_size
        self._content = hashlib.blake2b(digest_size=16)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        count = super().readinto(buffer)
        self._update(memoryview(buffer)[:count])
        return count

    def readall(self) -> bytes:
        data = super().readall()
        self._update(memoryview(data))
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._left = -1  # its bytes come in another order
        return super().seek(offset, whence)

    def _update(self, data: memoryview) -> None:
        if 0 < len(data) <= self._left:
            self._left -= len(data)
            self._content.update(data)
            if self._left == 0 and status_marks(os.fstat(self.fileno())) == status_marks(
                self._status
            ):
                self._hashes.store(self._path, self._status, self._content.digest())


def refuse_kind(path: Path, status: os.stat_result) -> None:
    """Raise NoFile if this is the status of anything but a file."""
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise NoFile(0, f"{kind} in the place of a file", str(path))


def _refuse_hollow(path: Path, handle: int, status: os.stat_result) -> None:
    """Raise NoFile for a large file that is a hole in the main (`truncate -s`, a broken download).

    Compression also has a file take less than its size; it leaves no holes.
    """
    size, taken = status.st_size, 512 * getattr(status, "st_blocks", status.st_size)
    if size < HOLLOW or taken * 8 > size or not hasattr(os, "SEEK_HOLE"):
        return
    hole = os.lseek(handle, 0, os.SEEK_HOLE)
    os.lseek(handle, 0, os.SEEK_SET)
    if hole < size:
        said = f"{size} bytes of which {taken} are on the disk, the rest is a hole"
        raise NoFile(0, said, str(path))


def _refuse_long(path: Path, file: io.BufferedReader | io.TextIOWrapper) -> None:
    if (size := os.fstat(file.fileno()).st_size) > MAX_WHOLE:
        raise NoFile(0, f"{size} bytes, more than the {MAX_WHOLE} that are read at once", str(path))


def refuse_other(path: Path, error: type[HarnessError], what: str) -> None:
    """Raise `error` if there is something else than a file at a path, for readers that open it.

    A path at which there is nothing is left to them.
    """
    try:
        refuse_kind(path, path.stat())
    except NoFile as fault:
        raise error(what, expected="a file", found=fault.strerror or "something else") from fault
    except (OSError, ValueError):
        return


def digest(path: Path) -> bytes:
    """BLAKE2b (32 bytes) of a file's content, computed once as long as it is not written to.

    Raises:
        OSError: it is not there, cannot be read, or is not a file.
    """
    status = path.stat()
    known = CONTENTS.get(path, status)
    if known is not None:
        return known
    with open_regular(path) as file:
        content = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=32)).digest()
        after = os.fstat(file.fileno())
    if status_marks(after) == status_marks(status) and time.time_ns() - status.st_mtime_ns > FRESH:
        CONTENTS.store_hash(path, status, content)
    return content


def cache_folder() -> Path:
    """Return the folder for data that harness can compute again."""
    if own := os.environ.get("HARNESS_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base) / "harness" if base else Path("~/.cache/harness").expanduser()


def status_marks(status: os.stat_result) -> list[int]:
    """Return the values of a file's status that change with its content: size and times."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def folder_marks(folder: Path) -> str | None:
    """Return a hash of the names, sizes and times of the files in a folder, but for hidden ones.

    None while one of them is so new that it may change again without a sign of it.
    """
    with os.scandir(folder) as entries:
        statuses = sorted(
            (entry.name, status_marks(entry.stat()))
            for entry in entries
            if not entry.name.startswith(".") and entry.is_file()
        )
    newest = max((max(times) for _, (_, *times) in statuses), default=0)
    if time.time_ns() - newest <= FRESH:
        return None
    return hashlib.blake2b(repr(statuses).encode(), digest_size=16).hexdigest()


def _place(path: Path) -> tuple[str, str]:
    """A file's folder, links in it not followed, and its name there."""
    return os.path.split(os.path.normpath(Path.cwd() / path))


class Contents:
    """Hashes of files, by folder; safe to use from several threads and processes."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, object]] = {}
        self._changed: set[str] = set()
        self._lock = threading.Lock()

    def get(self, path: Path, status: os.stat_result) -> bytes | None:
        """The hash of a file that has not changed since it was put in."""
        folder, name = _place(path)
        with self._lock:
            if folder not in self._folders:
                self._folders[folder] = self._read_hashes(folder)
            known = self._folders[folder].get(name)
        if not isinstance(known, list) or known[:-1] != status_marks(status):
            return None
        with suppress(ValueError, TypeError):
            stored = bytes.fromhex(known[-1])
            return stored if len(stored) == 32 else None
        return None

    def store_hash(self, path: Path, status: os.stat_result, content: bytes) -> None:
        """Keep a hash; on disk after `save`."""
        folder, name = _place(path)
        with self._lock:
            self._folders.setdefault(folder, {})[name] = [*status_marks(status), content.hex()]
            self._changed.add(folder)

    def save(self) -> None:
        """Write the new hashes. Where they cannot be written, files are hashed again next time."""
        with self._lock:
            changed, self._changed = self._changed, set()
            for folder in changed:
                with suppress(OSError):
                    place = self._place(folder)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    kept = self._read_hashes(folder) | self._folders[folder]
                    temporary = temporary_beside(place)
                    try:
                        temporary.write_text(json.dumps({"folder": folder, "files": kept}))
                        temporary.replace(place)
                    except OSError:
                        temporary.unlink(missing_ok=True)
                        raise

    def _place(self, folder: str) -> Path:
        name = hashlib.blake2b(folder.encode("utf-8", "surrogateescape"), digest_size=16)
        return cache_folder() / "contents" / f"{name.hexdigest()}.json"

    def _read_hashes(self, folder: str) -> dict[str, object]:
        with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            with open_regular(self._place(folder)) as file:
                plain = json.loads(file.read())
            if plain["folder"] == folder and isinstance(plain["files"], dict):
                return dict(plain["files"])
        return {}


CONTENTS = Contents()
