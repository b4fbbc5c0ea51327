"""The overlap of evaluated samples with those that a checkpoint was trained on.

A training lists its samples (`TrainedSample`) in its folder and in its checkpoint's. Evaluations
read the lists of a model's checkpoints (`samples_of_model`), compare them with a task's samples
(`measure_contamination`), and record the `Contamination` beside the scores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.errors import StoreError, UsageError, counted, raised_as
from harness.media import Media
from harness.plain import from_plain
from harness.record import Run
from harness.run.batching import Selection, samples_of
from harness.run.checkpoint_provenance import write_origins
from harness.run.perceptual_hash import (
    ASKED,
    UNLIKE,
    PerceptualIndex,
    differing_bits,
    media_hashes,
)
from harness.run.training_record import (
    ADAPTER,
    COPIED,
    SAMPLES,
    TrainedSample,
    read_samples,
    training_folder,
)
from harness.spec import Spec, parse
from harness.store.atomic import json_bytes, read_json
from harness.store.checksums import TRAINED_ON, write_later
from harness.task import Task
from harness.trainer import CHECKPOINT
from harness.types import Sample

SHOWN = 3  # ids that an overlap names


@dataclass(frozen=True, slots=True)
class Contamination:
    """Numbers of evaluated samples that match training samples, by the kind of match."""

    n_total: int
    samples: int
    """Samples that were training samples themselves."""
    images: int
    """Samples whose image or video was trained on, those of `samples` included."""
    examples: tuple[str, ...]
    """Ids of a few of `samples`, or else of `images`, `alike` or `scans`."""
    alike: int = 0
    """Further samples whose image, or a frame of whose video, looks like a training image of
    another name, with another question."""
    scans: int = 0
    """Further samples that show a scan of ScanNet that was trained on, in other images."""

    def __post_init__(self) -> None:
        """Raise ValueError for a number below 0 or above that of all samples."""
        n_by_key = (self.samples, self.images, self.alike, self.scans)
        if not all(0 <= count <= self.n_total for count in n_by_key):
            raise ValueError(f"expected numbers of {self.n_total} samples, found {n_by_key}")

    @property
    def is_any(self) -> bool:
        """Return True if any sample or image was trained on."""
        return bool(self.images or self.alike or self.scans)

    def __str__(self) -> str:
        if not self.is_any:
            return "no sample and no image of it was trained on"
        further_text = f"; {self.alike} more look like images that were" if self.alike else ""
        further_text += f"; {self.scans} more show scans of ScanNet that were" if self.scans else ""
        return (
            f"{self.samples} of {counted(self.n_total, 'sample')}, and images of {self.images}, "
            f"were trained on{further_text} ({', '.join(self.examples)}, …)"
        )


def measure_contamination(
    rows: Iterable[TrainedSample], task: Task, selection: Selection | None = None
) -> Contamination:
    """Compare training samples with the samples of a task.

    Ids are compared first. Then the images of the other samples are decoded and compared by
    perceptual hash, which finds an image under the name of another benchmark too; with the same
    question it is the same sample. Of a video, several frames are compared. Last, samples that name
    the same scan of ScanNet are counted, because they show the same room.

    Two splits may number their samples alike and ask the same question of all. So a sample with the
    id and the question of a training sample of another split is another sample if both show still
    images under different names, all of these have hashes, and no two of them are near.

    Args:
        rows: The training samples.
        task: The task.
        selection: The evaluated samples; None: all.
    """
    trained = list(rows)
    chosen = Selection(None, None) if selection is None else selection
    if not trained:
        return Contamination(sum(1 for _ in chosen.samples(task)), 0, 0, ())
    trained_samples: dict[tuple[object, ...], list[TrainedSample]] = {}
    for row in trained:
        trained_samples.setdefault(row.same_sample, []).append(row)
    trained_images = {row.same_image for row in trained}
    n_total, same, shared = 0, [], []
    others: dict[str, TrainedSample] = {}
    namesakes: dict[str, list[TrainedSample]] = {}
    for sample in chosen.samples(task):
        row = TrainedSample.of_sample(task, sample)
        n_total += 1
        matches = trained_samples.get(row.same_sample, [])
        is_shared = row.same_image in trained_images
        if matches and (is_shared or not _are_told_apart_by_images(sample, task, matches)):
            same.append(row.id)
            shared.append(row.id)
        elif is_shared:
            shared.append(row.id)
        else:
            others[row.id] = row
            namesakes[row.id] = matches
    # Read again: the media of all samples would take more memory than their rows.
    media = (
        (sample.group, sample.query.media) for sample in chosen.samples(task) if sample.id in others
    )
    same_question, alike = _shared_images(trained, list(others.values()), media, namesakes)
    same, shared = [*same, *same_question], [*shared, *same_question]
    matched = {*same_question, *alike}
    scans = _shared_scans(trained, [row for name, row in others.items() if name not in matched])
    examples = tuple((same or shared or alike or scans)[:SHOWN])
    return Contamination(n_total, len(same), len(shared), examples, len(alike), len(scans))


def _are_told_apart_by_images(
    sample: Sample, task: Task, namesakes: Iterable[TrainedSample]
) -> bool:
    """Return True if training samples with the id of a sample are of other splits, and all show
    still images with hashes. Of videos other frames may have been hashed.
    """
    is_still = not any(media.is_video for media in sample.query.media)
    return is_still and all(row.split != task.split and row.has_image_hashes for row in namesakes)


def _are_unlike(sample: TrainedSample, namesakes: Iterable[TrainedSample]) -> bool:
    """Return True if each image of a sample is certainly unlike those of training samples."""
    return sample.has_image_hashes and all(
        differing_bits(digest, trained) >= UNLIKE
        for row in namesakes
        for trained in row.images
        for digest in sample.images
    )


def _shared_images(
    trained: Sequence[TrainedSample],
    others: Sequence[TrainedSample],
    media: Iterable[tuple[str, tuple[Media, ...]]],
    namesakes: Mapping[str, Sequence[TrainedSample]],
) -> tuple[list[str], list[str]]:
    """Find samples whose images look like training images.

    Args:
        trained: The training samples, with perceptual hashes.
        others: The samples to compare.
        media: (group, media) of each of `others`.
        namesakes: For the id of each of `others`, the training samples with its id and question.
            They are the same sample unless their images are unlike.

    Returns:
        Ids of samples with the same question as a training sample with this image, and of others.
    """
    images = PerceptualIndex(digest for row in trained for digest in row.images)
    if not len(images):
        return [], []
    images_by_question: dict[str, list[str]] = {}
    for row in trained:
        images_by_question.setdefault(row.question, []).extend(row.images)
    same_question: list[str] = []
    alike: list[str] = []
    for row, hashes in zip(others, media_hashes(media, ASKED), strict=True):
        matches = namesakes[row.id]
        if matches and not _are_unlike(replace(row, images=hashes), matches):
            same_question.append(row.id)
        elif any(digest in images for digest in hashes):
            with_question = PerceptualIndex(images_by_question.get(row.question, ()))
            is_same = any(digest in with_question for digest in hashes)
            (same_question if is_same else alike).append(row.id)
    return same_question, alike


def _shared_scans(trained: Iterable[TrainedSample], others: Iterable[TrainedSample]) -> list[str]:
    """Return ids of samples that show a scan of ScanNet that was trained on."""
    scans = {row.scan for row in trained} - {None}
    return [row.id for row in others if row.scan in scans]


def with_images(rows: Iterable[TrainedSample], task: Task) -> Iterator[TrainedSample]:
    """Yield the rows of a task's samples, in order, with the perceptual hashes of their images."""
    all_hashes = media_hashes((sample.group, sample.query.media) for sample in samples_of(task))
    for row, hashes in zip(rows, all_hashes, strict=True):
        yield replace(row, images=hashes)


