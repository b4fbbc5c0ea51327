"""Samples of RefCOCO, RefCOCO+ and RefCOCOg in the layout of the official package `refer`."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.metrics.referring import referring_mask
from harness.tasks.refer.annotations import ImageInfo, ObjectEntry, union
from harness.tasks.refer.referents import Listing, Referent, find_referents
from harness.tasks.refer.source import Source, listing_source, media_of, query_sample
from harness.types import Answer, AnswerForm, Sample


def refer_source(folder: Path, split: str, *, split_by: str, protocol: str, fix: str) -> Source:
    """Return the source of a benchmark in refer's layout; `folder` lies beside that of the images.

    Raises:
        DataError: there is no file of referents.
    """
    listing = Listing(folder.parent, find_referents(folder, f"refs({split_by})", fix=fix), fix)
    return listing_source(listing, split, partial(_of_referent, listing, protocol))


def _of_referent(listing: Listing, protocol: str, referent: Referent) -> Iterator[Sample]:
    """Yield the samples of a referent: one per expression, or the first for `…/instance`."""
    object_, image = _resolve(listing, referent)
    media, answer = media_of(image, listing.images), ground_truth(object_, image, protocol)
    category = listing.instances.categories.get(object_.category_id)
    for sentence in referent.sentences[: 1 if protocol.endswith("/instance") else None]:
        yield query_sample(
            str(sentence.id),
            sentence.text.strip().lower(),
            media,
            form=AnswerForm.BOXES if protocol.startswith("rec/") else AnswerForm.MASK,
            answer=answer,
            group=image.file_name,
            categories={"category": category} if category else None,
        )


def _resolve(listing: Listing, referent: Referent) -> tuple[ObjectEntry, ImageInfo]:
    """Return (entry of a referent's only object, entry of its image)."""
    if len(referent.things) != 1:
        raise DataError(
            f"{referent.where}: 'ann_id'", expected="one object", found=str(len(referent.things))
        )
    object_ = listing.instances.object_entry(referent.things[0], referent.where)
    if object_.image_id != referent.image_id:
        raise DataError(
            f"{referent.where}: 'image_id' {referent.image_id}",
            expected=f"{object_.image_id}, the image of annotation {object_.id}",
            found=str(referent.image_id),
        )
    return object_, listing.instances.image(referent.image_id, referent.where)


def ground_truth(object_: ObjectEntry, image: ImageInfo, protocol: str) -> Answer:
    """Return the ground truth of an object for a protocol.

    The mask of `res/expression` follows LISA, whose histogram counts a pixel in two polygons as
    neither foreground nor background. The other protocols take the union of the polygons. An
    object is one instance, however many polygons it has; a crowd has no instances.
    """
    if protocol.startswith("rec/"):
        return Answer(boxes=(object_.box,))
    piece_masks = object_.parts(image)
    as_lisa = protocol == "res/expression"
    masks = (referring_mask(piece_masks, form="compat") if as_lisa else union(piece_masks),)
    boxes = (object_.box,) if protocol == "res/instance" else None
    return Answer(masks=masks, instances=None if object_.crowd else (masks,), boxes=boxes)
