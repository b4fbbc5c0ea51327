"""Read the copies of RefCOCO's family on the Hugging Face Hub: VisionReasoner's and lmms-lab's."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.layout import rows
from harness.media import Media, image_or_placeholder
from harness.task import check_by_reading, lost_media
from harness.tasks.refer.copies import Copy, parquet_files, read_copies
from harness.tasks.refer.source import Source, query_sample
from harness.types import Answer, AnswerForm, Box, Sample

LMMS_COLUMNS = {"question_id": "id", "image": "image", "answer": "expressions", "bbox": "box"}


def copies_source(folder: Path, *, protocol: str, fix: str) -> Source:
    """Return the source of VisionReasoner's copy in `folder`; ids are `ann_id/expression number`.

    Raises:
        DataError: there is no such copy.
    """
    files = parquet_files(folder, "test", fix=fix)
    samples = partial(_copied_samples, files, protocol)
    check = partial(check_by_reading, samples, files[0].parent)
    return Source(tuple(files), samples, check, lost_media)


def _copied_samples(files: Sequence[Path], protocol: str) -> Iterator[Sample]:
    """Yield one sample for each row, with the box or the mask that the protocol needs."""
    boxes_only = protocol.startswith("rec/")
    needs_box = boxes_only or protocol == "res/instance"
    n_seen: Counter[str] = Counter()
    for copy in read_copies(files, mask=not boxes_only, boxes=needs_box):
        media = copy.media()
        yield query_sample(
            f"{copy.ann_id}/{n_seen[copy.ann_id]}",
            copy.text,
            media,
            form=AnswerForm.BOXES if boxes_only else AnswerForm.MASK,
            answer=_ground_truth(copy, needs_box=needs_box),
            group=media.id,
        )
        n_seen[copy.ann_id] += 1


def _ground_truth(copy: Copy, *, needs_box: bool) -> Answer:
    """Return a row's mask, if it was read, and its box, if it is needed, as the true answer."""
    if needs_box and len(copy.boxes) != 1:
        raise DataError(f"{copy.where}: 'bbox'", expected="one box", found=str(len(copy.boxes)))
    masks = None if copy.mask is None else (copy.mask,)
    return Answer(
        masks=masks,
        instances=None if masks is None else (masks,),
        boxes=copy.boxes if needs_box else None,
    )


def lmms_source(folder: Path, split: str, *, fix: str) -> Source:
    """Return the source of lmms-lab's copy in `folder`; ids are `question_id/expression number`.

    The copy has boxes, but no masks.

    Raises:
        DataError: there is no such copy.
    """
    files = parquet_files(folder, split, fix=fix)
    samples = partial(_exploded_samples, files)
    check = partial(check_by_reading, samples, files[0].parent)
    return Source(tuple(files), samples, check, lost_media)


def _exploded_samples(files: Sequence[Path]) -> Iterator[Sample]:
    """Yield one sample for each expression of each row."""
    for path in files:
        for row_number, row in enumerate(rows(path, LMMS_COLUMNS)):
            where = f"{path}, row {row_number}"
            id, box, sentences = _lmms_row(row, where)
            media = _lmms_media(row, where)
            for sentence_number, text in enumerate(sentences):
                yield query_sample(
                    f"{id}/{sentence_number}",
                    text.strip().lower(),
                    media,
                    form=AnswerForm.BOXES,
                    answer=Answer(boxes=(box,)),
                    group=media.id,
                )


def _lmms_row(row: Mapping[str, Any], where: str) -> tuple[str, Box, list[str]]:
    """Return (id, box in pixels, expressions) of a row, whose `bbox` is [x, y, width, height]."""
    id, bbox, sentences = row["question_id"], row["bbox"], row["answer"]
    if not isinstance(id, str) or not id:
        raise DataError(f"{where}: 'question_id'", expected="text", found=repr(id)[:40])
    if not isinstance(sentences, list) or not all(isinstance(text, str) for text in sentences):
        raise DataError(f"{where}: 'answer'", expected="texts", found=repr(sentences)[:60])
    is_valid = (
        isinstance(bbox, list)
        and len(bbox) == 4
        and all(isinstance(side, float) and abs(side) < 2**31 for side in bbox)
    )
    if not is_valid or bbox[2] <= 0 or bbox[3] <= 0:
        raise DataError(
            f"{where}: 'bbox'", expected="[x, y, width, height] with area", found=repr(bbox)[:60]
        )
    x, y, width, height = bbox
    return id, Box(x, y, x + width, y + height), sentences


def _lmms_media(row: Mapping[str, object], where: str) -> Media:
    """Return the image of a row, or a placeholder if it cannot be decoded."""
    encoded = row["image"].get("bytes") if isinstance(row["image"], dict) else None
    if not isinstance(encoded, bytes):
        raise DataError(f"{where}: 'image'", expected="an image's bytes", found=repr(encoded)[:40])
    return image_or_placeholder(encoded, f"of {where}")
