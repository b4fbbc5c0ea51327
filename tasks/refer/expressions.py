"""Samples of RefCOCO, RefCOCO+ and RefCOCOg in refer's own layout."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.metrics.referring import referring_mask
from harness.tasks.refer.annotations import ImageInfo, Thing, union
from harness.tasks.refer.referents import Listing, Referent, find_referents
from harness.tasks.refer.source import Source, listing_source, media_of, query_sample
from harness.types import Answer, AnswerForm, Sample


def refer_source(folder: Path, split: str, *, split_by: str, protocol: str, fix: str) -> Source:
    """Return the source of a benchmark in refer's layout; its `folder` lies beside the images.

    Raises:
        DataError: there is no file of referents.
    """
    listing = Listing(folder.parent, find_referents(folder, f"refs({split_by})", fix=fix), fix)
    return listing_source(listing, split, partial(_of_referent, listing, protocol))


def _of_referent(listing: Listing, protocol: str, referent: Referent) -> Iterator[Sample]:
    thing, image = _resolve(listing, referent)
    media, answer = media_of(image, listing.images), ground_truth(thing, image, protocol)
    category = listing.instances.categories.get(thing.category_id)
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


def _resolve(listing: Listing, referent: Referent) -> tuple[Thing, ImageInfo]:
    """Return the entry of a referent's only object, and of its image."""
    if len(referent.things) != 1:
        raise DataError(
            f"{referent.where}: 'ann_id'", expected="one object", found=str(len(referent.things))
        )
    thing = listing.instances.object_entry(referent.things[0], referent.where)
    if thing.image_id != referent.image_id:
        raise DataError(
            f"{referent.where}: 'image_id' {referent.image_id}",
            expected=f"{thing.image_id}, the image of annotation {thing.id}",
            found=str(referent.image_id),
        )
    return thing, listing.instances.image(referent.image_id, referent.where)


def ground_truth(thing: Thing, image: ImageInfo, protocol: str) -> Answer:
    """Return the ground truth of an object for a protocol.

    The mask of `res/expression` follows LISA, whose histogram counts a pixel in two polygons as
    neither foreground nor background. The other protocols take the union of the polygons. An
    object is one instance, however many polygons it has; a crowd has no instances.
    """
    if protocol.startswith("rec/"):
        return Answer(boxes=(thing.box,))
    parts = thing.parts(image)
    compat = protocol == "res/expression"
    masks = (referring_mask(parts, form="compat") if compat else union(parts),)
    boxes = (thing.box,) if protocol == "res/instance" else None
    return Answer(masks=masks, instances=None if thing.crowd else (masks,), boxes=boxes)
