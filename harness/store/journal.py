"""The journal of a run: finished predictions, one line each, appended and never rewritten.

Workers append with a `Writer`; a resumed run and every reader of predictions opens a `Journal`.
There is one file for each worker and attempt, `samples.<worker>.<attempt>.jsonl`, so that no two
processes write to one file. Every line is a JSON object, `{"crc": "…", "v": 2, "record": {…}}`,
with the CRC-32 of the record's bytes. A sample is appended with one write when it is finished: a
killed process loses only samples under way. A torn last line is copied to `quarantine/` and cut
off, and its samples are predicted again.

There are three kinds of records. `{"begin": batch, "run": hash}`: a batch of the run with this
configuration was started. `{"sample": query id, …}`: a finished prediction; of several of one
sample the last valid one counts. `{"text": name, "is": text}`: a text that requests of later
samples in this file share, such as a prompt's template. In these requests `{"text": name}` stands
for the text. The name is a hash of the text, so that a record does not depend on other samples, on
the number of workers or on a resume.
"""

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, Self

from harness.errors import StoreError
from harness.plain import json_scalar
from harness.store.atomic import writing

LINE_HEAD = b'{"crc": "%08x", "v": 2, "record": '
LINE_HEAD_LENGTH = len(LINE_HEAD % 0)
FILE_NAME = re.compile(r"samples\.(\d+)\.(\d+)\.jsonl\Z")  # samples.0.1.jsonl: worker 0, attempt 1
SYNC_EVERY = 0.5  # seconds; a crash of the machine (not of the process) loses at most this much
MIN_SHARED = 40
"""Least number of characters of a shared text: a reference takes 27 bytes."""


