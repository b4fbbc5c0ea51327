"""An append-only file of records by key, such as the verdicts of judges, never rewritten.

Lines have the journal's form, with a checksum. Torn or damaged lines are counted and left out. Two
different records of one key are a StoreError, so that a record never changes once it was read.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import StoreError, raised_as
from harness.store.atomic import writing
from harness.store.journal import line, parse_line


class Ledger:
    """Records by key, all of them in memory; one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        self.damaged = 0
        """Number of lines that are not valid."""
        self._ends_with_line = True
        if path.exists():
            self._read_entries()

    def _read_entries(self) -> None:
        """Read the records of the file, and count its damaged lines."""
        with raised_as(StoreError, f"file {self.path}", "to read it", OSError):
            data = self.path.read_bytes()
        self._ends_with_line = not data or data.endswith(b"\n")
        for raw in data.splitlines(keepends=True):
            record = parse_line(raw)
            if record is None or not isinstance(record.get("key"), str):
                self.damaged += 1
            else:
                self._keep(record)

    def _keep(self, record: dict[str, Any]) -> None:
        """Add a record in memory; raise StoreError if its key has another one."""
        earlier = self.records.setdefault(record["key"], record)
        if earlier != record:
            raise StoreError(
                f"file {self.path}",
                expected=f"one record of key {record['key']}",
                found="two that differ",
                fix="Two programs wrote to it; remove one of the lines.",
            )

    def append(self, key: str, record: Mapping[str, Any]) -> None:
        """Add a record, on disk before this returns.

        Raises:
            StoreError: the disk is full, or the key has another record.
        """
        entry = {"key": key, **record}
        if key in self.records:
            self._keep(entry)
            return
        # A torn last line stays as it is; this record begins a new line.
        data = line(entry) if self._ends_with_line else b"\n" + line(entry)
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        self._ends_with_line = True
        self.records[key] = entry
