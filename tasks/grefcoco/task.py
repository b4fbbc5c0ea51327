"""gRefCOCO (Liu et al., 2023): an expression may mean one object, several, or none.

Its files are those of RefCOCO but for `ann_id`, a list, in which [-1] means that there is no
target:

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
from harness.tasks.refer.annotations import ImageInfo, Thing, union
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
    """One sample an expression.

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
    media, answer, square = _resolve(listing, referent, protocol)
    for sentence in referent.sentences:
        if sentence.raw is None:
            raise DataError(
                f"{referent.where}, sentence {sentence.id}",
                expected="'raw', a text",
                found="none",
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
    return ("none", "one")[len(referent.things)] if len(referent.things) < 2 else "several"


def _resolve(
    listing: Listing, referent: Referent, protocol: str
) -> tuple[Media, Answer, Rle | None]:
    """The image, the ground truth, and the true mask on ReLA's square where the protocol
    needs it.
    """
    image = listing.instances.image(referent.image_id, referent.where)
    things = [listing.instances.object_entry(number, referent.where) for number in referent.things]
    for thing in things:
        if thing.image_id != image.id:
            raise DataError(
                f"{referent.where}: 'ann_id' {thing.id}",
                found=str(thing.image_id),
                expected=f"an object of image {image.id}",
            )
    answer = ground_truth(things, image, protocol, referent.where)
    square = square_mask(things, image) if protocol == "res/rela" else None
    return media_of(image, listing.images), answer, square


def ground_truth(things: list[Thing], image: ImageInfo, protocol: str, where: str) -> Answer:
    """All objects' boxes, or their masks and the union; NO_TARGET where there is none.

    A crowd has no mask, as in gRefCOCO's own reader.

    Raises:
        DataError: all target objects are crowds.
    """
    nothing = not things
    boxes = tuple(thing.box for thing in things)
    if protocol == "rec/grec":
        return Answer(boxes=boxes, no_target=nothing)
    masks = [union(thing.parts(image)) for thing in things if not thing.crowd]
    if things and not masks:
        raise DataError(
            f"{where}: 'ann_id'", expected="an object that is not a crowd", found="only crowds"
        )
    mask = union(masks) if masks else Rle.empty(image.height, image.width)
    return Answer(
        masks=(mask,),
        instances=tuple((mask,) for mask in masks),
        boxes=None if protocol.startswith("res/rela") else boxes,
        no_target=nothing,
    )


def square_mask(things: Iterable[Thing], image: ImageInfo) -> Rle:
    """The union of objects on ReLA's square; crowds are left out.

    ReLA reads polygons alone; an object that is a run-length is resized.
    """
    parts: list[Rle] = []
    for thing in (thing for thing in things if not thing.crowd):
        pieces = thing.plain["segmentation"]
        if isinstance(pieces, dict) or any(isinstance(piece, dict) for piece in pieces):
            parts += map(rela_resize, thing.parts(image))
        else:
            scaled = [rela_polygon(piece, image.width, image.height) for piece in pieces]
            drawn = coco.frPyObjects(scaled, SIDE, SIDE) if scaled else []
            parts += [Rle(SIDE, SIDE, run_length["counts"].decode("ascii")) for run_length in drawn]
    return union(parts) if parts else Rle.empty(SIDE, SIDE)
