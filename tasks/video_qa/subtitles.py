"""Subtitles of a video: SubRip files and LongVideoBench's lists, and the lines that are shown."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError, raised_as
from harness.files import read_text
from harness.foreign import refuse_foreign
from harness.layout import field, read_json

CLOCK = re.compile(r"(\d{1,3}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})\Z")
SPOKEN = re.compile(r"""<font color="white" size=".72c">(.*?)</font>""")
MAX_BYTES = 2**26
FRAME = "<frame {number}>"
"""Placeholder for a frame between lines of subtitles; numbers begin with 1."""


@dataclass(frozen=True, slots=True)
class Line:
    """Text of a subtitle, and its times."""

    start: float
    """Seconds from the start of the video."""
    end: float
    text: str


def srt(path: Path) -> list[Line]:
    """The lines of a SubRip file, in its order.

    As lmms-eval's `load_subtitles` (commit 75571cf): parts between empty lines, of which the second
    line has the times; of two parts with equal times the last counts, at the place of the first.

    Raises:
        DataError: it is missing, no text, or a time cannot be read.
    """
    text_at: dict[tuple[float, float], str] = {}
    for number, part in enumerate(_text(path).split("\n\n"), start=1):
        rows = part.split("\n")
        if not part.strip() or len(rows) < 3:
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
    what = f"subtitles {path}"
    refuse_foreign(path, DataError, what, "a SubRip file")
    with raised_as(DataError, what, "a SubRip file", OSError, UnicodeDecodeError):
        if path.stat().st_size > MAX_BYTES:
            raise DataError(what, expected=f"at most {MAX_BYTES} bytes", found="more")
        return read_text(path, "utf-8-sig").replace("\r\n", "\n")


def _clock(text: str, where: str) -> float:
    match = CLOCK.match(text.strip())
    if match is None:
        raise DataError(where, expected="a time such as 00:01:02,500", found=repr(text)[:40])
    hours, minutes, seconds, thousandths = map(int, match.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def line_text(line: Line) -> str:
    """The words of a line; Video-MME's files have them in one `font` tag.

    >>> line_text(Line(0, 1, '<font color="white" size=".72c">hello</font>'))
    'hello'
    >>> line_text(Line(0, 1, "x"))
    'x'
    """
    texts = SPOKEN.findall(line.text)
    return str(texts[0]) if texts else line.text


def at_frames(lines: Sequence[Line], shown: Sequence[float], rate: float) -> list[Line]:
    """Return the lines that are visible in one of some frames, in their own order.

    As lmms-eval's `videomme_doc_to_text_subtitle`: times are cut to numbers of frames at the
    video's average rate, and a line holds from its first frame up to before its last. (Its `set`
    gives the lines in any order.)
    """
    frames = [round(time * rate) for time in shown]
    return [
        line
        for line in lines
        if any(int(line.start * rate) <= frame < int(line.end * rate) for frame in frames)
    ]


def read_subtitles(path: Path, *, start: float, duration: float) -> list[Line]:
    """LongVideoBench's subtitles, timed from the start of its clip.

    Two forms: `{"timestamp": [s, e], "text": …}`, whose end may be null (the clip's end), and
    `{"start": "hh:mm:ss.s", "end": …, "line": …}`.

    Raises:
        DataError: it is missing, or a line is in neither form.
    """
    plain = read_json(path)
    if not isinstance(plain, list):
        raise DataError(f"subtitles {path}", expected="a list", found=type(plain).__name__)
    return [
        _read_line(entry, start, duration, f"{path}, line {number}")
        for number, entry in enumerate(plain)
    ]


def _read_line(plain: object, start: float, duration: float, where: str) -> Line:
    if isinstance(plain, dict) and "timestamp" in plain:
        times = field(plain, "timestamp", list, where)
        if len(times) != 2 or type(times[0]) not in (int, float):
            raise DataError(
                f"{where}: 'timestamp'", expected="two numbers of seconds", found=repr(times)[:60]
            )
        # The official reader takes any end that is not a fraction for the end of the clip.
        end = times[1] if isinstance(times[1], float) else duration
        return Line(times[0] - start, end - start, field(plain, "text", str, where))
    started, ended = (_seconds(field(plain, key, str, where), where) for key in ("start", "end"))
    return Line(started - start, ended - start, field(plain, "line", str, where))


def _seconds(text: str, where: str) -> float:
    try:
        hours, minutes, seconds = text.split(":")
        value = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError as error:
        raise DataError(
            where, expected="a time such as 00:01:02.5", found=repr(text)[:40]
        ) from error
    return value


def interleave(times: Sequence[float], lines: Sequence[Line]) -> Iterator[str]:
    """Frames, as `FRAME`, and the subtitles between them, as LongVideoBench shows them.

    A line stands after the frames up to its middle, if a frame lies strictly within it (within half
    a second of its middle, if it is shorter than a second). Equal to `insert_subtitles_into_frames`
    (longvideobench/LongVideoBench, commit fc3c553).

    >>> list(interleave([0.0, 2.0, 4.0], [Line(1.5, 3.0, "hello"), Line(3.1, 3.3, "lost")]))
    ['<frame 1>', '<frame 2>', 'hello', '<frame 3>']
    """
    shown = 0
    for line in lines:
        middle, start, end = (line.start + line.end) / 2, line.start, line.end
        while shown < len(times) and times[shown] <= middle:
            shown += 1
            yield FRAME.format(number=shown)
        if end - start < 1:
            start, end = middle - 0.5, middle + 0.5
        if any(start < time < end for time in times):
            yield line.text
    for number in range(shown + 1, len(times) + 1):
        yield FRAME.format(number=number)
