"""Digests of the files of a generated world, for its `shapes.json`.

Text and PNG files are equal byte for byte wherever they are made, so their bytes are hashed. JPEG
and Parquet files differ between versions of their encoders, so their pixels and rows are hashed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from harness.errors import DataError
from harness.files import content_hash
from harness.image_file import decode_image
from harness.version import __version__

FORMAT = 1


def fingerprints(root: Path) -> dict[str, dict[str, str]]:
    """Return the fingerprint of each file below a folder, by its path in it."""
    paths = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): fingerprint(path) for path in paths}


def manifest(files: Mapping[str, Mapping[str, str]], *, seed: int, size: int) -> str:
    """Return the text of `shapes.json`.

    Args:
        files: Fingerprints by name.
        seed: Seed of the world.
        size: Samples a split.
    """
    plain = {
        "format": FORMAT,
        "harness": __version__,
        "seed": seed,
        "size": size,
        "files": {name: files[name] for name in sorted(files, key=PurePosixPath)},
    }
    return json.dumps(plain, indent=1) + "\n"


def fingerprint(path: Path) -> dict[str, str]:
    """Return the kind of content (`bytes`, `pixels`, `rows`) and its 128-bit BLAKE2b digest."""
    what, digest = DIGEST_OF_SUFFIX.get(path.suffix, ("bytes", _bytes_digest))
    return {what: digest(path)}


def hexdigest(*parts: bytes) -> str:
    """Return BLAKE2b of 128 bits over the parts, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _bytes_digest(path: Path) -> str:
    return content_hash(path).hex()


def _pixels_digest(path: Path) -> str:
    image = decode_image(path, path.name)
    return hexdigest(repr(image.shape).encode(), image.tobytes())


def _rows_digest(path: Path) -> str:
    from pyarrow import parquet

    table = parquet.read_table(path)
    columns = json.dumps([[field.name, str(field.type)] for field in table.schema])
    rows = (json.dumps(row, default=_canonical).encode() for row in table.to_pylist())
    return hexdigest(columns.encode(), *rows)


def _canonical(value: object) -> str:
    """Return the digest of bytes in a row, for `json.dumps`; raise DataError for other values."""
    if isinstance(value, bytes):
        return hexdigest(value)
    raise DataError("value of a row", expected="plain data", found=type(value).__name__)


DIGEST_OF_SUFFIX: Mapping[str, tuple[str, Callable[[Path], str]]] = MappingProxyType(
    {".jpg": ("pixels", _pixels_digest), ".parquet": ("rows", _rows_digest)}
)
