"""Write the input files of an external program, and read its output (format: README.md).

Images and frames are copied under neutral names into a separate folder, because the benchmark's own
folder may hold the answers next to the images.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from PIL import Image

from harness.errors import DataError, MediaError
from harness.interchange.rows import MAX_LINE_BYTES
from harness.media import Frame, Media
from harness.responses import STRICT
from harness.types import Query

Images: TypeAlias = Literal["png", "jpg"]

JPEG_QUALITY = 95  # of JPEG, for programs that cannot read PNG
MAX_OUTPUT_BYTES = 2**32  # largest output file that is read, in bytes
ROW_KEYS = frozenset({"id", "masks", "text", "no_target", "error"})
"""Keys that a row of the output may have."""


@dataclass(frozen=True, slots=True)
class ProgramInput:
    """The files of one run of a program."""

    input: Path
    """File with the questions."""
    output: Path
    """File that the program is to write."""
    media_errors: Mapping[str, MediaError]
    """Error by query id if the media cannot be decoded; the input does not hold these queries."""


def lay_out(queries: Sequence[Query], folder: Path, *, images: Images) -> ProgramInput:
    """Write the queries and their images into a folder; equal media are written once."""
    paths: dict[tuple[str, int, tuple[int, int]], Path | MediaError] = {}
    rows: list[dict[str, object]] = []
    media_errors: dict[str, MediaError] = {}
    for query in queries:
        media = query.media[0]
        key = (media.id, len(media), media.size)
        if key not in paths:
            paths[key] = _write_media(media, folder / f"{len(paths):04}", images)
        path = paths[key]
        if isinstance(path, MediaError):
            media_errors[query.id] = path
        else:
            rows.append(_row(query, path))
    input_file = folder / "input.jsonl"
    input_file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ProgramInput(input_file, folder / "output.jsonl", media_errors)


def _row(query: Query, path: Path) -> dict[str, object]:
    """Return a line of the input: a query, and the path of its image or folder of frames."""
    media = query.media[0]
    files: dict[str, object] = {"image": str(path)}
    if media.is_video:
        files = {"frames_dir": str(path), "times": list(media.times())}
    row = {"id": query.id, **files, "query": query.text, "form": str(query.form)}
    return {**row, "options": list(query.options)} if query.options else row


def _write_media(media: Media, path: Path, images: Images) -> Path | MediaError:
    """Write an image, or a folder of frames; return its path, or the error of decoding."""
    try:
        if not media.is_video:
            return _save_frame(media.frame(0), path.with_suffix(f".{images}"))
        path.mkdir()
        for index in range(len(media)):  # one by one: a video may be larger than memory
            _save_frame(media.frame(index), path / f"{index:05}.{images}")
    except MediaError as error:
        return error
    return path


def _save_frame(frame: Frame, path: Path) -> Path:
    """Write a frame as PNG or JPEG, by the suffix of the path; return the path."""
    settings: dict[str, int] = {"compress_level": 1}
    if path.suffix == ".jpg":
        settings = {"quality": JPEG_QUALITY, "subsampling": 0}
    Image.fromarray(frame).save(path, **settings)  # type: ignore[arg-type]
    return path


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The rows of a program's output, and the faults of lines that cannot be read."""

    rows: Mapping[str, Mapping[str, object]]
    """Rows by query id."""
    faults: Sequence[str]
    """Messages about faulty lines or the whole file."""


def read_back(output: Path, expected_ids: frozenset[str]) -> ProgramOutput:
    """Read the output file of a program.

    Faulty lines become messages in `faults`, so that a line cut off by a crash affects no other.
    Links, and anything but regular files, are not read.

    Args:
        output: The file that the program wrote, or should have.
        expected_ids: Ids of the queries in its input.
    """
    if output.is_symlink() or not output.is_file():
        return ProgramOutput({}, ("it wrote no output file",))
    if output.stat().st_size > MAX_OUTPUT_BYTES:
        return ProgramOutput({}, (f"its output has more than {MAX_OUTPUT_BYTES} bytes",))
    rows: dict[str, Mapping[str, object]] = {}
    faults: list[str] = []
    with output.open("rb") as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES + 1), b"")  # cut: `_parse_line` refuses
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                name, row = _parse_line(line, expected_ids)
                if name in rows:
                    raise DataError("id", expected="each once", found="it a second time")
            except DataError as error:
                faults.append(f"line {number} of its output: {error}")
            else:
                rows[name] = row
    return ProgramOutput(rows, tuple(faults))


def _parse_line(line: bytes, expected_ids: frozenset[str]) -> tuple[str, dict[str, object]]:
    """Return the query id of a row, and the row.

    Raises:
        DataError: the line is not a row of the output, or its id is not one of `expected_ids`.
    """
    if len(line) > MAX_LINE_BYTES:
        raise DataError("line", expected=f"at most {MAX_LINE_BYTES} bytes", found="a longer one")
    try:
        row = json.loads(line, **STRICT)
    except (ValueError, RecursionError) as error:
        raise DataError("line", expected="one JSON object", found=str(error)[:100]) from error
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise DataError("line", expected='an object with a text "id"', found=repr(row)[:60])
    if row["id"] not in expected_ids:
        raise DataError("id", expected="the id of a question", found=repr(row["id"])[:60])
    if unknown := set(row) - ROW_KEYS:
        raise DataError(
            "keys", expected=", ".join(sorted(ROW_KEYS)), found=", ".join(sorted(unknown))
        )
    return row["id"], row
