"""Read Sa2VA's results on videos: `results.json`, one object per video and expression.

    {"0a1b": {"0": {"video_id": "0a1b", "exp_id": "0", "frames": ["00000", "00005"], "exp": "…",
                    "text_prediction": "It is [SEG].", "prediction_masks": [{"size": …}, …]}}}

`projects/sa2va/evaluation/sa2va_eval_ref_vos.py` (commit 9832e1a) writes it; an answer without
masks has masks of zeros there. With `--submit` the script writes PNG to `Annotations` instead.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from harness.errors import DataError
from harness.formats.matching import Matched
from harness.interchange.rows import Row
from harness.layout import JsonFile, field
from harness.types import Sample


def sa2va_results(
    path: Path, samples: Sequence[Sample], requested: Collection[str] | None = None
) -> Matched:
    """Return the rows of masks, one per frame, by the sample's id `video/expression`.

    Raises:
        DataError: the file is not such an object, or its masks are of other frames.
    """
    sample_of_id = {sample.id: sample for sample in samples}
    rows, unmatched = {}, []
    for where, name, masks, frames in _expressions(path):
        if name not in sample_of_id or (requested is not None and name not in requested):
            unmatched.append(f"{where}, {name!r}")
            continue
        sample = sample_of_id[name]
        if sample.frames and frames != list(sample.frames):
            raise DataError(
                f"{where}: 'frames'",
                expected=f"the {len(sample.frames)} frames of {name!r} in their order",
                found=f"{len(frames)}, {str(frames[:3])[:60]}",
            )
        rows[name] = Row(name, "masks", masks, None, where)
    return Matched(rows, tuple(unmatched))


def _expressions(path: Path) -> Iterator[tuple[str, str, list[object], list[object]]]:
    """Yield for each expression its place in the file, its id, its masks and its frames' names."""
    for entry in JsonFile(path).entries():
        video = entry.parse()
        for number in field({entry.key: video}, str(entry.key), dict, str(path)):
            where = f"{path}, video {entry.key!r}, expression {number!r}"
            expression = field(video, number, dict, where)
            if expression.get("prediction_masks", ()) is None:
                raise DataError(
                    f"{where}: 'prediction_masks'",
                    expected="run-lengths",
                    found="null, as --submit leaves it",
                    fix="Its masks are PNG in the folder Annotations: --format png-tree.",
                )
            masks = field(expression, "prediction_masks", list, where)
            yield where, f"{entry.key}/{number}", masks, field(expression, "frames", list, where)
