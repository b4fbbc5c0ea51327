"""Turn times that are parts of a video's length, such as hundredths, into seconds.

VTimeLLM writes hundredths. The commands that messages print call `in_seconds`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from harness.errors import DataError, ParseError
from harness.layout.places import video_length
from harness.stated.intervals import stated_interval
from harness.types import Sample

PERCENT = 100


def in_seconds(
    lines: Iterable[str], samples: Iterable[Sample], parts: float
) -> Iterator[dict[str, object]]:
    """Yield prediction lines whose intervals, in parts of a video, are in seconds.

    Args:
        lines: Lines of JSON with an id, and a pair as "answer", or a text with one as "response";
            null, or a text without one, becomes a failed sample.
        samples: The benchmark's samples.
        parts: Number of parts of a video: 100 for percentages.

    Raises:
        DataError: a line is of another form, or its video cannot be read.
    """
    by_id = {sample.id: sample for sample in samples}
    for number, line in enumerate(lines, start=1):
        row = json.loads(line) if line.strip() else {}
        if not isinstance(row, dict):
            raise DataError(f"line {number}", expected="an object", found=line[:60])
        if (sample := by_id.get(str(row.get("id")))) is None:
            if row:
                yield row  # an unknown id, which scoring names
            continue
        pair = _pair(row, sample.query.text, f"line {number}", parts)
        if pair is None:
            yield {"id": row["id"], "response": None}
            continue
        media = sample.query.media[0]
        if media.fault is not None or not media.times():
            fault = str(media.fault or "an image")
            raise DataError(f"line {number}", expected="a video of known length", found=fault)
        length = video_length(media.times())
        yield {"id": row["id"], "answer": [time * length / parts for time in pair]}


def _pair(
    row: Mapping[str, object], question: str, where: str, parts: float
) -> Sequence[float] | None:
    """Return the start and the end that a line states; None for a failed sample."""
    stated = [row[key] for key in ("answer", "response") if key in row]
    if stated == [None]:
        return None
    if len(stated) == 1 and isinstance(text := row.get("response"), str):
        with suppress(ParseError):
            return stated_interval(text.replace("%", "") if parts == PERCENT else text, question)
        return None
    (pair,) = stated if len(stated) == 1 else (None,)
    if isinstance(pair, list) and len(pair) == 2 and all(type(t) in (int, float) for t in pair):
        return pair
    raise DataError(
        where, expected='"answer": [start, end], or "response": a text', found=repr(row)[:80]
    )
