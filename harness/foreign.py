"""Recognise a file that is not the data its name promises, and name the command that repairs it.

A clone, a download or a copy often leaves a Git LFS pointer, a web page, an archive or nothing at
all under a data file's name. Readers that fail to read a file call this module with its path or its
first bytes; the error then says what the file is and what to type to get the data.
"""

import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from harness.errors import DataError, HarnessError, raised_as
from harness.files import open_regular

HEAD = 1024
"""Number of bytes from the beginning of a file by which it is recognised."""
FETCH_HINT = "Fetch it again, with a login where the address asks for one."


class Stranger(NamedTuple):
    """A recognised file that is not the expected data, and what to do about it."""

    found: str
    fix: str


POINTERS = (
    (re.compile(rb"version https://git-lfs\.github\.com/"), "a Git LFS pointer", "git lfs pull"),
    (re.compile(rb"# xet version \d"), "a pointer of Xet storage", "hf download"),
    (re.compile(rb"(?:\.\./)*(?:\.git)?/annex/objects/"), "a git-annex pointer", "git annex get"),
    (re.compile(rb"outs:\s+- (?:md5|hash|path|size):"), "a DVC pointer", "dvc pull"),
)
"""First bytes of small text files that refer to a file elsewhere, their names, and the command
that brings the file."""
PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
"""The beginning of a web page, such as `<!DOCTYPE html>` after blanks and comments."""
STORAGE_ERROR = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<Error>.*?<Code>(\w{1,60})</Code>", re.S)
"""The answer of a storage server, such as `<Error><Code>AccessDenied</Code>`."""
SERVER_ERROR = re.compile(
    rb"\s*(?:40[134]:?\s+)?(?:(?:entry |repository )?not found|access denied|forbidden|"
    rb"unauthorized|"
    rb"invalid username or password|invalid credentials|access to \S+ is restricted)"
    rb'[^\n{}\[\]<>"\t]{0,200}\s*\Z',
    re.I,
)
"""The whole text of a server's refusal, such as `404: Not Found` or `Access denied`."""
LIST = re.compile(rb"\[\s*(?:\{|\Z)")
"""The beginning of a JSON list of objects, as `[{"id": 1`, or its first line, `[`."""
LINK = re.compile(rb"\.{1,2}/[^\s\x00<>]{1,1000}\n?\Z")
"""The text that Git writes in place of a symbolic link, such as `../images/1.jpg`."""
ZIP = b"PK\x03\x04"
ARCHIVES = (
    (ZIP, "a ZIP archive", "unzip"),
    (b"\x1f\x8b", "a gzip archive", "gunzip"),
    (b"BZh", "a bzip2 archive", "bunzip2"),
    (b"\xfd7zXZ", "an xz archive", "unxz"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive", "unzstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "7z x"),
    (b"Rar!\x1a\x07", "a RAR archive", "unrar x"),
)
"""First bytes of archives, their names, and the command that unpacks them."""
OLE, OPEN_DOCUMENT = b"\xd0\xcf\x11\xe0", b"mimetypeapplication/vnd.oasis.opendocument"
"""First bytes of an Excel file before 2007 (.xls), and of a LibreOffice document (.ods)."""
PICTURES = (
    (re.compile(rb"....ftyp(?:avif|avis)", re.S), "an AVIF image"),
    (re.compile(rb"....ftyp(?:hei[cmsx]|hev[cmsx]|mif1|msf1)", re.S), "a HEIC or HEIF image"),
    (re.compile(rb"\x00\x00\x00\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51"), "a JPEG 2000 image"),
    (re.compile(rb"\x00\x00\x00\x0cJXL \r\n\x87\n"), "a JPEG XL image"),
)
"""First bytes of images in formats that the harness does not open."""
MASKS = ((b"\x89PNG\r\n", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"))
"""First bytes of images, which are foreign where a text file is expected."""
TABLES = (
    (b"PAR1", "a Parquet table", "pyarrow.parquet"),
    (b"ARROW1", "an Arrow table (Feather)", "pyarrow.feather"),
)
"""First bytes of binary tables, their names, and the module that reads them."""
PICKLE = re.compile(rb"\x80[\x02-\x05]")
"""The beginning of a pickle of protocol 2 to 5."""
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Control characters that never occur in a text file."""
TAR = b"ustar"
TAR_PLACE = 257  # of these bytes in a tar archive
APPLE_DOUBLE = (b"\x00\x05\x16\x07", b"\x00\x05\x16\x00")
"""First bytes of macOS' files `._NAME`, which hold a file's attributes."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, the first bytes of such a text."""
IMAGES = (".jpg", ".jpeg", ".png", ".webp")
"""Suffixes of images; their content alone says which format they have."""
LAST_NUMBER = re.compile(r"(.*?)(\d{1,18})")
"""A name that ends in a number, as `frame_12`: the part before it, and the number."""
UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".incomplete", ".aria2")
"""Suffixes that download programs give to an incomplete file."""
PACKED = {".gz": "gunzip", ".bz2": "bunzip2", ".xz": "unxz", ".zst": "unzstd", ".zip": "unzip"}
"""Suffixes of packed files, with the commands that unpack them."""
LEFTOVERS = frozenset({"__MACOSX", "Thumbs.db", "ehthumbs.db", "desktop.ini", "Icon\r", "@eaDir"})
"""Names that file managers and archives leave behind, besides hidden ones (`.DS_Store`, `._x`)."""
LOCKS = ("~$", "~lock.")
"""Beginnings of the names of files by which office programs lock an open document."""


def new_name(name: str, suffix: str = "") -> str:
    """Return a name for the file that a command writes, other than the name of the file it reads.

    >>> new_name("a.json"), new_name("NEW"), new_name("NEW.json", ".json")
    ('NEW', 'NEW2', 'NEW2.json')
    """
    return f"NEW{'2' if name == f'NEW{suffix}' else ''}{suffix}"


def interpreter() -> str:
    """Return the shell word that starts this Python: `python`, or its path if PATH has another."""
    first = shutil.which("python")
    same = first is not None and Path(first).parent == Path(sys.executable).parent
    return "python" if same else quote(sys.executable)


def to_lines(rows: str, name: str, *modules: str) -> str:
    """Return the command that prints `rows`, a Python expression about file `name`, as JSON lines.

    The command ends with code 1 and a message if there is no row. `modules` are the modules that
    the expression uses.
    """
    program = f"import {', '.join(('json', 'sys', *modules))}; "
    if any(module.startswith("harness") for module in modules):  # whose messages say all
        program += "sys.tracebacklimit = 0; "
    python = interpreter() if modules else "python"
    program += f"[print(json.dumps(row)) for row in {rows}] "
    program += 'or sys.exit("no record in " + sys.argv[1])'
    return f"`{python} -c {quote(program)} {quote(name)} > {new_name(name)}`"


def recognise(
    head: bytes, name: str = "FILE", *, archives: bool = True, text: bool = False
) -> Stranger | None:
    r"""Return what a file is by its first bytes; None if it may be the expected data.

    >>> recognise(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n").found
    'a Git LFS pointer'
    >>> recognise(b"<!DOCTYPE html><title>Sign in</title>").found
    'a web page (HTML)'
    >>> recognise(b'{"id": 1}') is None
    True

    Args:
        head: The first `HEAD` bytes.
        name: The file's name, for the command to type.
        archives: True if an archive is foreign; False for a spreadsheet, which is a ZIP itself.
        text: True if a text file is expected, so that a binary table or a pickle is foreign.
    """
    file = quote(name)
    for pattern, content, command in POINTERS:
        if pattern.match(head):
            return Stranger(content, f"`{command}` in its folder brings the file.")
    if PAGE.match(head):
        return Stranger("a web page (HTML)", FETCH_HINT)
    if error := STORAGE_ERROR.match(head):
        return Stranger(f"a storage server's error ({error[1].decode()})", FETCH_HINT)
    if len(head) < HEAD and SERVER_ERROR.match(head):
        first_words = " ".join(head.decode("utf-8", "replace").split())
        return Stranger(f"a server's error ({first_words[:60]!r})", FETCH_HINT)
    if head.startswith(APPLE_DOUBLE):
        fix = "Delete such files: `find . -name '._*' -delete`."
        return Stranger("macOS' notes about another file (AppleDouble)", fix)
    if len(head) < HEAD and LINK.match(head):
        where = head.decode("utf-8", "replace").strip()
        fix = "`git config core.symlinks true`, then `git checkout -- .`, or copy that file here."
        return Stranger(f"the text of a link to {where[:80]!r}", fix)
    if head.startswith(UTF_16):
        fix = f"`iconv -f utf-16 -t utf-8 {file} > {new_name(name)}` converts it."
        return Stranger("text in UTF-16", fix)
    if head.startswith(OLE) or (head.startswith(ZIP) and OPEN_DOCUMENT in head[:HEAD]):
        return Stranger("a spreadsheet of another kind", "Save it as .xlsx or .tsv.")
    for pattern, content in PICTURES:
        if pattern.match(head):
            return Stranger(content, "Convert it to PNG or JPEG.")
    for first, content in MASKS if text else ():
        if head.startswith(first):
            return Stranger(content, "Masks as files need --format mask-tree, and their folder.")
    for first, content, module in TABLES if text else ():
        if head.startswith(first):
            rows = f"{module}.read_table(sys.argv[1]).to_pylist()"
            return Stranger(content, f"{to_lines(rows, name, module)} makes JSON lines of it.")
    if text and PICKLE.match(head):
        return Stranger("a pickle, which can run code", "Write JSON lines where it was made.")
    if archives and head.startswith(ZIP) and b"\\" in _first_member(head):
        program = (
            r'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); [setattr(one, "filename", '
            r'one.filename.replace("\\", "/")) or z.extract(one) for one in z.infolist()]'
        )
        fix = f"Unpack it with folders: `python -c {quote(program)} {file}`."
        return Stranger("a ZIP archive whose names have backslashes", fix)
    for first, content, command in ARCHIVES if archives else ():
        if head.startswith(first):
            return Stranger(content, f"Unpack it: `{command} {file}`.")
    if archives and head[TAR_PLACE : TAR_PLACE + len(TAR)] == TAR:
        return Stranger("a tar archive", f"Unpack it: `tar xf {file}`.")
    return None


def _first_member(head: bytes) -> bytes:
    """Return the name of the first member of a ZIP archive that begins with `head`."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]


def backslashes(names: Iterable[str]) -> str:
    """Return a command that turns backslashes in file names into folders; "" if no name has one.

    Such names come from an archive that Windows packed and another system unpacked.
    """
    if not any("\\" in name for name in names):
        return ""
    program = (
        r'import os, sys; pairs = [(name, name.replace("\\", "/")) for name in os.listdir() '
        r'if "\\" in name and ".." not in name]; [sys.exit(new + " exists") for _, new in pairs '
        r"if os.path.exists(new)]; [os.renames(*pair) for pair in pairs]"
    )
    return (
        "Backslashes in their names stand for folders, as a ZIP archive from Windows has them: "
        f"`python -c {quote(program)}` in that folder makes the folders."
    )


def from_one(names: Iterable[str], wanted: Collection[str], pattern: str) -> str:
    """Return a command that lowers the numbers in file names by 1, if they start at 1, not 0.

    Args:
        names: The names of the files that exist, without suffix.
        wanted: The names that are expected, without suffix.
        pattern: Glob pattern of the files, from the folder in which the command is typed.

    Returns:
        The command with its reason; "" if other numbers are the cause.

    >>> from_one(["v/1", "v/2"], {"v/0", "v/1"}, "*/*").partition(":")[0]
    'The numbers begin with 1 and should with 0'
    >>> from_one(["v/1"], {"v/0", "v/1"}, "*/*"), from_one(["w/1", "w/2"], {"v/0"}, "*/*")
    ('', '')
    """
    names = set(names)
    matches = [match for name in names if (match := LAST_NUMBER.fullmatch(name))]
    if not matches or len(matches) < len(names) or names <= {*wanted}:
        return ""
    for is_padded in (False, True):
        lowered = {
            match[1] + str(int(match[2]) - 1).zfill(len(match[2]) if is_padded else 0)
            for match in matches
        }
        if lowered <= {*wanted}:
            break
    else:
        return ""
    number = "str(int(m[0]) - 1)" + (".zfill(len(m[0]))" if is_padded else "")
    program = (
        "import pathlib, re, sys; "
        r'number = re.compile("\\d+(?=\\D*$)"); '
        "paths = sorted(pathlib.Path().glob(sys.argv[1]), "
        "key=lambda path: int(number.search(path.stem)[0])); "
        f"[path.rename(path.with_name(number.sub(lambda m: {number}, path.stem) + path.suffix)) "
        "for path in paths]"
    )
    typed_command = (
        f"`python -c {quote(program)} {quote(pattern)}`, typed in the folder of predictions,"
    )
    return f"The numbers begin with 1 and should with 0: {typed_command} renames them."


def in_place_of(path: Path, *, archives: bool = True, text: bool = False) -> Stranger | None:
    """Return what the file at a path is, if not the data; if it is missing, a similar name beside.

    None: the file may be the expected data, or it cannot be opened.
    """
    try:
        with open_regular(path) as file:
            return recognise(file.read(HEAD), path.name, archives=archives, text=text)
    except FileNotFoundError:
        return _beside(path)
    except (OSError, ValueError):
        return None


def _beside(path: Path) -> Stranger | None:
    """Return the packed, unfinished or similarly named file in the folder of a missing file."""
    alike = IMAGES if path.suffix.lower() in IMAGES else (path.suffix.lower(),)
    spellings = (spelling for name in alike for spelling in (name, name.upper(), name.capitalize()))
    for suffix in spellings:
        neighbour = path.with_suffix(suffix) if path.suffix else path
        if neighbour.name != path.name and neighbour.is_file():
            wrong, right = suffix[1:], path.suffix[1:]
            command = f'for f in *.{wrong}; do mv "$f" "${{f%{wrong}}}{right}"; done'
            all_like = path.parent.glob(f"*{suffix}")
            if any(file.with_suffix(path.suffix).exists() for file in all_like):
                command = f"mv {quote(neighbour.name)} {quote(path.name)}"  # loses no other file
            fix = f"Another suffix is another name: `{command}` in its folder renames "
            fix += "them." if command.startswith("for") else "it."
            return Stranger(f"none, but {neighbour.name}", fix)
    for suffix in UNFINISHED:
        if path.with_name(path.name + suffix).is_file():
            return Stranger(f"none, but {path.name}{suffix}, an unfinished download", FETCH_HINT)
    for suffix, command in PACKED.items():
        if (packed := path.with_name(path.name + suffix)).is_file():
            fix = f"Unpack it: `{command} {quote(packed.name)}`."
            return Stranger(f"none, but {packed.name}", fix)
    if path.with_name(f"{path.name}.dvc").is_file():
        return Stranger(f"none, but {path.name}.dvc, a DVC pointer", "`dvc pull` brings the file.")
    if path.with_name(f".{path.name}.icloud").is_file():
        fix = f"`brctl download {quote(path.name)}` brings the file."
        return Stranger("none, but a placeholder of iCloud", fix)
    return None


def extra_fix(allow_extra: bool | None, what: str) -> str:
    """Return what to do about lines or files of no sample; `allow_extra` None has no option."""
    option = "" if allow_extra is None else f", or pass --allow-extra to ignore such {what}"
    return f"Check the split{option}."


def absence(path: Path, though: str = "") -> str:
    """Return in words what is wrong with a missing file: what lies beside it, or "is missing".

    `though` is a clause for the second case: what suggests that the file should exist.
    """
    if stranger := in_place_of(path):
        return f"{stranger.found}. {stranger.fix}"
    return f"is missing, though {though}" if though else "is missing"


def refuse_foreign(
    path: Path,
    error: type[HarnessError],
    thing: str,
    expected: str,
    *,
    archives: bool = True,
    text: bool = False,
) -> None:
    """Raise `error` if a file is recognised as other than the expected data; see `recognise`."""
    if stranger := in_place_of(path, archives=archives, text=text):
        raise error(thing, expected=expected, found=stranger.found, fix=stranger.fix)


def refuse_list(path: Path, start: bytes, thing: str) -> None:
    """Raise DataError if a file of JSON lines begins, with `start`, as one JSON list."""
    if LIST.match(start):
        conversion = f"`jq -c '.[]' {quote(path.name)} > {new_name(path.name)}`"
        if start.startswith(b"[{'"):  # as Python shows a list
            conversion = to_lines("ast.literal_eval(open(sys.argv[1]).read())", path.name, "ast")
        fix = f"{conversion} makes such lines."
        raise DataError(thing, expected="one JSON object a line", found="a list", fix=fix)


def other_encoding(name: str) -> str:
    """Return the command that converts a text file from another encoding to UTF-8."""
    conversion = f"`iconv -f windows-1252 -t utf-8 {quote(name)} > {new_name(name)}`"
    return f"{conversion} converts what Excel writes."


def refuse_zeros(line: bytes, thing: str) -> None:
    """Raise DataError if a line of text ends in zero bytes, as in an unfinished copy."""
    content = line.rstrip(b"\r\n")
    text = content.rstrip(b"\0")
    count = len(content) - len(text)
    if count and not CONTROLS.search(text):
        ending, fix = f"{count} zero bytes at its end", "The copy is incomplete: copy it again."
        raise DataError(thing, expected="one JSON object", found=ending, fix=fix)


@contextmanager
def reading(
    path: Path,
    error_class: type[HarnessError],
    thing: str,
    expected: str,
    *of: type[BaseException],
    fix: str = "",
    archives: bool = True,
) -> Iterator[None]:
    """Turn exceptions while a file is read into an error of type `error_class` about the file.

    The error says what the file is, if `in_place_of` recognises it; otherwise it is the error that
    `raised_as` makes of the exception. `of` are the types of exceptions that are turned.
    """
    with raised_as(error_class, thing, expected, *of, fix=fix):
        try:
            yield
        except of:
            refuse_foreign(path, error_class, thing, expected, archives=archives)
            raise


def is_leftover(path: Path) -> bool:
    """Return True for a file that an archive, a file manager or an office program left behind.

    >>> [is_leftover(Path(name)) for name in ("__MACOSX/a.png", "._a.png", "~$a.xlsx", "a.png")]
    [True, True, True, False]

    Args:
        path: A path relative to the folder that is read.
    """
    return any(
        part in LEFTOVERS or part.startswith((".", *LOCKS)) for part in path.parts if part != ".."
    )


def listed(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the sorted paths in a folder that match a glob pattern, without leftovers.

    The pattern's suffix matches in either case: `*.png` matches `A.PNG`.
    """
    stem, dot, suffix = pattern.rpartition(".")
    if dot and suffix.isalnum():
        both = (f"[{sign.lower()}{sign.upper()}]" if sign.isalpha() else sign for sign in suffix)
        pattern = f"{stem}.{''.join(both)}"
    paths = (path for path in folder.glob(pattern) if not is_leftover(path.relative_to(folder)))
    return sorted(paths)
