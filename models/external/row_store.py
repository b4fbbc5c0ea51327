"""Cache an external program's rows (answers) in a folder, by the content of its input.

`External` uses it if the option `cache` is set. Each row is one file, named by a hash of the
program, the images, and the question with its form of answer and options. A damaged file is
ignored.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.files import temporary_beside
from harness.types import Query


@dataclass(frozen=True, slots=True)
class RowStore:
    """A folder of rows, which several processes may use."""

    folder: Path
    made_by: str
    """A hash of everything about the program that can change a row."""

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"external(cache={self.folder})",
                expected="a folder to write to",
                found=error.strerror or str(error),
            ) from error

    def get(self, query: Query) -> dict[str, object] | None:
        """Return the row for a query, with the query's id; None if there is none."""
        with suppress(OSError, ValueError, RecursionError):
            row = json.loads(self._path(query).read_text("utf-8"))
            if isinstance(row, dict):
                return {**row, "id": query.id}
        return None

    def store(self, query: Query, row: Mapping[str, object]) -> None:
        """Write a row for a query; the file appears complete or not at all."""
        path = self._path(query)
        path.parent.mkdir(exist_ok=True)
        temporary = temporary_beside(path)
        temporary.write_text(json.dumps({key: row[key] for key in row if key != "id"}))
        temporary.replace(path)

    def _path(self, query: Query) -> Path:
        """Return the file of a query's row."""
        media = query.media[0]
        media_facts = [media.id, len(media), media.size, list(media.times())]
        identity = [self.made_by, query.text, query.form, query.options, *media_facts]
        name = hashlib.blake2b(json.dumps(identity).encode(), digest_size=20).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}.json"
