"""Read VisionReasoner's copies of ReasonSeg on the hub: Parquet with one row per question.

The copies hold `mask.astype(bool)` of LISA's masks, in which 255 marks pixels to ignore: these
pixels became foreground and can no longer be told from the target. `is_sentence` is lost, too.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from harness.errors import UsageError
from harness.task import Protocol, Task, check_by_reading, lost_media
from harness.tasks.refer.copies import parquet_files, read_copies
from harness.tasks.refer.source import query_sample
from harness.types import Answer, AnswerForm, Sample

COPY_PROTOCOLS = ("seg/visionreasoner", "seg/segzero")
"""Protocols whose ground truth the copies have."""


def copied_task(root: Path, split: str, protocol: Protocol, *, fix: str) -> Task:
    """Return the task of a copy in the folder `root`.

    Raises:
        UsageError: the protocol needs the regions to ignore, which the copy does not have.
        DataError: there is no copy; `train` has none.
    """
    files = parquet_files(root, "test", fix=fix)
    if protocol.name not in COPY_PROTOCOLS:
        raise UsageError(
            f"protocol={protocol.name}",
            expected=f"{' or '.join(COPY_PROTOCOLS)} for the copy in {root}, "
            "whose masks have ignore regions as foreground",
            found=protocol.name,
            fix=f"Ask for protocol={COPY_PROTOCOLS[0]}, or fetch LISA's own files.",
        )
    samples = partial(_samples, files)
    return Task(
        name="reason_seg",
        version=2,
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=protocol,
        samples=samples,
        annotations=tuple(files),
        check=partial(check_by_reading, samples, files[0].parent),
        check_samples=lost_media,
        arguments={
            "split": split,
            "protocol": protocol.name,
            "layout": "hub",
            "ignored_regions": "foreground, a defect of the copy",
        },
    )


def _samples(files: Sequence[Path]) -> Iterator[Sample]:
    """Yield one sample for each row, with its mask."""
    for copy in read_copies(files, mask=True):
        media = copy.media()
        assert copy.mask is not None
        yield query_sample(
            copy.ann_id,
            copy.text,
            media,
            form=AnswerForm.MASK,
            answer=Answer(masks=(copy.mask,)),
            group=media.id,
        )
