"""Ref-SAV (Yuan et al., 2025): long and short descriptions of objects in videos of SA-V.

Its files, `meta_expressions_valid.json` and `mask_dict.json`, have ReVOS' layout:

    {"videos": {"sav_055000": {"height": 848, "width": 480, "frames": ["00000", "00004"],
       "expressions": {"0": {"exp": "The object is …", "anno_id": [0], "type_id": 0}}}}}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from harness.layout import file, folder
from harness.scores import Scores
from harness.task import Task, choose, official_and_strict
from harness.tasks.revos import scoring as revos
from harness.tasks.revos.task import Layout, video_format
from harness.tasks.rvos.tracks import TrackFile
from harness.tasks.rvos.videos import videos_of
from harness.types import Prediction, Sample

FIX = "`harness list tasks ref_sav` prints the source of the data."
TYPES = ("long", "short")  # of descriptions, by their `type_id`
METRIC_NAMES = ("J", "F", "A")


def ref_sav(
    data: Path,
    *,
    split: Literal["valid"] = "valid",
    protocol: str = "refsav/official",
) -> Task:
    """One sample per expression; `protocol` is `refsav/official` or `refsav/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "ref_sav", fix=FIX)
    meta = file(root / f"meta_expressions_{split}.json", fix=FIX)
    masks = file(root / "mask_dict.json", fix=FIX)
    tracks = TrackFile(masks)
    layout = Layout(root, meta, videos_of(meta), tracks, None, images="videos", types=TYPES)
    reader = video_format(layout)
    return reader.task("ref_sav", scoring, (meta, masks), split=split)


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Return J, F and A of one expression, under the names of its type, as in ReVOS.

    Without `strict`, a pixel that two objects of an expression share has the value 2 in the ground
    truth, because the official script adds their masks; no prediction is right there.
    """
    scores = revos.score(unit, predictions, form="strict" if strict else "binary")
    return {name: value for name, value in scores.items() if name[0] in METRIC_NAMES}


PROTOCOLS = official_and_strict(
    "refsav",
    score,
    metrics=revos.metrics(METRIC_NAMES, TYPES, counted=TYPES),
    headline="J&F",
    official="Sa2VA's eval_ref_sav.py: masks of several objects are added up, which makes A wrong",
    strict="the ground truth is the union of the objects",
)