class Writer:
    """Appends records to one worker's file of one attempt."""

    def __init__(self, folder: Path, worker: int, attempt: int) -> None:
        self.path = folder / f"samples.{worker}.{attempt}.jsonl"
        self._synced = monotonic()
        self._written_names: set[str] = set()
        """Names of the shared texts that the file holds."""
        with writing(self.path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._handle = os.open(self.path, flags, 0o644)

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records with one write: they are kept if the process is killed afterwards.

        A record's shared texts (`with_references`), in "texts", are written before it, each once.

        Raises:
            StoreError: the disk is full; earlier lines stay valid.
        """
        texts = {name: text for record in records for name, text in record.get("texts", {}).items()}
        new = [
            {"text": name, "is": texts[name]} for name in texts if name not in self._written_names
        ]
        bare = [{key: record[key] for key in record if key != "texts"} for record in records]
        data = b"".join(map(line, [*new, *bare]))
        with writing(self.path):
            while data:
                data = data[os.write(self._handle, data) :]
        self._written_names |= texts.keys()
        if monotonic() - self._synced > SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Force the appended lines to disk."""
        with writing(self.path):
            os.fdatasync(self._handle)
        self._synced = monotonic()

    def close(self) -> None:
        """Sync and close; a file to which nothing was written is removed."""
        try:
            self.sync()
            empty = os.fstat(self._handle).st_size == 0
        finally:
            os.close(self._handle)
        if empty:
            with suppress(OSError):
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def line(record: Mapping[str, object]) -> bytes:
    """Return the line of a record, with its checksum."""
    text = json.dumps(
        record, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_scalar
    )
    body = text.encode()
    return LINE_HEAD % zlib.crc32(body) + body + b"}\n"


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None if the line is torn or damaged."""
    if len(raw) < LINE_HEAD_LENGTH + 4 or not raw.endswith(b"}\n"):
        return None
    body = raw[LINE_HEAD_LENGTH:-2]
    if raw[:LINE_HEAD_LENGTH] != LINE_HEAD % zlib.crc32(body):
        return None
    try:
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Place of a prediction in a journal's file."""

    path: Path
    offset: int
    length: int
    failure: str | None
    """The kind of failure, if the prediction is one."""


class Journal:
    """Index of a run folder's journal; records are read from disk when they are requested.

    With `keep` records are held in memory as they are indexed, for readers that read each one once,
    so that no line is parsed twice.
    """

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        self.folder = folder
        self._kept: dict[str, dict[str, Any]] | None = {} if keep else None
        self.places: dict[str, JournalPosition] = {}
        self.begun: list[int] = []
        """Batches in the order in which they were started, over all attempts."""
        self.damaged: list[tuple[Path, int]] = []
        """File and offset of lines that are not valid."""
        self._shared_texts: dict[str, str] = {}
        """Texts that samples share, by name."""
        self._runs: dict[Path, set[object]] = {}
        """Hashes of the runs that the batches of each file belong to."""
        self._read: dict[Path, int] = {}
        """Number of bytes of each file that are indexed."""
        self.refresh()

    @property
    def next_attempt(self) -> int:
        """A number that no file of the folder has yet."""
        return 1 + max((attempt_and_worker(path)[0] for path in files(self.folder)), default=0)

    def refresh(self) -> None:
        """Index the lines that were appended since the last call.

        A last line without an end is skipped: its writer may be in the middle of it. If nobody
        writes any more, it is torn; see `repair`.
        """
        for path in files(self.folder):
            self._index(path)

    def _index(self, path: Path) -> None:
        """Index the new lines of one file."""
        offset = self._read.get(path, 0)
        if path.stat().st_size == offset:
            return
        with path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                record = parse_line(raw)
                if record is None:
                    self.damaged.append((path, offset))
                elif "begin" in record:
                    self.begun.append(record["begin"])
                    self._runs.setdefault(path, set()).add(record.get("run"))
                elif "text" in record:
                    self._shared_texts[record["text"]] = record["is"]
                elif "sample" in record and references(record) <= self._shared_texts.keys():
                    # A sample whose texts are damaged is not indexed: it is predicted again.
                    failure = record["prediction"].get("failure", [None])[0]
                    self.places[record["sample"]] = JournalPosition(path, offset, len(raw), failure)
                    if self._kept is not None:
                        self._kept[record["sample"]] = record
                offset += len(raw)
        self._read[path] = offset

    def check(self, run: str) -> None:
        """Raise StoreError if a file holds predictions of a run with another configuration.

        `run` is the `config_hash` of this run.
        """
        for path, run_hashes in self._runs.items():
            if run_hashes - {run, None}:
                raise StoreError(
                    f"journal {path}",
                    expected="predictions of this run",
                    found="some from another configuration",
                    fix="Was it copied here? Take it out of the folder.",
                )

    def record(self, sample: str) -> dict[str, Any]:
        """Return the last valid record of a sample, by its query id.

        Raises:
            StoreError: there is none, or the file was changed since it was indexed.
        """
        return next(self.records([sample]))

    def records(self, samples: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the last valid record of each sample, by query ids; each file is opened once.

        A journal with `keep` can yield each record only once.

        Raises:
            StoreError: there is none, or the file was changed since it was indexed.
        """
        with ExitStack() as stack:
            opened: dict[Path, BinaryIO] = {}
            for sample in samples:
                position = self.places.get(sample)
                if position is None:
                    raise StoreError(
                        f"journal {self.folder}",
                        expected=f"a prediction for {sample}",
                        found="none",
                        fix="Run the same `harness eval` again to predict lost samples.",
                    )
                if self._kept is not None:
                    yield with_texts(self._kept.pop(sample), self._shared_texts)
                    continue
                if position.path not in opened:
                    opened[position.path] = stack.enter_context(position.path.open("rb"))
                yield self._read_record(opened[position.path], position)

    def _read_record(self, file: BinaryIO, position: JournalPosition) -> dict[str, Any]:
        """Return the record at a place; raise StoreError if other bytes are there now."""
        file.seek(position.offset)
        record = parse_line(file.read(position.length))
        if record is None:
            raise StoreError(
                f"journal {position.path}",
                expected="the record that was indexed",
                found="other bytes",
                fix="Another program writes there.",
            )
        return with_texts(record, self._shared_texts)

    def repair(self) -> list[str]:
        """Copy damaged lines to `quarantine/` and cut torn last lines off; return these steps.

        Only the holder of the folder's lease may call this.
        """
        steps = []
        for path, offset in [*self.damaged, *self._tails()]:
            copy = self.folder / "quarantine" / f"{path.name}.{offset}"
            raw = path.read_bytes()[offset:].split(b"\n", 1)[0]
            is_torn = offset + len(raw) >= path.stat().st_size
            if copy.exists() and not is_torn:
                continue  # a damaged line stays where it is, and was reported before
            quarantine = self.folder / "quarantine"
            with writing(quarantine):
                quarantine.mkdir(exist_ok=True)
                copy.write_bytes(raw)
                if is_torn:
                    os.truncate(path, offset)
            steps.append(
                f"{path.name}: {'torn tail' if is_torn else 'damaged line'} at byte {offset}"
            )
        self.damaged = []
        return steps

    def _tails(self) -> Iterator[tuple[Path, int]]:
        """Yield (file, offset of its last line) for files that end in the middle of a line."""
        for path, offset in self._read.items():
            if path.stat().st_size > offset:
                yield path, offset


def files(folder: Path) -> Iterator[Path]:
    """Yield the journal's files, oldest attempt first."""
    paths = [path for path in folder.iterdir() if FILE_NAME.match(path.name)]
    yield from sorted(paths, key=attempt_and_worker)


def attempt_and_worker(path: Path) -> tuple[int, int]:
    """Return (attempt, worker) of a journal file."""
    match = FILE_NAME.match(path.name)
    assert match is not None, "only journal files are listed"
    return int(match[2]), int(match[1])


def with_references(
    record: dict[str, object], *, question: str, options: Sequence[str]
) -> dict[str, object]:
    """Replace the shared texts of a sample's record, in place, by references; return the record.

    The returned record has the shared texts by name under the key `texts`.

    Args:
        record: A journal's record of a sample, with the full texts of its requests.
        question: The sample's question, which is not part of a template, in upper or lower case.
        options: The sample's options; a line that ends with one is not part of a template either.
    """
    texts: dict[str, str] = {}
    for request, name in _request_texts(record):
        request[name] = _parts(request[name], question, tuple(options), texts)
    return {**record, "texts": texts} if texts else record


def references(record: Mapping[str, object]) -> set[str]:
    """Return the names of the texts that a sample's requests refer to."""
    return {
        part["text"]
        for request, name in _request_texts(record)
        for part in request[name]
        if isinstance(part, dict)
    }


def with_texts(record: dict[str, object], texts: Mapping[str, str]) -> dict[str, object]:
    """Replace the references of a sample's record, in place, by their texts; return the record."""
    for request, name in _request_texts(record):
        request[name] = "".join(
            part if isinstance(part, str) else texts[part["text"]] for part in request[name]
        )
    return record


def _request_texts(record: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each request of a sample's record with the key of each text in it."""
    for call in record["prediction"].get("calls", ()):
        request = call["request"]
        if isinstance(request, dict):  # a number stands for an earlier one
            yield from ((request, name) for name in ("system", "text") if name in request)


def _parts(
    text: str, question: str, options: tuple[str, ...], texts: dict[str, str]
) -> list[str | dict[str, str]]:
    """Split a request's text into parts of its own and references to shared texts.

    Lines of the template become references; the question, and lines that end with an option, are
    the sample's own. The shared texts are added to `texts`.
    """
    parts: list[str | dict[str, str]] = []
    bare = question.strip(" .?!\n")
    pieces = re.split(f"({re.escape(bare)})", text, flags=re.IGNORECASE) if bare else [text]
    for number, piece in enumerate(pieces):
        is_question = number % 2 == 1  # re.split returns the separators at odd indices
        blocks = groupby(
            piece.splitlines(keepends=True), lambda line: _ends_with_option(line, options)
        )
        for is_option, lines in blocks:
            block = "".join(lines)
            if not is_question and not is_option and len(block) >= MIN_SHARED:
                name = hashlib.blake2b(block.encode(), digest_size=8).hexdigest()
                texts[name] = block
                parts.append({"text": name})
            elif parts and isinstance(last := parts[-1], str):
                parts[-1] = last + block
            else:
                parts.append(block)
    return parts


def _ends_with_option(line: str, options: tuple[str, ...]) -> bool:
    return line.rstrip().endswith(options)
