"""Read the responses of inspect_ai's logs without inspect_ai installed.

A log is a `.eval` file, a ZIP with one JSON file per sample, or one `.json` file. For `--format
inspect`, `inspect` gets its path and yields an `Entry` per sample.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import takewhile
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.formats.entries import VIDEO_KEYS, Entry, ids_in, number_in, text_in
from harness.interchange.rows import MAX_LINE_BYTES
from harness.layout import field, read_json
from harness.responses import refuse_duplicate_keys

SAMPLES = "samples/"
MAX_LOG, EXPANSION = 2**28, 50
"""Limit of the bytes of a log's samples, unpacked: `MAX_LOG` plus `EXPANSION` times the log."""
ZSTANDARD = 93
"""Number of the compression method in newer logs, which `zipfile` lacks before Python 3.14."""
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Scores of inspect_ai's grades: correct, partially correct, incorrect, no answer."""


def inspect(path: Path) -> Iterator[Entry]:
    """Yield the output of each sample of inspect_ai's log; a sample with an error has none.

    An id that is a number may be the sample's place in its dataset, from 1: inspect_ai numbers the
    samples of a dataset without ids so.

    Raises:
        DataError: the file is not such a log, or too large.
    """
    for number, record in enumerate(_samples(path), start=1):
        where = f"{path}, sample {number}"
        output, name = field(record, "output", dict, where), field(record, "id", (int, str), where)
        if record.get("epoch", 1) != 1:
            raise DataError(
                where,
                expected="one epoch",
                found=f"epoch {record['epoch']} of sample {name!r}",
                fix="One response a question is scored: log the epochs one by one.",
            )
        choices = output.get("choices")
        if not choices and record.get("error") is not None:
            continue
        metadata = record.get("metadata")
        objects = [metadata] if isinstance(metadata, dict) else []
        has_name = isinstance(name, str)
        yield Entry(
            where=where,
            response=responses_of(record.get("messages"), output),
            ids=(*((name,) if has_name else ()), *ids_in(objects)),
            video=text_in(objects, *VIDEO_KEYS),
            question=question_of(record.get("input")),
            row=None if has_name else name - 1,
            ground_truth=record["target"] if isinstance(record.get("target"), str) else "",
            score=_score(record.get("scores")),
        )


def responses_of(messages: object, output: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts of the messages that the assistant wrote after all other roles, in order.

    The last one has to equal the first choice of the output; other choices are alternatives to it.
    If it does not, the log has shortened its messages, and the first choice alone is returned.
    """
    choices = output.get("choices")
    if not isinstance(choices, list) or not choices:
        return (text_in([output], "completion"),)
    last = _content(_part(choices[0], "message"))
    turns = messages if isinstance(messages, list) else []
    last_turns = takewhile(lambda turn: _part(turn, "role") == "assistant", reversed(turns))
    texts = tuple(map(_content, last_turns))[::-1]
    return texts if texts[-1:] == (last,) else (last,)


def question_of(messages: object) -> str:
    """Return the text of a question, or of the messages of the user."""
    if not isinstance(messages, list):
        return str(messages or "")
    return "\n".join(_content(turn) for turn in messages if _part(turn, "role") == "user")


def _content(message: object) -> str:
    """Return the text of a message, whose content is text or a list of parts."""
    content = _part(message, "content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (_part(part, "text") for part in parts if _part(part, "type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _part(fields: object, key: str) -> object:
    return fields.get(key) if isinstance(fields, dict) else None


def _score(scores: object) -> float | None:
    """Return the score by the only scorer; None if there are several."""
    values = list(scores.values()) if isinstance(scores, dict) else []
    value = _part(values[0], "value") if len(values) == 1 else None
    return number_in({"value": GRADES.get(str(value), value)}, ["value"])


def _samples(path: Path) -> Iterator[Any]:
    if path.suffix == ".eval":
        yield from _unpacked(path)
        return
    yield from field(read_json(path), "samples", list, f"predictions {path}")


def _unpacked(path: Path) -> Iterator[Any]:
    """Yield the samples of a `.eval` file, one in memory at a time, up to the limit of bytes."""
    with (
        raised_as(
            DataError,
            f"predictions {path}",
            "a log of inspect_ai",
            *(OSError, BadZipFile, EOFError, NotImplementedError, RuntimeError),
            *(zlib.error, ValueError, RecursionError),
            fix="`inspect log convert LOG --to json --output-dir DIR` writes it as JSON.",
        ),
        open_regular(path) as raw,
        ZipFile(raw) as log,
    ):
        # Of members with one name the last is the file: a log is appended to.
        members = {member.filename: member for member in log.infolist()}
        files = (name for name, member in members.items() if not member.is_dir())
        names = [name for name in files if name.startswith(SAMPLES)]
        if not names:
            raise DataError(f"predictions {path}", expected="samples in the log", found="none")
        bytes_left = max_bytes = MAX_LOG + EXPANSION * path.stat().st_size
        for name in names:
            with _open(log, members[name]) as file:
                data = file.read(min(MAX_LINE_BYTES, bytes_left) + 1)
            bytes_left -= len(data)
            if len(data) > MAX_LINE_BYTES or bytes_left < 0:
                raise DataError(
                    f"predictions {path}, {name}",
                    expected=f"at most {MAX_LINE_BYTES} bytes a sample, {max_bytes} in all",
                    found="more",
                )
            yield json.loads(data, object_pairs_hook=refuse_duplicate_keys)


def _open(log: ZipFile, member: ZipInfo) -> IO[bytes]:
    """Open a member of a log, also one whose compression this version of Python lacks."""
    if member.compress_type != ZSTANDARD:
        return log.open(member)
    import pyarrow as pa  # it takes a while to import

    packed = copy(member)
    packed.compress_type, packed.file_size = ZIP_STORED, member.compress_size
    del packed.CRC  # it is that of the unpacked bytes
    stream: IO[bytes] = pa.CompressedInputStream(log.open(packed), "zstd")
    return stream
