"""The journal of a run: finished predictions, appended, checked line by line, never rewritten.

One file a worker and attempt, `samples.<worker>.<attempt>.jsonl`, so that no two processes write
to one file. Every line is JSON of its own: `{"crc": "…", "v": 2, "record": {…}}`, the CRC-32 taken
over the bytes of the record. A sample is appended with one write when it is finished, so that a
kill loses what is under way; a torn tail is copied to `quarantine/`, cut off, and its samples done
again.

Three kinds of records: `{"begin": batch, "run": hash}` says that a batch was started and with which
configuration, `{"sample": query id, …}` is a finished prediction, and `{"text": name, "is": text}`
holds a text that requests of this file's later samples have in common, such as a prompt's template,
where `{"text": name}` stands for it. A name is a hash of the text: a record depends neither on the
samples before it, nor on the number of workers, nor on a resume. Of several predictions of one
sample the last valid one counts.
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

HEAD = b'{"crc": "%08x", "v": 2, "record": '
HEAD_LENGTH = len(HEAD % 0)
NAME = re.compile(r"samples\.(\d+)\.(\d+)\.jsonl\Z")
SYNC_EVERY = 0.5  # seconds; a crash of the machine (not of the process) loses at most this much
MIN_SHARED = 40
"""Characters from which a text is worth a reference, which takes 27 bytes."""


class Writer:
    """Appends records to one worker's file of one attempt."""

    def __init__(self, folder: Path, worker: int, attempt: int) -> None:
        self.path = folder / f"samples.{worker}.{attempt}.jsonl"
        self._synced = monotonic()
        self._texts: set[str] = set()
        """Names of the shared texts that the file holds."""
        with writing(self.path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._handle = os.open(self.path, flags, 0o644)

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records with one write; they are readable even if the process is killed then.

        Raises:
            StoreError: the disk is full; the lines before stay valid.
        """
        texts = {name: text for record in records for name, text in record.get("texts", {}).items()}
        new = [{"text": name, "is": texts[name]} for name in texts if name not in self._texts]
        bare = [{key: record[key] for key in record if key != "texts"} for record in records]
        data = b"".join(map(line, [*new, *bare]))
        with writing(self.path):
            while data:
                data = data[os.write(self._handle, data) :]
        self._texts |= texts.keys()
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
    """One line of the journal."""
    text = json.dumps(
        record, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_scalar
    )
    body = text.encode()
    return HEAD % zlib.crc32(body) + body + b"}\n"


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """The record of a line, or None if the line is torn or damaged."""
    if len(raw) < HEAD_LENGTH + 4 or not raw.endswith(b"}\n"):
        return None
    body = raw[HEAD_LENGTH:-2]
    if raw[:HEAD_LENGTH] != HEAD % zlib.crc32(body):
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
    """The kind of its failure, if it is one."""


class Journal:
    """Index of a run folder's journal; records are read from disk at their access.

    Where all are read once, `keep` holds them as they were indexed, and no line is parsed twice.
    """

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        self.folder = folder
        self._kept: dict[str, dict[str, Any]] | None = {} if keep else None
        self.places: dict[str, JournalPosition] = {}
        self.begun: list[int] = []
        """Batches in the order in which they were started, over all attempts."""
        self.damaged: list[tuple[Path, int]] = []
        """File and offset of lines that are not valid."""
        self._texts: dict[str, str] = {}
        """Texts that samples share, by name."""
        self._runs: dict[Path, set[object]] = {}
        """Runs that the batches of each file name as theirs."""
        self._read: dict[Path, int] = {}
        self.refresh()

    @property
    def next_attempt(self) -> int:
        """A number that no file of the folder has yet."""
        return 1 + max((number(path)[0] for path in files(self.folder)), default=0)

    def refresh(self) -> None:
        """Index the lines that were appended since the last call.

        A last line without an end is left alone: its writer may be in the middle of it. Whether it
        is torn is known when nobody writes any more; see `repair`.
        """
        for path in files(self.folder):
            self._index(path)

    def _index(self, path: Path) -> None:
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
                    self._texts[record["text"]] = record["is"]
                elif "sample" in record and references(record) <= self._texts.keys():
                    # One whose texts are damaged is none: it is predicted again.
                    failure = record["prediction"].get("failure", [None])[0]
                    self.places[record["sample"]] = JournalPosition(path, offset, len(raw), failure)
                    if self._kept is not None:
                        self._kept[record["sample"]] = record
                offset += len(raw)
        self._read[path] = offset

    def check(self, run: str) -> None:
        """Raise StoreError if a file holds predictions of another run than that of this hash."""
        for path, named in self._runs.items():
            if named - {run, None}:
                raise StoreError(
                    f"journal {path}",
                    expected="predictions of this run",
                    found="some that were made with another configuration",
                    fix="Was it copied here? Take it out of the folder.",
                )

    def record(self, sample: str) -> dict[str, Any]:
        """The last valid record of a sample, by its query id.

        Raises:
            StoreError: there is none, or the file changed underneath.
        """
        return next(self.records([sample]))

    def records(self, samples: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the last valid record of each sample, by query ids; each file is opened once.

        A journal that keeps its records yields each once.

        Raises:
            StoreError: there is none, or the file changed underneath.
        """
        with ExitStack() as stack:
            opened: dict[Path, BinaryIO] = {}
            for sample in samples:
                place = self.places.get(sample)
                if place is None:
                    raise StoreError(
                        f"journal {self.folder}",
                        expected=f"a prediction for {sample}",
                        found="none",
                        fix="Run the same `harness eval` again to predict lost samples.",
                    )
                if self._kept is not None:
                    yield with_texts(self._kept.pop(sample), self._texts)
                    continue
                if place.path not in opened:
                    opened[place.path] = stack.enter_context(place.path.open("rb"))
                yield self._read_record(opened[place.path], place)

    def _read_record(self, file: BinaryIO, place: JournalPosition) -> dict[str, Any]:
        file.seek(place.offset)
        record = parse_line(file.read(place.length))
        if record is None:
            raise StoreError(
                f"journal {place.path}",
                expected="the record that was indexed",
                found="other bytes",
                fix="Another program writes there.",
            )
        return with_texts(record, self._texts)

    def repair(self) -> list[str]:
        """Copy damaged lines to `quarantine/` and cut a torn tail off; return a list of these
        steps.

        Only the holder of the folder's lease may call this.
        """
        done = []
        for path, offset in [*self.damaged, *self._tails()]:
            kept = self.folder / "quarantine" / f"{path.name}.{offset}"
            raw = path.read_bytes()[offset:].split(b"\n", 1)[0]
            torn = offset + len(raw) >= path.stat().st_size
            if kept.exists() and not torn:
                continue  # a damaged line stays where it is, and was told of before
            quarantine = self.folder / "quarantine"
            with writing(quarantine):
                quarantine.mkdir(exist_ok=True)
                kept.write_bytes(raw)
                if torn:
                    os.truncate(path, offset)
            done.append(f"{path.name}: {'torn tail' if torn else 'damaged line'} at byte {offset}")
        self.damaged = []
        return done

    def _tails(self) -> Iterator[tuple[Path, int]]:
        """Return the files that end in the middle of a line, and the start of that line."""
        for path, offset in self._read.items():
            if path.stat().st_size > offset:
                yield path, offset


def files(folder: Path) -> Iterator[Path]:
    """The journal's files, oldest attempt first."""
    paths = [path for path in folder.iterdir() if NAME.match(path.name)]
    yield from sorted(paths, key=number)


def number(path: Path) -> tuple[int, int]:
    """(attempt, worker) of a journal file."""
    match = NAME.match(path.name)
    assert match is not None, "only journal files are listed"
    return int(match[2]), int(match[1])


def with_references(
    record: dict[str, object], *, question: str, options: Sequence[str]
) -> dict[str, object]:
    """Return a sample's record with references in its requests, and their texts under `texts`.

    Args:
        record: A journal's record of a sample, with the texts of its requests whole.
        question: The sample's own, which is not part of a template, in whatever case.
        options: Its choices; a line that ends with one is not part of a template either.
    """
    texts: dict[str, str] = {}
    for request, name in _texts(record):
        request[name] = _parts(request[name], question, tuple(options), texts)
    return {**record, "texts": texts} if texts else record


def references(record: Mapping[str, object]) -> set[str]:
    """Return the names of the texts that a sample's requests refer to."""
    return {
        part["text"]
        for request, name in _texts(record)
        for part in request[name]
        if isinstance(part, dict)
    }


def with_texts(record: dict[str, object], texts: Mapping[str, str]) -> dict[str, object]:
    """Return a sample's record with texts in the place of references."""
    for request, name in _texts(record):
        request[name] = "".join(
            part if isinstance(part, str) else texts[part["text"]] for part in request[name]
        )
    return record


def _texts(record: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each request of a sample's, and the key of each text in it."""
    for call in record["prediction"].get("calls", ()):
        request = call["request"]
        if isinstance(request, dict):  # a number stands for an earlier one
            yield from ((request, name) for name in ("system", "text") if name in request)


def _parts(
    text: str, question: str, options: tuple[str, ...], texts: dict[str, str]
) -> list[str | dict[str, str]]:
    """Split a text into its own parts and references, whose texts are added to `texts`."""
    parts: list[str | dict[str, str]] = []
    words = question.strip(" .?!\n")
    pieces = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE) if words else [text]
    for number, piece in enumerate(pieces):
        blocks = groupby(piece.splitlines(keepends=True), lambda line: _ends(line, options))
        for is_own, lines in blocks:
            block = "".join(lines)
            if number % 2 == 0 and not is_own and len(block) >= MIN_SHARED:
                name = hashlib.blake2b(block.encode(), digest_size=8).hexdigest()
                texts[name] = block
                parts.append({"text": name})
            elif parts and isinstance(last := parts[-1], str):
                parts[-1] = last + block
            else:
                parts.append(block)
    return parts


def _ends(line: str, options: tuple[str, ...]) -> bool:
    return line.rstrip().endswith(options)
