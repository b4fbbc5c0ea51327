"""Ref-SAV (Yuan et al., 2025): long and short descriptions of objects in videos of SA-V.

The files have the form of ReVOS': `meta_expressions_valid.json` and `mask_dict.json`.

    {"videos": {"sav_055000": {"height": 848, "width": 480, "frames": ["00000", "00004"],
       "expressions": {"0": {"exp": "The object is …", "anno_id": [0], "type_id": 0}}}}}
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.layout import JsonFile, JsonIndex, file, folder
from harness.metrics.revos import Form, in_percent, revos_scores
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, Task, choose
from harness.tasks.revos.task import Layout, check_files, read_samples, without_object
from harness.tasks.rvos.scoring import ground_truth_of, half_sum, predicted_masks
from harness.tasks.rvos.tracks import TrackFile
from harness.tasks.rvos.videos import check_videos
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks ref_sav` says where the data is had."
TYPES = ("long", "short")
NAMES = {"J": "region similarity", "F": "boundary measure", "A": "share of right pixels"}


def ref_sav(
    data: Path,
    *,
    split: Literal["valid"] = "valid",
    protocol: str = "refsav/official",
) -> Task:
    """One sample an expression.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        protocol: `refsav/official` or `refsav/strict`, which differ in A.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "ref_sav", fix=FIX)
    meta = file(place / f"meta_expressions_{split}.json", fix=FIX)
    masks = file(place / "mask_dict.json", fix=FIX)
    videos = JsonIndex(JsonFile(meta, ("videos",)))
    layout = Layout(place, meta, videos, TrackFile(masks), None, images="videos", types=TYPES)
    return Task(
        name="ref_sav",
        version=1,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=partial(read_samples, layout),
        annotations=(meta, masks),
        check=partial(check_files, layout),
        check_samples=partial(check_videos, fault=without_object),
        arguments={"split": split, "protocol": protocol},
    )


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, form: Form) -> Scores:
    """J, F and A of one expression, under the names of its type, as ReVOS' are.

    By `binary`, a pixel that two objects of an expression share is the byte 2 in the ground truth,
    as the official script adds their masks up, so that no prediction is right there.
    """
    (sample,), (prediction,) = unit, predictions
    kind = sample.categories["type"]
    if prediction.answer is None:
        return {f"{name} {kind}": Mean(0.0) for name in NAMES}
    assert sample.target is not None, "the ground truth is public"
    predicted, extra = (
        predicted_masks(prediction.answer, ground_truth_of(sample)),
        sample.target.extra,
    )
    found = revos_scores(extra["objects"], predicted, extra["foreground"], form=form)
    return {
        f"{name} {kind}": Mean(in_percent(value) / 100)
        for name, value in zip(NAMES, found, strict=False)
    }


METRICS = (
    *(
        Metric(f"{name} {kind}", about=f"{about}, mean over {kind} expressions")
        for kind in TYPES
        for name, about in NAMES.items()
    ),
    *(
        Metric(
            name,
            inputs=tuple(f"{name} {kind}" for kind in TYPES),
            derived=half_sum,
            about=f"{about}, mean of the two types' means",
        )
        for name, about in NAMES.items()
    ),
    *(
        Metric(
            f"J&F{end}",
            inputs=(f"J{end}", f"F{end}"),
            derived=half_sum,
            about=f"mean of J and F{end}",
        )
        for end in (*(f" {kind}" for kind in TYPES), "")
    ),
)


def _protocol(name: str, form: Form, about: str) -> Protocol:
    return Protocol(
        name=name,
        score=partial(score, form=form),
        metrics=METRICS,
        headline="J&F",
        ceiling=Ceiling(value=1.0),
        about=about,
    )


PROTOCOLS = {
    "refsav/official": _protocol(
        "refsav/official",
        "binary",
        "Sa2VA's eval_ref_sav.py: masks of several objects are added up, which spoils A",
    ),
    "refsav/strict": _protocol(
        "refsav/strict", "strict", "the ground truth is the union of the objects"
    ),
}
