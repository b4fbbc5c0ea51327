"""Numbers of frames in the place of seconds, and the command that divides them by the rate."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from harness.errors import DataError
from harness.foreign import to_lines
from harness.tasks.table.description import Description
from harness.tasks.table.rows import ROWS, table_records

OF_FRAMES = re.compile(
    r"(?!.*(?:time|sec|stamp|_m?s(?![a-z]))).*frame(?!.*(?:rate|second)).*", re.IGNORECASE
)
"""Names of fields that say that numbers are those of frames."""
FIRST = re.compile(r"(?:start|begin|first|onset|from).*|.*(?:start|begin)", re.IGNORECASE)
LAST = re.compile(r"(?:end|stop|last|offset|to).*|.*(?:end|stop)", re.IGNORECASE)
RATE = re.compile(r"(?:.*_)?(?:fps|frame_?rate|frames_per_second)", re.IGNORECASE)
AS_FRAMES = re.compile(r"_?frames?.*", re.IGNORECASE)


def frame_fields(names: Collection[str]) -> list[str]:
    """Return the two fields of the first and the last frame of an interval; [] without them."""
    of_frames = [name for name in names if OF_FRAMES.fullmatch(name)]
    pair = [next(filter(pattern.fullmatch, of_frames), "") for pattern in (FIRST, LAST)]
    return pair if all(pair) and pair[0] != pair[1] else []


def in_seconds(table: Path, fields: Sequence[str], names: Collection[str]) -> str:
    """Return what to do about numbers of frames in the fields of a table, which has `names`."""
    rate = next(filter(RATE.fullmatch, names), "")
    if len(fields) != 2 or table.suffix.lower() not in ROWS:
        return f"divide {' and '.join(fields)} by {rate or 'the frames per second'}"
    rows, modules = ROWS[table.suffix.lower()]
    divisor = f"float(row[{rate!r}])" if rate else "FPS"
    members = ", ".join(
        f"{AS_FRAMES.sub('', name) + '_seconds'!r}: float(row[{name!r}]) / {divisor}"
        for name in fields
    )
    command = to_lines(f"({{**row, {members}}} for row in {rows})", table.name, *modules)
    unknown = "" if rate else "; write the video's frames per second in place of FPS"
    return f"{command}, named NEW.jsonl, has seconds, if frames count from 0{unknown}"


def refuse_frame_numbers(description: Description, table: Path) -> None:
    """Raise DataError if fields of times are called those of frames."""
    fields, answer = [*description.media.clip], description.answer
    if answer.form == "interval":
        fields += re.findall(r"\{([^{}]+)\}", answer.field) or [answer.field]
    if not (odd := list(filter(OF_FRAMES.fullmatch, fields))):
        return
    names: Collection[str] = ()
    with suppress(DataError):  # named where the records are read
        names = next((parse().keys() for _, parse in table_records(table, odd)), ())
    raise DataError(
        f"description {description.path}",
        expected="fields of times",
        found=f"{odd[0]!r}, of frames by its name",
        fix=f"Numbers of frames are not read: {in_seconds(table, odd, names)}. Times only need "
        "another name.",
    )
