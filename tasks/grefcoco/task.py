"""gRefCOCO (Liu et al., 2023): an expression may mean one object, several, or none.

Its files are those of RefCOCO, but `ann_id` is a list; [-1] means that there is no target:

    {"ref_id": 7, "ann_id": [-1], "category_id": [-1], "image_id": 1234, "split": "testA",
     "sent_ids": [9], "sentences": [{"sent_id": 9, "sent": "the blue dog", "raw": …, "tokens": …}]}
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from pycocotools import mask as coco

from harness.errors import DataError
from harness.layout import folder
from harness.masks import Rle
from harness.media import Media
from harness.metrics.generalised import SIDE, rela_polygon, rela_resize
from harness.task import Protocol, Task, choose
from harness.tasks.grefcoco.scoring import BOXED, PROTOCOLS
from harness.tasks.refer.annotations import ImageInfo, ObjectEntry, union
from harness.tasks.refer.referents import Listing, Referent, find_referents
from harness.tasks.refer.source import listing_source, media_of, query_sample
from harness.types import Answer, AnswerForm, Sample

FIX = "`harness list tasks grefcoco` prints the source of the data."


def grefcoco(
    data: Path,
    *,
    split: Literal["train", "val", "testA", "testB"] = "val",
    protocol: str = "res/rela",
    answer: Literal["mask", "box"] = "mask",
) -> Task:
    """One sample per expression.

    Args:
        protocol: `res/rela`, `res/rela_pixels`, `res/visionreasoner-nonobj` or `rec/grec`; see the
            card.
        answer: `box` asks for boxes, one an object: `rec/grec`.
    """
    name = BOXED.get(protocol, protocol) if answer == "box" else protocol
    scoring: Protocol = choose("protocol", PROTOCOLS, name)
    root = folder(data / "refer_seg", fix=FIX)
    path = find_referents(root / "grefcoco", "grefs(unc)", fix=FIX)
    listing = Listing(root, path, FIX)
    source = listing_source(listing, split, partial(_of_referent, listing, name), exact=True)
    boxed = name == "rec/grec"
    return Task(
        name="grefcoco",
        version=2,
        split=split,
        forms=(AnswerForm.BOXES if boxed else AnswerForm.MASK,),
        protocol=scoring,
        samples=source.samples,
        annotations=source.files,
        check=source.check,
        arguments={"split": split, "protocol": name, "answer": "box" if boxed else "mask"},
    )


def _of_referent(listing: Listing, protocol: str, referent: Referent) -> Iterator[Sample]:
    """Yield the sample of each expression of a referent, with the text as it was typed."""
    media, answer, square = _resolve(listing, referent, protocol)
    for sentence in referent.sentences:
        if sentence.raw is None:
            raise DataError(
                f"{referent.where}, sentence {sentence.id}", expected="'raw', a text", found="none"
            )
        yield query_sample(
            str(sentence.id),
            sentence.raw,
            media,
            form=AnswerForm.BOXES if protocol == "rec/grec" else AnswerForm.MASK,
            answer=answer,
            extra=None if square is None else {"square": square},
            group=str(referent.image_id),
            categories={"objects": _number(referent)},
        )


def _number(referent: Referent) -> str:
    """Return a referent's category: its number of objects as none, one or several."""
    if len(referent.things) > 1:
        return "several"
    return "one" if referent.things else "none"


def _resolve(
    listing: Listing, referent: Referent, protocol: str
) -> tuple[Media, Answer, Rle | None]:
    """Return (image, ground truth, true mask in 480 × 480 pixels).

    The last is None unless the protocol is `res/rela`, which scores masks at that size.
    """
    image = listing.instances.image(referent.image_id, referent.where)
    objects = [listing.instances.object_entry(number, referent.where) for number in referent.things]
    for object_ in objects:
        if object_.image_id != image.id:
            raise DataError(
                f"{referent.where}: 'ann_id' {object_.id}",
                found=str(object_.image_id),
                expected=f"an object of image {image.id}",
            )
    answer = ground_truth(objects, image, protocol, referent.where)
    square = square_mask(objects, image) if protocol == "res/rela" else None
    return media_of(image, listing.images), answer, square


def ground_truth(objects: list[ObjectEntry], image: ImageInfo, protocol: str, where: str) -> Answer:
    """Return the true answer: the objects' boxes (`rec/grec`), or their masks and the union.

    Without objects it is "no target". Crowds are left out, as by gRefCOCO's own reader.

    Raises:
        DataError: all target objects are crowds.
    """
    no_target = not objects
    boxes = tuple(object_.box for object_ in objects)
    if protocol == "rec/grec":
        return Answer(boxes=boxes, no_target=no_target)
    masks = [union(object_.parts(image)) for object_ in objects if not object_.crowd]
    if objects and not masks:
        raise DataError(
            f"{where}: 'ann_id'", expected="an object that is not a crowd", found="only crowds"
        )
    mask = union(masks) if masks else Rle.empty(image.height, image.width)
    return Answer(
        masks=(mask,),
        instances=tuple((mask,) for mask in masks),
        boxes=None if protocol.startswith("res/rela") else boxes,
        no_target=no_target,
    )


def square_mask(objects: Iterable[ObjectEntry], image: ImageInfo) -> Rle:
    """Return the union of objects, without crowds, in ReLA's image of SIDE × SIDE pixels.

    Polygons are scaled and then rasterised, as by ReLA, which reads only polygons. The mask of an
    object with a run-length is rasterised first and then resized.
    """
    masks: list[Rle] = []
    for object_ in (object_ for object_ in objects if not object_.crowd):
        pieces = object_.plain["segmentation"]
        if isinstance(pieces, dict) or any(isinstance(piece, dict) for piece in pieces):
            masks += map(rela_resize, object_.parts(image))
        else:
            scaled = [rela_polygon(piece, image.width, image.height) for piece in pieces]
            encoded = coco.frPyObjects(scaled, SIDE, SIDE) if scaled else []
            masks += [Rle(SIDE, SIDE, rle["counts"].decode("ascii")) for rle in encoded]
    return union(masks) if masks else Rle.empty(SIDE, SIDE)
