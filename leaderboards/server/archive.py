"""Unpack an uploaded zip into an empty folder, without trusting it.

Names, sizes and counts are checked before a byte is written; bytes are counted while they are
written, because the sizes in a zip may be wrong.
"""

import re
import stat
import zlib
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from harness.errors import DataError, counted, raised_as
from harness.foreign import is_leftover

ZIP_START = b"PK"  # first bytes of a zip
MAX_FILES = 200_000  # in a zip
MAX_PATH = 1000
"""Characters of a file's path."""
CHUNK = 1 << 20  # bytes that are read at a time
UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]|^[A-Za-z]:")
"""Parts of names that may lead elsewhere: control characters, backslashes, drives as in `C:`."""
DAMAGE = (BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)
"""Errors of `zipfile` for an archive that is damaged, or of a kind that it does not read."""


def is_zip(path: Path) -> bool:
    """Return True if a file begins as a zip does."""
    with path.open("rb") as file:
        return file.read(len(ZIP_START)) == ZIP_START


def unpack(path: Path, folder: Path, max_bytes: int) -> list[Path]:
    """Unpack a zip and return the paths of its files, without leftovers such as `.DS_Store`.

    Args:
        path: The zip.
        folder: An empty folder.
        max_bytes: Largest size of all files together.

    Raises:
        DataError: it is cut, damaged or encrypted, compressed by other methods than deflate, holds
            links, paths out of the folder or two files of one name, or exceeds a limit.
    """
    where = f"zip {path}"
    with (
        raised_as(DataError, where, "a complete zip", *DAMAGE, fix="Make it again."),
        ZipFile(path) as archive,
    ):
        members = [member for member in archive.infolist() if not member.is_dir()]
        _check(members, where, path.stat().st_size, max_bytes)
        bytes_left, files = max_bytes, []
        for member in members:
            if is_leftover(Path(member.filename)):
                continue
            file = folder / member.filename
            file.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as packed, file.open("xb") as target:
                while chunk := packed.read(CHUNK):
                    bytes_left -= len(chunk)
                    if bytes_left < 0:
                        raise _too_large(where, max_bytes)
                    target.write(chunk)
            files.append(file)
    return files


def _check(members: list[ZipInfo], where: str, size: int, max_bytes: int) -> None:
    """Raise DataError for members that are too many, too large, overlap, or are not plain files."""
    if len(members) > MAX_FILES:
        raise DataError(where, expected=f"at most {MAX_FILES:,} files", found=f"{len(members):,}")
    # Members that share their bytes could unpack to far more than the file has.
    if sum(member.compress_size for member in members) > size:
        raise DataError(where, expected="members of bytes of their own", found="some that overlap")
    if sum(member.file_size for member in members) > max_bytes:
        raise _too_large(where, max_bytes)
    names: set[str] = set()
    for member in members:
        fault = _fault(member)
        if fault is None and member.filename in names:
            fault = "a second file of this name"
        names.add(member.filename)
        if fault is not None:
            raise DataError(
                f"{where}, file {member.filename[:100]!r}",
                expected="plain files below one folder, each once",
                found=fault,
            )


def _fault(member: ZipInfo) -> str | None:
    """Return the reason why a member must not be unpacked; None if it may."""
    name = member.orig_filename  # zipfile cuts a name at its first NUL
    path_parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in path_parts or UNSAFE.search(name):
        return "a path that leads elsewhere"
    if len(name) > MAX_PATH or any(len(path_part.encode()) > 255 for path_part in path_parts):
        return counted(len(name), "character") + " of path"
    file_type = stat.S_IFMT(member.external_attr >> 16)
    if file_type not in (0, stat.S_IFREG):
        return "a link" if file_type == stat.S_IFLNK else "a device"
    if member.flag_bits & 1:
        return "an encrypted file"
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        return f"compression by method {member.compress_type}, not deflate"
    return None


def _too_large(where: str, max_bytes: int) -> DataError:
    limit = f"at most {max_bytes:,} bytes of files"
    return DataError(where, expected=limit, found="more", fix="Give masks as PNG or run-lengths.")
