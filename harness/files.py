"""Files on disk: safe opening (`open_regular`), names of temporary files, and hashes of content.

Every reader of a benchmark opens files here, so that a FIFO or device in their place cannot hang a
run. `digest` hashes a file's content once: the hash is kept in the user's cache (`$HARNESS_CACHE`,
else `$XDG_CACHE_HOME/harness`, else `~/.cache/harness`), one small JSON file a folder, by name,
size and times of change. The cache may be deleted at any time, several processes may write it (the
last one wins), and where it cannot be written files are hashed each time.

Names of temporary files and folders hold the process that made them; the next process that writes
in the same folder removes what a killed one left.
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
MAX_READ_BYTES = 2**32
"""Largest size of a file that is read at once."""
MIN_HOLLOW_BYTES = 2**26
"""Smallest size of a file that is searched for holes."""
FRESH = 2 * 10**9
"""Nanoseconds after a change in which a file may change again with the same size and times."""
NAMES_BY_MODE = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


TEMPORARY = re.compile(r"(?:\.|harness-).*[.-]([0-9a-f]{8})-([1-9]\d{0,8})-\w+(?:\.\w+)?\Z")
"""Name of a temporary file, such as `.results.json.0a1b2c3d-4711-0.tmp`: hash of the machine's
name, id of the process, number of the file."""
_NUMBERS = itertools.count()
_TIDIED: set[Path] = set()
"""Folders in which this process has removed leftovers."""


class NoFile(OSError):
    """A path names something other than a regular file; `strerror` says what."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading. A FIFO or a device, which might never end, is not opened.

    Raises:
        NoFile: it is a FIFO, a socket, a device or a folder, or a large sparse file, most of which
            was never written.
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
    """Return the content of a file; raise as `open_regular`, and NoFile above `MAX_READ_BYTES`."""
    with open_regular(path) as file:
        _refuse_long(path, file)
        return file.read()


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file, with newlines as ends of lines.

    Raises:
        OSError: as `open_regular` does.
        UnicodeDecodeError: it is in another encoding.
    """
    with io.TextIOWrapper(open_regular(path), encoding=encoding) as file:
        _refuse_long(path, file)
        return file.read()


def lines_of(path: Path, limit: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, place of the first byte, bytes) of each line of a file.

    A line longer than `limit` bytes is cut to `limit + 1`, which tells the caller that it is too
    long; the rest follows as further lines. Raises as `open_regular` does.
    """
    offset = 0
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(limit + 1), b""), start=1):
            yield number, offset, line
            offset += len(line)


def temporary_beside(path: Path, end: str = ".tmp") -> Path:
    """Return an unused name beside a path; remove what killed processes left under such names."""
    _remove_leftovers(path.parent)
    return path.with_name(f".{path.name[:100]}.{_process_name()}-{next(_NUMBERS)}{end}")


