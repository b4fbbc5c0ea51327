"""Turn times that are parts of a video's length, such as hundredths, into seconds.

VTimeLLM writes hundredths. The commands that messages print call `in_seconds`.
"""

import json
from collections.abc import Iterable, Iterator

from harness.errors import DataError, ParseError
from harness.layout.places import video_length
from harness.stated.intervals import stated_interval
from harness.types import Sample


def in_seconds(
    lines: Iterable[str], samples: Iterable[Sample], parts: float
) -> Iterator[dict[str, object]]:
    """Yield prediction lines whose intervals, in parts of a video, are in seconds.

    Args:
        lines: Lines of JSON with an id, and a pair as "answer", or a text with one as "response";
            a text without one becomes a failed sample.
        samples: The benchmark's samples.
        parts: Number of parts of a video: 100 for percentages.

    Raises:
        DataError: the video of a line cannot be read.
    """
    by_id = {sample.id: sample for sample in samples}
    for number, line in enumerate(lines, start=1):
        row = json.loads(line) if line.strip() else {}
        if (sample := by_id.get(str(row.get("id")))) is None:
            if row:
                yield row  # an unknown id, which scoring names
            continue
        pair = row.get("answer")
        if isinstance(text := row.get("response"), str):
            try:
                pair = stated_interval(text, sample.query.text)
            except ParseError:
                pair = None
        if pair is None:
            yield {"id": row["id"], "response": None}
            continue
        media = sample.query.media[0]
        if media.fault is not None or not media.times():
            fault = str(media.fault or "an image")
            raise DataError(f"line {number}", expected="a video of known length", found=fault)
        length = video_length(media.times())
        yield {"id": row["id"], "answer": [time * length / parts for time in pair]}
