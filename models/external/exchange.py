"""Files for an external program, in the form of README.md: its input, and the output read back.

Images and frames are copies under neutral names in a folder of their own: beside a benchmark's
image lies its answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from PIL import Image

from harness.errors import DataError, MediaError
from harness.interchange.rows import MAX_LINE
from harness.media import Frame, Media
from harness.responses import STRICT
from harness.types import Query

Images: TypeAlias = Literal["png", "jpg"]

QUALITY = 95  # of JPEG, for programs that read nothing else
MAX_OUTPUT = 2**32  # bytes that are read of what a program wrote
KEYS = frozenset({"id", "masks", "text", "no_target", "error"})


@dataclass(frozen=True, slots=True)
class ProgramInput:
    """Input and output of a program."""

    input: Path
    output: Path
    media_errors: Mapping[str, MediaError]
    """Errors by the id of a query whose media cannot be decoded; the program does not get it."""


def lay_out(queries: Sequence[Query], folder: Path, *, images: Images) -> ProgramInput:
    """Write the queries and their images into a folder; equal media are written once."""
    places: dict[tuple[str, int, tuple[int, int]], Path | MediaError] = {}
    rows: list[dict[str, object]] = []
    lost: dict[str, MediaError] = {}
    for query in queries:
        media = query.media[0]
        key = (media.id, len(media), media.size)
        if key not in places:
            places[key] = _write_media(media, folder / f"{len(places):04}", images)
        place = places[key]
        if isinstance(place, MediaError):
            lost[query.id] = place
        else:
            rows.append(_row(query, place))
    given = folder / "input.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ProgramInput(given, folder / "output.jsonl", lost)


def _row(query: Query, place: Path) -> dict[str, object]:
    media = query.media[0]
    shown: dict[str, object] = {"image": str(place)}
    if media.is_video:
        shown = {"frames_dir": str(place), "times": list(media.times())}
    row = {"id": query.id, **shown, "query": query.text, "form": str(query.form)}
    return {**row, "options": list(query.options)} if query.options else row


def _write_media(media: Media, place: Path, images: Images) -> Path | MediaError:
    try:
        if not media.is_video:
            return _save_frame(media.frame(0), place.with_suffix(f".{images}"))
        place.mkdir()
        for index in range(len(media)):  # one by one: a video may be larger than memory
            _save_frame(media.frame(index), place / f"{index:05}.{images}")
    except MediaError as error:
        return error
    return place


def _save_frame(frame: Frame, path: Path) -> Path:
    settings: dict[str, int] = {"compress_level": 1}
    if path.suffix == ".jpg":
        settings = {"quality": QUALITY, "subsampling": 0}
    Image.fromarray(frame).save(path, **settings)  # type: ignore[arg-type]
    return path


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """Output of a program."""

    rows: Mapping[str, Mapping[str, object]]
    """Rows by id."""
    faults: Sequence[str]
    """Faults in the rest of the file, in words."""


def read_back(output: Path, wanted: frozenset[str]) -> ProgramOutput:
    """Read a program's output: rows with the ids of its input, in the form above.

    Faulty rows are reported and left out; a line that was cut off by a crash does not affect
    others. Links, and anything but regular files, are not followed.
    """
    if output.is_symlink() or not output.is_file():
        return ProgramOutput({}, ("it wrote no output file",))
    if output.stat().st_size > MAX_OUTPUT:
        return ProgramOutput({}, (f"its output has more than {MAX_OUTPUT} bytes",))
    rows: dict[str, Mapping[str, object]] = {}
    faults: list[str] = []
    with output.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE + 1), b""), start=1):
            if not line.strip():
                continue
            try:
                name, row = _parse_line(line, wanted)
                if name in rows:
                    raise DataError("id", expected="each once", found="it a second time")
            except DataError as error:
                faults.append(f"line {number} of its output: {error}")
            else:
                rows[name] = row
    return ProgramOutput(rows, tuple(faults))


def _parse_line(line: bytes, wanted: frozenset[str]) -> tuple[str, dict[str, object]]:
    """Return the id of a row, and the row."""
    if len(line) > MAX_LINE:
        raise DataError("line", expected=f"at most {MAX_LINE} bytes", found="a longer one")
    try:
        row = json.loads(line, **STRICT)
    except (ValueError, RecursionError) as error:
        raise DataError("line", expected="one JSON object", found=str(error)[:100]) from error
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise DataError("line", expected='an object with a text "id"', found=repr(row)[:60])
    if row["id"] not in wanted:
        raise DataError("id", expected="the id of a question", found=repr(row["id"])[:60])
    if unknown := set(row) - KEYS:
        raise DataError("keys", expected=", ".join(sorted(KEYS)), found=", ".join(sorted(unknown)))
    return row["id"], row