def temporary_prefix(what: str) -> str:
    """Return a prefix for `tempfile`, after removing leftovers from the system's temporary folder.

    Args:
        what: A word that tells a person what the files are.
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    return f"harness-{what}-{_process_name()}-"


def _process_name() -> str:
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
    """Return True if another process of this id runs.

    False for this process: it has not made a file here yet, so that one with its id is a leftover.
    """
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def content_hash(path: Path) -> bytes:
    """Return BLAKE2b (16 bytes) of a file's content; raise as `open_regular` does."""
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

        The hash is computed again if size or times say that the file has changed since.
        """
        marks, content = self._known.get(str(path), (None, b""))
        return content if marks == status_marks(path.stat()) else content_hash(path)


_RECORDING: ContextVar[ReadHashes | None] = ContextVar("_RECORDING", default=None)


class _HashedFile(io.FileIO):
    """An open file that stores its hash in `hashes` once it was read in order from end to end."""

    def __init__(self, handle: int, path: Path, status: os.stat_result, hashes: ReadHashes) -> None:
        super().__init__(handle, "rb")
        self._path, self._status, self._hashes = path, status, hashes
        self._bytes_left = status.st_size
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
        self._bytes_left = -1  # the bytes are not read in order: no hash is stored
        return super().seek(offset, whence)

    def _update(self, data: memoryview) -> None:
        if 0 < len(data) <= self._bytes_left:
            self._bytes_left -= len(data)
            self._content.update(data)
            if self._bytes_left == 0 and status_marks(os.fstat(self.fileno())) == status_marks(
                self._status
            ):
                self._hashes.store(self._path, self._status, self._content.digest())


def refuse_kind(path: Path, status: os.stat_result) -> None:
    """Raise NoFile if this is the status of anything but a file."""
    if not stat.S_ISREG(status.st_mode):
        file_type = NAMES_BY_MODE.get(stat.S_IFMT(status.st_mode), "no file")
        raise NoFile(0, f"{file_type} in the place of a file", str(path))


def _refuse_hollow(path: Path, handle: int, status: os.stat_result) -> None:
    """Raise NoFile for a large sparse file (`truncate -s`, a broken download).

    A compressed file also takes less space than its size, but has no holes.
    """
    size, allocated = status.st_size, 512 * getattr(status, "st_blocks", status.st_size)
    if size < MIN_HOLLOW_BYTES or allocated * 8 > size or not hasattr(os, "SEEK_HOLE"):
        return
    hole = os.lseek(handle, 0, os.SEEK_HOLE)
    os.lseek(handle, 0, os.SEEK_SET)
    if hole < size:
        allocation = f"{size} bytes of which {allocated} are on the disk, the rest is a hole"
        raise NoFile(0, allocation, str(path))


def _refuse_long(path: Path, file: io.BufferedReader | io.TextIOWrapper) -> None:
    if (size := os.fstat(file.fileno()).st_size) > MAX_READ_BYTES:
        raise NoFile(
            0, f"{size} bytes, more than the {MAX_READ_BYTES} that are read at once", str(path)
        )


def refuse_other(path: Path, error: type[HarnessError], what: str) -> None:
    """Raise `error` about `what` if a path leads to a FIFO, device or folder instead of a file.

    Nothing is raised where there is nothing: the reader that opens the path reports that.
    """
    try:
        refuse_kind(path, path.stat())
    except NoFile as fault:
        raise error(what, expected="a file", found=fault.strerror or "something else") from fault
    except (OSError, ValueError):
        return


def digest(path: Path) -> bytes:
    """Return BLAKE2b (32 bytes) of a file's content, computed once until the file changes.

    Raises:
        OSError: it is not there, cannot be read, or is not a file.
    """
    status = path.stat()
    cached = CONTENTS.get(path, status)
    if cached is not None:
        return cached
    with open_regular(path) as file:
        content = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=32)).digest()
        after = os.fstat(file.fileno())
    if status_marks(after) == status_marks(status) and time.time_ns() - status.st_mtime_ns > FRESH:
        CONTENTS.store_hash(path, status, content)
    return content


def cache_folder() -> Path:
    """Return the folder for data that harness can compute again."""
    if chosen := os.environ.get("HARNESS_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base) / "harness" if base else Path("~/.cache/harness").expanduser()


def status_marks(status: os.stat_result) -> list[int]:
    """Return the values of a file's status that change with its content: size and times."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def folder_marks(folder: Path) -> str | None:
    """Return a hash of the names, sizes and times of a folder's files; hidden files do not count.

    None if a file was changed less than `FRESH` ago: it may change again with equal size and times.
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


def _split_path(path: Path) -> tuple[str, str]:
    """Return a file's folder, with links in it not followed, and its name there."""
    return os.path.split(os.path.normpath(Path.cwd() / path))


class Contents:
    """Hashes of files, by folder; safe to use from several threads and processes."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, object]] = {}
        self._changed: set[str] = set()
        self._lock = threading.Lock()

    def get(self, path: Path, status: os.stat_result) -> bytes | None:
        """Return the stored hash of a file; None if there is none or the file has changed since."""
        folder, name = _split_path(path)
        with self._lock:
            if folder not in self._folders:
                self._folders[folder] = self._read_hashes(folder)
            entry = self._folders[folder].get(name)
        if not isinstance(entry, list) or entry[:-1] != status_marks(status):
            return None
        with suppress(ValueError, TypeError):
            stored = bytes.fromhex(entry[-1])
            return stored if len(stored) == 32 else None
        return None

    def store_hash(self, path: Path, status: os.stat_result, content: bytes) -> None:
        """Keep a hash; on disk after `save`."""
        folder, name = _split_path(path)
        with self._lock:
            self._folders.setdefault(folder, {})[name] = [*status_marks(status), content.hex()]
            self._changed.add(folder)

    def save(self) -> None:
        """Write the new hashes. Where they cannot be written, files are hashed again next time."""
        with self._lock:
            changed, self._changed = self._changed, set()
            for folder in changed:
                with suppress(OSError):
                    path = self._hashes_path(folder)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    merged = self._read_hashes(folder) | self._folders[folder]
                    temporary = temporary_beside(path)
                    try:
                        temporary.write_text(json.dumps({"folder": folder, "files": merged}))
                        temporary.replace(path)
                    except OSError:
                        temporary.unlink(missing_ok=True)
                        raise

    def _hashes_path(self, folder: str) -> Path:
        name = hashlib.blake2b(folder.encode("utf-8", "surrogateescape"), digest_size=16)
        return cache_folder() / "contents" / f"{name.hexdigest()}.json"

    def _read_hashes(self, folder: str) -> dict[str, object]:
        with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            with open_regular(self._hashes_path(folder)) as file:
                plain = json.loads(file.read())
            if plain["folder"] == folder and isinstance(plain["files"], dict):
                return dict(plain["files"])
        return {}


CONTENTS = Contents()
