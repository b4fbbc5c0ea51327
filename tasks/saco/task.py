"""SA-Co Gold and Silver (Carion et al., 2025): every instance of a phrase in an image, or none.

COCO's layout, in which an image is a pair of a picture and a phrase.
Gold has three files of one domain, by three annotators:

    {"images": [{"id": 10000000, "file_name": "1/1001/a.jpeg", "text_input": "chili", "width": 600,
                 "height": 600, "is_instance_exhaustive": 1}],
     "annotations": [{"id": 1, "image_id": 10000000, "iscrowd": 0,
                      "segmentation": {"counts": "…", "size": [600, 600]}}]}
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, MaskError, MediaError, ParseError
from harness.layout import JsonFile, field, file, folder, path_inside
from harness.masks import Rle
from harness.media import Media, open_image, placeholder_media
from harness.task import Task, check_by_reading, choose, lost_media
from harness.tasks.saco.scoring import PROTOCOLS, Track
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

__all__ = ["PROTOCOLS", "saco"]

FIX = "`harness list tasks saco` says where the data is had."
ANNOTATORS = "abc"
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
        data: The folder that holds one folder a benchmark.
        split: Gold has three annotators, Silver one.
        domain: One of seven of Gold, or of ten of Silver; a board's number is their mean.
        protocol: `saco/official` or `saco/strict`; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "saco", fix=FIX)
    ends = [f"{one}_release_test" for one in ANNOTATORS] if split == "gold" else ["test"]
    named = domain if domain == "fathomnet" else f"{domain}_merged"
    files = [file(place / split / f"{split}_{named}_{end}.json", fix=FIX) for end in ends]
    samples = partial(_samples, files, place / "images")
    return Task(
        name="saco",
        version=1,
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
    truths = [_tracks_of(path) for path in files]
    complete = [_complete(path) for path in files[1:]]
    for entry in JsonFile(files[0], ("images",)).items():
        where = f"{files[0]}, image {entry.key}"
        pair = entry.parse()
        number = field(pair, "id", int, where)
        if not pair.get("is_instance_exhaustive") or not all(number in one for one in complete):
            continue
        size = field(pair, "width", int, where), field(pair, "height", int, where)
        name, phrase = field(pair, "file_name", str, where), field(pair, "text_input", str, where)
        try:
            media = open_image(path_inside(images, name))
        except MediaError as error:
            media = placeholder_media(error, size=(max(size[0], 1), max(size[1], 1)))
        annotators = [one.get(number, ()) for one in truths]
        yield instance_sample(
            str(number),
            phrase,
            media,
            annotators[0],
            extra={"annotators": annotators},
            group=name,
            where=where,
        )


def instance_sample(
    id: str,
    phrase: str,
    media: Media,
    true: Sequence[Track],
    *,
    extra: Mapping[str, object],
    group: str,
    where: str,
) -> Sample:
    """The sample of a phrase, with its objects, of which there may be none.

    Raises:
        DataError: there are not as many masks of an object as frames, or one has another size.
    """
    width, height = media.size
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
        target=Target(answer=answer, extra=extra),
        group=group,
        categories={"there": "yes" if true else "no"},
    )


def _complete(path: Path) -> frozenset[int]:
    pairs = ((entry.key, entry.parse()) for entry in JsonFile(path, ("images",)).items())
    return frozenset(
        field(pair, "id", int, f"{path}, image {key}")
        for key, pair in pairs
        if pair.get("is_instance_exhaustive")
    )


def _tracks_of(path: Path) -> Mapping[int, tuple[Track, ...]]:
    """Objects by pair, as tracks of one frame; masks of several objects are left out."""
    found: defaultdict[int, list[Track]] = defaultdict(list)
    for entry in JsonFile(path, ("annotations",)).items():
        where = f"{path}, annotation {entry.key}"
        plain = entry.parse()
        if not plain.get("iscrowd"):
            track = (mask_of(plain.get("segmentation"), where),)
            found[field(plain, "image_id", int, where)].append(track)
    return {number: tuple(tracks) for number, tracks in found.items()}


def mask_of(value: object, where: str) -> Rle:
    """A mask of a file.

    Raises:
        DataError: it is no run-length.
    """
    try:
        return Rle.from_json(value, f"{where}: 'segmentation'")
    except (MaskError, ParseError) as error:
        raise DataError(str(error)) from error
