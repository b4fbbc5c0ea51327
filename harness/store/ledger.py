"""An append-only file of records by key, each line with its checksum, never rewritten.

The lines are those of the journal. A line that is torn or damaged is not there, and is counted; a
key that stands there twice with different records is an error, so that what was once read is
always read again.
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
        """Lines that are not valid."""
        self._whole = True
        if path.exists():
            self._read_entries()

    def _read_entries(self) -> None:
        with raised_as(StoreError, f"file {self.path}", "to read it", OSError):
            data = self.path.read_bytes()
        self._whole = not data or data.endswith(b"\n")
        for raw in data.splitlines(keepends=True):
            record = parse_line(raw)
            if record is None or not isinstance(record.get("key"), str):
                self.damaged += 1
            else:
                self._keep(record)

    def _keep(self, record: dict[str, Any]) -> None:
        known = self.records.setdefault(record["key"], record)
        if known != record:
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
        whole = {"key": key, **record}
        if key in self.records:
            self._keep(whole)
            return
        # A torn line stays as it is; what follows begins a line of its own.
        data = line(whole) if self._whole else b"\n" + line(whole)
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        self._whole = True
        self.records[key] = whole
