"""Read predictions in the formats of other evaluations, as rows by the id of their sample.

`harness.run.external_predictions` calls `read_format` with the value of `--format`:

| name | file |
| --- | --- |
| `jsonl` | our own JSON lines (`harness.interchange.rows`) |
| `lmms-eval` | `*_samples_*.jsonl`, or the older `<task>.json` with "logs" |
| `vlmevalkit` | its tables, `.xlsx`, `.tsv`, `.csv` or `.json`; its `.pkl` is never opened |
| `inspect` | inspect_ai's log, `.eval` or `.json` |
| `evalscope` | EvalScope's `reviews/…/*.jsonl` or `predictions/…/*.jsonl` |
| `every-eval-ever` | instances of Every Eval Ever, `…_samples.jsonl` |
| `video-mme` | the JSON of Video-MME's result files |
| `tempcompass` | its `predictions/<model>/<format>.json` |
| `blink` | its `<split>_predictions/<model>.json`, or the outputs on one task |
| `sti` | the JSON that STI-Bench's scripts write |
| `vsi` | `vsibench.json` of thinking-in-space's lmms-eval |
| `qvhighlights` | `pred_relevant_windows` per line, as QVHighlights and Moment-DETR write |
| `coco` | COCO's results: boxes or masks with scores |
| `sa2va` | `results.json` of Sa2VA's evaluation of videos |
| `perception-test` | answers as Perception Test's challenge takes them |

Most files contain responses, which `harness.formats.matching` assigns to their samples; the last
three contain boxes, masks and letters by id.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from harness.formats.coco import coco_results
from harness.formats.entries import Entry
from harness.formats.evalscope_logs import evalscope
from harness.formats.inspect_logs import inspect
from harness.formats.logs import (
    blink,
    every_eval_ever,
    lmms_eval,
    qvhighlights,
    sti,
    tempcompass,
    video_mme,
)
from harness.formats.matching import Matched, match
from harness.formats.perception_test import perception_test
from harness.formats.sa2va import sa2va_results
from harness.formats.tables import vlmevalkit
from harness.interchange.rows import AS_DOCUMENTED, RowFile, Written
from harness.types import Sample

__all__ = ["FORMATS", "ROWS", "Matched", "read_format"]

FORMATS: Mapping[str, Callable[[Path], Iterator[Entry]]] = MappingProxyType(
    {
        "lmms-eval": lmms_eval,
        "vlmevalkit": vlmevalkit,
        "inspect": inspect,
        "evalscope": evalscope,
        "every-eval-ever": every_eval_ever,
        "video-mme": video_mme,
        "tempcompass": tempcompass,
        "blink": blink,
        "sti": sti,
        "vsi": lmms_eval,
        "qvhighlights": qvhighlights,
    }
)
"""Readers of files of responses, by the value of `--format`."""

ROWS: Mapping[str, Callable[..., Matched]] = MappingProxyType(
    {"coco": coco_results, "sa2va": sa2va_results, "perception-test": perception_test}
)
"""Readers of files of boxes, masks and letters, by the value of `--format`."""


def read_format(
    name: str,
    path: Path,
    samples: Iterable[Sample],
    requested: Collection[str] | None = None,
    *,
    threshold: float | None = None,
    written: Written = AS_DOCUMENTED,
) -> Matched:
    """Return the rows of a file in one of `FORMATS` or `ROWS`, and its entries without a sample.

    Args:
        name: The format.
        path: The file.
        samples: All samples of the benchmark: in a part, an ambiguous entry may seem unique.
        requested: The ids of the samples to score; None: all.
        threshold: The score above which COCO's detections make a mask; None: 0.5.
        written: What the numbers of `jsonl` and `coco` mean.

    Raises:
        DataError: the file is not in this format, or two responses to one question differ.
        MissingDependency: a package is needed to read it.
    """
    if name == "jsonl":
        rows = RowFile(path, written)
        sample_ids = {sample.id for sample in samples} if requested is None else requested
        unknown = tuple(name for name in rows if name not in sample_ids)
        others = tuple(f"{rows.where(name)}, id {name!r}" for name in unknown)
        return Matched(rows, others, unknown=unknown)
    if name == "coco":
        return coco_results(path, list(samples), requested, threshold=threshold, written=written)
    if name in ROWS:
        return ROWS[name](path, list(samples), requested)
    return match(FORMATS[name](path), list(samples), requested)
