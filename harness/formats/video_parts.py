"""Turn times that are parts of a video's length, such as hundredths, into seconds.

VTimeLLM writes hundredths. The commands that messages print call `in_seconds`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from harness.errors import DataError, ParseError
from harness.foreign_lines import if_in_order, renaming
from harness.layout.json_lines import parse_line, read_lines
from harness.layout.places import video_length
from harness.stated.intervals import stated_interval
from harness.types import Sample

PERCENT = 100


def in_seconds(
    path: Path | str, samples: Iterable[Sample], parts: float
) -> Iterator[dict[str, object]]:
    """Yield a file's prediction lines, whose intervals are in parts of a video, in seconds.

    Nothing is yielded before every line is known to be of a sample: a line that is left as it is
    would be scored in the wrong unit.

    Args:
        path: Lines of JSON with an id, and a pair as "answer", or a text with one as "response";
            null, or a text without one, becomes a failed sample.
        samples: The benchmark's samples.
        parts: Number of parts of a video: 100 for percentages.

    Raises:
        DataError: a line is of no sample or of another form, or its video cannot be read.
    """
    path = Path(path)
    by_id = {sample.id: sample for sample in samples}
    rows = [(parse_line(line, where), where) for where, line in read_lines(path)]
    _refuse_unknown([row for row, _ in rows], by_id, path)
    for row, where in rows:
        sample = by_id[str(row["id"])]
        pair = _pair(row, sample.query.text, where, parts)
        if pair is None:
            yield {"id": sample.id, "response": None}
            continue
        media = sample.query.media[0]
        if media.fault is not None or not media.times():
            fault = str(media.fault or "an image")
            raise DataError(where, expected="a video of known length", found=fault)
        length = video_length(media.times())
        yield {"id": sample.id, "answer": [time * length / parts for time in pair]}


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


def _refuse_unknown(
    rows: Collection[Mapping[str, object]], known_ids: Collection[str], path: Path
) -> None:
    """Raise DataError if a line has the id of no sample; the message says how to rename ids."""
    ids = [str(row.get("id")) for row in rows]
    unknown = [name for name in ids if name not in known_ids]
    if not unknown:
        return
    fix = renaming(unknown, known_ids, path.name)
    if not fix and len(unknown) == len(ids) == len(known_ids):
        fix = if_in_order("TASK", "ROOT", path.name)
    raise DataError(
        f"predictions {path}",
        expected=f"ids of the samples, such as {next(iter(known_ids), 'none')!r}",
        found=f"others in {len(unknown)} of {len(ids)} lines, such as "
        + ", ".join(map(repr, unknown[:3])),
        fix=f"No line is converted. {fix or 'Correct the ids, or remove lines of no sample.'}",
    )
