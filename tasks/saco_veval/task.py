"""SA-Co VEval (Carion et al., 2025): segment and track every instance of a noun phrase in a video.

A phrase may have no instance. The file has YouTube-VIS' layout, plus a list of pairs of a video and
a phrase. An object has one mask per frame, or null where it is not visible:

    {"videos": [{"id": 0, "file_names": ["sav_000208/00000.jpg", …], "height": 1280, "width": 720}],
     "annotations": [{"id": 167, "video_id": 0, "category_id": 1390, "iscrowd": 0,
                      "segmentations": [{"counts": "…", "size": [1280, 720]}, null, …]}],
     "video_np_pairs": [{"id": 977, "video_id": 0, "category_id": 1390,
                         "noun_phrase": "a braid", "num_masklets": 1}]}
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import field, file, folder
from harness.masks import Rle
from harness.metrics.hota import ass_a, det_a, hota, tracked
from harness.scores import Corpus, Metric, Scores
from harness.task import Task, check_by_reading, choose, lost_media, single_answer
from harness.tasks.rvos.videos import film, frame_names, frame_paths
from harness.tasks.saco.scoring import METRICS, Track, predicted_instances, protocols, score
from harness.tasks.saco.task import entries, instance_sample, tracks_of
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks saco_veval` prints the source of the data."
FRAME_FOLDERS = {
    "sav": "saco_sav/JPEGImages_24fps",
    "yt1b": "saco_yt1b/JPEGImages_6fps",
    "smartglasses": "saco_sg/JPEGImages_6fps",
}
Videos = Mapping[int, Mapping[str, object]]
"""Entries of `videos`, by id."""


def saco_veval(
    data: Path,
    *,
    split: Literal["test", "val"] = "test",
    domain: Literal["sav", "yt1b", "smartglasses"] = "sav",
    protocol: str = "veval/official",
) -> Task:
    """One sample per pair of a video and a phrase; statistics cluster by video.

    Args:
        split: `test` or `val`.
        domain: Source of the videos; a board's number is for one domain.
        protocol: `veval/official` or `veval/strict`; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "saco_veval", fix=FIX)
    path = file(root / "annotation" / f"saco_veval_{domain}_{split}.json", fix=FIX)
    samples = partial(_samples, path, root / "media" / FRAME_FOLDERS[domain])
    return Task(
        name="saco_veval",
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=samples,
        annotations=(path,),
        check=partial(check_by_reading, samples, root),
        check_samples=lost_media,
        arguments={"split": split, "protocol": protocol, "domain": domain},
    )


def _samples(path: Path, frames: Path) -> Iterator[Sample]:
    """Yield the sample of each pair of a video and a phrase; `frames` is the folder of videos."""
    videos = {field(entry, "id", int, where): entry for where, entry in entries(path, "video")}
    tracks = tracks_of(path, partial(_track_of, videos))
    for where, plain in entries(path, "pair", "video_np_pairs"):
        video, pair = _video_of(videos, plain, where)
        names = frame_names(video.get("file_names"), where)
        size = field(video, "width", int, where), field(video, "height", int, where)
        yield instance_sample(
            str(field(plain, "id", int, where)),
            field(plain, "noun_phrase", str, where),
            film(frame_paths(frames, names, suffix=""), size=partial(_return_size, size)),
            [tracks.get(pair, ())],
            group=str(names[0]).rpartition("/")[0],
            where=where,
        )


def _return_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return `size`; `film` takes a function for a placeholder's size."""
    return size


def _video_of(
    videos: Videos, plain: Mapping[str, object], where: str
) -> tuple[Mapping[str, object], tuple[int, int]]:
    """Return (video, (video id, category id)) of an entry; the two ids identify its pair."""
    number = field(plain, "video_id", int, where)
    if number not in videos:
        raise DataError(f"{where}: 'video_id'", expected="a video's id", found=str(number))
    return videos[number], (number, field(plain, "category_id", int, where))


def _track_of(
    videos: Videos, plain: Mapping[str, object], where: str
) -> tuple[tuple[int, int], Track]:
    """Return (key of an annotation's pair, its masks, one per frame); a crowd has no masks."""
    video, pair = _video_of(videos, plain, where)
    empty = Rle.empty(field(video, "height", int, where), field(video, "width", int, where))
    masks = [] if plain.get("iscrowd") else field(plain, "segmentations", list, where)
    where = f"{where}: 'segmentation'"
    return pair, tuple(empty if rle is None else Rle.from_json(rle, where) for rle in masks)


def score_tracks(
    unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool
) -> Scores:
    """Return the counts for cgF1 and for HOTA; HOTA uses instances with a score above 0.5."""
    _, target, prediction = single_answer(unit, predictions)
    (true,) = target.extra["annotators"]
    items = Corpus((dict(tracked(true, predicted_instances(prediction, above=True))),))
    return {
        **score(unit, predictions, strict=strict),
        **dict.fromkeys(("pHOTA", "pDetA", "pAssA"), items),
    }


PROTOCOLS = protocols(
    "veval",
    score_tracks,
    (
        *METRICS,
        Metric("pHOTA", corpus=hota, about="HOTA of pairs of video and phrase, apart"),
        Metric("pDetA", corpus=det_a, about="its detection"),
        Metric("pAssA", corpus=ass_a, about="its association"),
    ),
    about="SAM 3's saco_veval_eval.py with masks: IoU over all frames, 0.5 to 0.95, and pHOTA",
)
