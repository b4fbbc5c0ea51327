"""SA-Co Gold and Silver (Carion et al., 2025): every instance of a phrase in an image, or none.

COCO's layout, in which an image is a pair of a picture and a phrase.
Gold has three files of one domain, by three annotators:

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
"""Folders of images that are not called as their domain, in SAM 3's evaluation."""
Key = TypeVar("Key")
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
    """One sample a pair of a picture and a phrase; statistics cluster by picture.

    Args:
        split: Gold has three annotators, Silver one.
        domain: One of seven of Gold, or of ten of Silver; a board's number is their mean.
        protocol: `saco/official` or `saco/strict`; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "saco", fix=FIX)
    ends = (
        [f"{annotator}_release_test" for annotator in ANNOTATORS] if split == "gold" else ["test"]
    )
    named = domain if domain == "fathomnet" else f"{domain}_merged"
    files = [file(place / split / f"{split}_{named}_{end}.json", fix=FIX) for end in ends]
    own = place / "images" / FOLDERS.get(domain, domain)
    samples = partial(_samples, files, own if own.is_dir() else own.parent)
    return Task(
        name="saco",
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=scoring,
        samples=samples,
        annotations=tuple(files),
        check=partial(check_by_reading, samples, place),
        check_samples=lost_media,
        arguments={"split": split, "protocol": protocol, "domain": domain},
    )


def _samples(files: Sequence[Path], images: Path) -> Iterator[Sample]:
    """Pairs that all annotators found to be annotated in full, as the official evaluator does."""
    truths = [tracks_of(path, _mask_of) for path in files]
    complete = [set(_complete(path)) for path in files[1:]]
    for where, pair in entries(files[0], "image"):
        number = field(pair, "id", int, where)
        if not pair.get("is_instance_exhaustive") or not all(
            number in numbers for numbers in complete
        ):
            continue
        size = field(pair, "width", int, where), field(pair, "height", int, where)
        name, phrase = field(pair, "file_name", str, where), field(pair, "text_input", str, where)
        lost = max(size[0], 1), max(size[1], 1)
        media = image_or_placeholder(path_inside(images, name), size=lost)
        annotators = [tracks.get(number, ()) for tracks in truths]
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
    """The sample of a phrase, with its objects by each annotator, of which there may be none.

    Raises:
        DataError: there are not as many masks of an object as frames, or one has another size.
    """
    (width, height), true = media.size, annotators[0]
    for track in true:
        sizes = {mask.size for mask in track}
        if len(track) != len(media) or sizes != {(width, height)}:
            raise DataError(
                where,
                expected=f"{len(media)} mask(s) of {width} × {height} pixels for each object",
                found=f"{len(track)} of {', '.join(f'{w} × {h}' for w, h in sorted(sizes))}",
            )
    frames = zip(*true, strict=True) if true else [(Rle.empty(height, width),)] * len(media)
    answer = Answer(
        masks=tuple(Rle.union(*frame) for frame in frames),
        instances=tuple(true),
        no_target=not true,
    )
    form = AnswerForm.MASK if len(media) == 1 else AnswerForm.MASK_TRACK
    return Sample(
        id=id,
        query=Query(
            id=query_id(id), text=phrase.strip(), media=(media,), forms=(form,), instances=True
        ),
        target=Target(answer=answer, extra={"annotators": annotators}),
        group=group,
        categories={"there": "yes" if true else "no"},
    )


def entries(path: Path, kind: str, key: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the place and content of each entry of the list `key`, by default `kind` and an s.

    Raises:
        DataError: an entry is not an object.
    """
    for entry in JsonFile(path, (key or f"{kind}s",)).items():
        where, plain = f"{path}, {kind} {entry.key}", entry.parse()
        if not isinstance(plain, dict):
            raise DataError(where, expected="one JSON object", found=type(plain).__name__)
        yield where, plain


def tracks_of(
    path: Path, read: Callable[[dict[str, object], str], tuple[Key, Track]]
) -> Mapping[Key, tuple[Track, ...]]:
    """Return a file's objects by the key that `read` gives; crowds are left out."""
    tracks_by_key: defaultdict[Key, list[Track]] = defaultdict(list)
    for where, plain in entries(path, "annotation"):
        key, track = read(plain, where)
        if not plain.get("iscrowd"):
            tracks_by_key[key].append(track)
    return {key: tuple(tracks) for key, tracks in tracks_by_key.items()}


def _complete(path: Path) -> Iterator[int]:
    for where, pair in entries(path, "image"):
        if pair.get("is_instance_exhaustive"):
            yield field(pair, "id", int, where)


def _mask_of(plain: dict[str, object], where: str) -> tuple[int, Track]:
    """The pair that an annotation is of, and its mask as a track of one frame."""
    pair, place = field(plain, "image_id", int, where), f"{where}: 'segmentation'"
    if plain.get("iscrowd"):
        return pair, ()
    return pair, (Rle.from_json(plain.get("segmentation"), place),)