def samples_of_checkpoint(checkpoint: Path) -> list[TrainedSample] | None:
    """Read the samples that a checkpoint was trained on; None if it has no list of them.

    Args:
        checkpoint: A training folder, or a checkpoint's own. A finished checkpoint also lists
            the samples of the one that it began from.
    """
    for path in (
        checkpoint / CHECKPOINT / COPIED[SAMPLES],
        checkpoint / COPIED[SAMPLES],
        checkpoint / SAMPLES,
    ):
        if path.is_file():
            return read_samples(path)
    return None


def samples_of_model(model: Spec | None) -> list[TrainedSample] | None:
    """Read the samples that the checkpoints in a model's SPEC were trained on; None if no lists."""
    recorded = [
        rows for folder in checkpoints(model) if (rows := samples_of_checkpoint(folder)) is not None
    ]
    return [row for rows in recorded for row in rows] if recorded else None


def checkpoints(model: Spec | None) -> Iterator[Path]:
    """Yield the folders that a model's SPEC names as `checkpoint=…`, at any depth.

    For an adapter, this is the folder of the training that it lies in, or else its own.
    """
    for name, value in (model.arguments if model is not None else {}).items():
        if isinstance(value, Spec):
            yield from checkpoints(value)
        elif name == "checkpoint" and value is not None and Path(str(value)).is_dir():
            yield Path(str(value))
        elif name == ADAPTER and value is not None and Path(str(value)).is_dir():
            yield training_folder(Path(str(value)))


def write_contamination(run: Path, contamination: Contamination) -> None:
    """Write the overlap of a run's samples with training samples beside its scores."""
    write_later(run, TRAINED_ON, json_bytes(asdict(contamination)))


def write_contamination_and_origins(run: Path, contamination: Contamination) -> None:
    """Write the overlap of a run's samples with training samples, and the trainings' origins.

    The trainings are those of the checkpoints that the run's model names
    (`harness.run.checkpoint_provenance`).
    """
    write_contamination(run, contamination)
    write_origins(run, checkpoints(parse(Run(run).manifest["model"]["spec"])))


def read_contamination(run: Path) -> Contamination | None:
    """Read the overlap that `write_contamination` wrote; None if there is no such file.

    Raises:
        StoreError: the file has another content.
    """
    path = run / TRAINED_ON
    if not path.is_file():
        return None
    with raised_as(StoreError, f"file {path}", "how much was trained on", ValueError):
        return from_plain(Contamination, read_json(path))


def refuse_contamination(overlaps: Mapping[str, Contamination]) -> None:
    """Raise UsageError if some evaluated samples are in the training data."""
    for name, overlap in overlaps.items():
        if overlap.is_any:
            raise UsageError(
                f"--strict-split: {name}",
                expected="nothing that is trained on",
                found=str(overlap),
                fix="Name another split or task, or leave --strict-split out to have it flagged.",
            )
