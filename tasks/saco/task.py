"""SA-Co Gold and Silver (Carion et al., 2025): segment every instance of a noun phrase in an image.

A phrase may have no instance. The files have COCO's layout, but an entry of `images` is a pair of
an image and a phrase. Gold has three files per domain, by three annotators. SA-Co/VEval
(`saco_veval`) uses `instance_sample`, `entries` and `tracks_of` too.

    {"images": [{"id": 10000000, "file_name": "1/1001/a.jpeg", "text_input": "chili", "width": 600,
                 "height": 600, "is_instance_exhaustive": 1}],
     "annotations": [{"id": 1, "image_id": 10000000, "iscrowd": 0,
                      "segmentation": {"counts": "…", "size": [600, 600]}}]}
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from harness.errors import DataError
from harness.layout import JsonFile, field, file, folder, path_inside
from harness.masks import Rle
from harness.media import Media, image_or_placeholder
from harness.task import Task, check_by_reading, choose, lost_media
from harness.tasks.saco.scoring import PROTOCOLS, Track
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FIX = "`harness list tasks saco` prints the source of the data."
ANNOTATORS = "abc"
FOLDERS = {"nga_art": "nga"}
"""Image folders of SAM 3's evaluation that do not have the domain's name, by domain."""
Key = TypeVar("Key")  # what the objects of a file are grouped by
Domain = Literal[
    "metaclip",
    "sa1b",
    "crowded",
    "fg_food",
    "fg_sports_equipment",
    "attributes",
    "wiki_common",
    "bdd100k",
    "droid",
    "ego4d",
    "food_rec",
    "geode",
    "inaturalist",
    "nga_art",
    "sav",
    "yt1b",
    "fathomnet",
]


def saco(
    data: Path,
    *,
    split: Literal["gold", "silver"] = "gold",
    domain: Domain = "metaclip",
    protocol: str = "saco/official",
) -> Task:
    """One sample per pair of a picture and a phrase; statistics cluster by picture.

    Args:
        split: Gold has three annotators, Silver one.
        domain: One of seven of Gold, or of ten of Silver; a board's number is their mean.
        protocol: `saco/official` or `saco/strict`; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "saco", fix=FIX)
    endings = ["test"]
    if split == "gold":
        endings = [f"{annotator}_release_test" for annotator in ANNOTATORS]
    stem = f"{split}_{domain}" if domain == "fathomnet" else f"{split}_{domain}_merged"
    files = [file(root / split / f"{stem}_{ending}.json", fix=FIX) for ending in endings]
    images = root / "images" / FOLDERS.get(domain, domain)
    samples = partial(_samples, files, images if images.is_dir() else images.parent)
    return Task(
        name="saco",
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=scoring,
        samples=samples,
        annotations=tuple(files),
        check=partial(check_by_reading, samples, root),
        check_samples=lost_media,
        arguments={"split": split, "protocol": protocol, "domain": domain},
    )


def _samples(files: Sequence[Path], images: Path) -> Iterator[Sample]:
    """Yield the pairs whose annotation every annotator calls exhaustive, as the official evaluator.

    `files` has one file per annotator; `images` is the folder of images.
    """
    tracks_by_annotator = [tracks_of(path, _mask_of) for path in files]
    complete_ids = [set(_complete(path)) for path in files[1:]]
    for where, pair in entries(files[0], "image"):
        number = field(pair, "id", int, where)
        is_complete = pair.get("is_instance_exhaustive")
        if not is_complete or not all(number in ids for ids in complete_ids):
            continue
        width, height = field(pair, "width", int, where), field(pair, "height", int, where)
        name, phrase = field(pair, "file_name", str, where), field(pair, "text_input", str, where)
        size = max(width, 1), max(height, 1)  # of the placeholder
        media = image_or_placeholder(path_inside(images, name), size=size)
        annotators = [tracks.get(number, ()) for tracks in tracks_by_annotator]
        yield instance_sample(str(number), phrase, media, annotators, group=name, where=where)


def instance_sample(
    id: str,
    phrase: str,
    media: Media,
    annotators: Sequence[Sequence[Track]],
    *,
    group: str,
    where: str,
) -> Sample:
    """Return the sample of a phrase.

    Args:
        id: Id of the sample.
        phrase: The noun phrase.
        media: The image or video.
        annotators: The objects of each annotator, as tracks of one mask per frame. Those of the
            first are the true answer; there may be none.
        group: Cluster of dependent samples.
        where: File and entry, for messages.

    Raises:
        DataError: an object does not have one mask of the right size per frame.
    """
    (width, height), true_tracks = media.size, annotators[0]
    for track in true_tracks:
        sizes = {mask.size for mask in track}
        if len(track) != len(media) or sizes != {(width, height)}:
            raise DataError(
                where,
                expected=f"{len(media)} mask(s) of {width} × {height} pixels for each object",
                found=f"{len(track)} of {', '.join(f'{w} × {h}' for w, h in sorted(sizes))}",
            )
    empty = (Rle.empty(height, width),)
    masks_by_frame = zip(*true_tracks, strict=True) if true_tracks else [empty] * len(media)
    answer = Answer(
        masks=tuple(Rle.union(*frame_masks) for frame_masks in masks_by_frame),
        instances=tuple(true_tracks),
        no_target=not true_tracks,
    )
    form = AnswerForm.MASK if len(media) == 1 else AnswerForm.MASK_TRACK
    return Sample(
        id=id,
        query=Query(
            id=query_id(id), text=phrase.strip(), media=(media,), forms=(form,), instances=True
        ),
        target=Target(answer=answer, extra={"annotators": annotators}),
        group=group,
        categories={"there": "yes" if true_tracks else "no"},
    )


def entries(path: Path, entry_name: str, key: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (position, content) of each entry of the list `key`; by default, `entry_name` plus "s".

    Raises:
        DataError: an entry is not an object.
    """
    for entry in JsonFile(path, (key or f"{entry_name}s",)).items():
        where, plain = f"{path}, {entry_name} {entry.key}", entry.parse()
        if not isinstance(plain, dict):
            raise DataError(where, expected="one JSON object", found=type(plain).__name__)
        yield where, plain


def tracks_of(
    path: Path, read: Callable[[dict[str, object], str], tuple[Key, Track]]
) -> Mapping[Key, tuple[Track, ...]]:
    """Return a file's objects, grouped by a key; crowds are left out.

    `read` takes an annotation and its position, and returns its key and its track.
    """
    tracks_by_key: defaultdict[Key, list[Track]] = defaultdict(list)
    for where, plain in entries(path, "annotation"):
        key, track = read(plain, where)
        if not plain.get("iscrowd"):
            tracks_by_key[key].append(track)
    return {key: tuple(tracks) for key, tracks in tracks_by_key.items()}


def _complete(path: Path) -> Iterator[int]:
    """Yield the ids of the pairs that are annotated exhaustively."""
    for where, pair in entries(path, "image"):
        if pair.get("is_instance_exhaustive"):
            yield field(pair, "id", int, where)


def _mask_of(plain: dict[str, object], where: str) -> tuple[int, Track]:
    """Return the id of an annotation's pair, and its mask as a track of one frame."""
    pair, mask_where = field(plain, "image_id", int, where), f"{where}: 'segmentation'"
    if plain.get("iscrowd"):
        return pair, ()
    return pair, (Rle.from_json(plain.get("segmentation"), mask_where),)
