"""ReasonSeg in VisionReasoner's copies: one Parquet row for each question, with its mask.

The copies hold `mask.astype(bool)` of LISA's masks, in which 255 marks pixels to ignore: those
became foreground, and nothing tells them from the target any more. `is_sentence` is lost as well.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from harness.errors import UsageError
from harness.task import Protocol, Task, check_by_reading, lost_media
from harness.tasks.refer.copies import parquet_files, read_copies
from harness.tasks.refer.source import query_sample
from harness.types import Answer, AnswerForm, Sample

SERVED = ("seg/visionreasoner", "seg/segzero")


def copied_task(place: Path, split: str, protocol: Protocol, *, fix: str) -> Task:
    """The task of a copy.

    Raises:
        UsageError: the protocol needs the regions to ignore, which the copy has lost.
        DataError: the copy is not there; there is none of `train`.
    """
    files = parquet_files(place, "test", fix=fix)
    if protocol.name not in SERVED:
        raise UsageError(
            f"protocol={protocol.name}",
            expected=f"{' or '.join(SERVED)} for the copy in {place}, "
            "whose masks have ignore regions as foreground",
            found=protocol.name,
            fix=f"Ask for protocol={SERVED[0]}, or fetch LISA's own files.",
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
