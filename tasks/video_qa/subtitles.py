"""Read subtitles of videos, and select or interleave them by the times of shown frames.

Video-MME has SubRip files (`srt`, `at_frames`), LongVideoBench lists in JSON (`read_subtitles`,
`interleave`). Times are in seconds.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.foreign import refuse_foreign
from harness.layout import field, read_json

CLOCK_PATTERN = re.compile(r"(\d{1,3}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})\Z")  # 00:01:02,500
SPOKEN_PATTERN = re.compile(r"""<font color="white" size=".72c">(.*?)</font>""")
"""The tag around the words of a line in Video-MME's files."""
MAX_BYTES = 2**26  # of a file of subtitles
FRAME = "<frame {number}>"
"""Placeholder for a frame between lines of subtitles; numbers start at 1."""


@dataclass(frozen=True, slots=True)
class Line:
    """One subtitle: its text and its times in seconds."""

    start: float
    """Seconds from the start of the video."""
    end: float
    text: str


def srt(path: Path) -> list[Line]:
    """Return the lines of a SubRip file, in its order.

    As in lmms-eval's `load_subtitles` (commit 75571cf), empty lines separate blocks, and the second
    line of a block has the times. If two blocks have equal times, the text of the later one takes
    the position of the earlier one.

    Raises:
        DataError: the file is missing or not text, or a time cannot be parsed.
    """
    text_at: dict[tuple[float, float], str] = {}
    for number, block in enumerate(_text(path).split("\n\n"), start=1):
        rows = block.split("\n")
        if not block.strip() or len(rows) < 3:
            continue
        times = rows[1].split(" --> ")
        if len(times) != 2:
            raise DataError(
                f"{path}, part {number}",
                expected='"00:00:01,000 --> 00:00:02,500"',
                found=repr(rows[1])[:60],
            )
        start, end = (_clock(time, f"{path}, part {number}") for time in times)
        text_at[start, end] = " ".join(rows[2:])
    return [Line(start, end, text) for (start, end), text in text_at.items()]


def _text(path: Path) -> str:
    """Read a SubRip file of at most MAX_BYTES, with line ends of one character."""
    file_name = f"subtitles {path}"
    refuse_foreign(path, DataError, file_name, "a SubRip file")
    with raised_as(DataError, file_name, "a SubRip file", OSError, UnicodeDecodeError):
        if path.stat().st_size > MAX_BYTES:
            raise DataError(file_name, expected=f"at most {MAX_BYTES} bytes", found="more")
        return read_text(path, "utf-8-sig").replace("\r\n", "\n")


def _clock(text: str, where: str) -> float:
    """Convert a time of a SubRip file, such as 00:01:02,500, to seconds."""
    match = CLOCK_PATTERN.match(text.strip())
    if match is None:
        raise DataError(where, expected="a time such as 00:01:02,500", found=repr(text)[:40])
    hours, minutes, seconds, thousandths = map(int, match.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def line_text(line: Line) -> str:
    """Return the words of a line, without the `font` tag of Video-MME's files.

    >>> line_text(Line(0, 1, '<font color="white" size=".72c">hello</font>'))
    'hello'
    >>> line_text(Line(0, 1, "x"))
    'x'
    """
    spoken = SPOKEN_PATTERN.findall(line.text)
    return str(spoken[0]) if spoken else line.text


def at_frames(lines: Sequence[Line], shown_times: Sequence[float], rate: float) -> list[Line]:
    """Return the lines that are visible in at least one shown frame, in the order of `lines`.

    The rule is that of lmms-eval's `videomme_doc_to_text_subtitle`: times are truncated to frame
    numbers, and a line is visible from its first frame to the frame before its last. (lmms-eval
    collects the lines in a `set`, so their order is arbitrary.)

    Args:
        lines: All lines of the video.
        shown_times: Times of the shown frames in seconds.
        rate: Average frames per second of the video.
    """
    frames = [round(time * rate) for time in shown_times]
    return [
        line
        for line in lines
        if any(int(line.start * rate) <= frame < int(line.end * rate) for frame in frames)
    ]


def read_subtitles(path: Path, *, start: float, duration: float) -> list[Line]:
    """Read LongVideoBench's subtitles; return them with times from the start of the clip.

    A line has one of two forms: `{"timestamp": [s, e], "text": …}`, where a null end is the end of
    the clip, or `{"start": "hh:mm:ss.s", "end": …, "line": …}`.

    Args:
        path: The JSON file.
        start: Start of the clip, in seconds of the file's clock.
        duration: End of a line whose end is null, in seconds of the same clock.

    Raises:
        DataError: the file is missing, or a line has neither form.
    """
    plain = read_json(path)
    if not isinstance(plain, list):
        raise DataError(f"subtitles {path}", expected="a list", found=type(plain).__name__)
    return [
        _read_line(entry, start, duration, f"{path}, line {number}")
        for number, entry in enumerate(plain)
    ]


def _read_line(plain: object, start: float, duration: float, where: str) -> Line:
    """Return an entry of either form, with its times counted from `start`, in seconds."""
    if isinstance(plain, dict) and "timestamp" in plain:
        times = field(plain, "timestamp", list, where)
        if len(times) != 2 or type(times[0]) not in (int, float):
            raise DataError(
                f"{where}: 'timestamp'", expected="two numbers of seconds", found=repr(times)[:60]
            )
        # As in the official reader, an end that is not a float (null, or an int) is the clip's end.
        end = times[1] if isinstance(times[1], float) else duration
        return Line(times[0] - start, end - start, field(plain, "text", str, where))
    start_time, end_time = (
        _seconds(field(plain, key, str, where), where) for key in ("start", "end")
    )
    return Line(start_time - start, end_time - start, field(plain, "line", str, where))


def _seconds(text: str, where: str) -> float:
    """Convert a time such as 00:01:02.5 to seconds."""
    try:
        hours, minutes, seconds = text.split(":")
        value = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError as error:
        raise DataError(
            where, expected="a time such as 00:01:02.5", found=repr(text)[:40]
        ) from error
    return value


def interleave(times: Sequence[float], lines: Sequence[Line]) -> Iterator[str]:
    """Yield the placeholders of frames (`FRAME`) with the subtitles in between.

    A line follows the frames up to its middle. It is left out unless a frame lies strictly within
    the line or, if the line is shorter than a second, within half a second of its middle. The
    result equals `insert_subtitles_into_frames` (longvideobench/LongVideoBench, commit fc3c553).

    >>> list(interleave([0.0, 2.0, 4.0], [Line(1.5, 3.0, "hello"), Line(3.1, 3.3, "lost")]))
    ['<frame 1>', '<frame 2>', 'hello', '<frame 3>']
    """
    frame_count = 0
    for line in lines:
        middle, start, end = (line.start + line.end) / 2, line.start, line.end
        while frame_count < len(times) and times[frame_count] <= middle:
            frame_count += 1
            yield FRAME.format(number=frame_count)
        if end - start < 1:
            start, end = middle - 0.5, middle + 0.5
        if any(start < time < end for time in times):
            yield line.text
    for number in range(frame_count + 1, len(times) + 1):
        yield FRAME.format(number=number)
