"""The samples that a checkpoint was trained on, and their overlap with evaluated samples."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import StoreError, UsageError, counted, raised_as
from harness.media import Media
from harness.plain import from_plain
from harness.record import Run, read_fields
from harness.run import checkpoint_provenance
from harness.run.batching import Selection, samples_of
from harness.run.checkpoint_provenance import write_origins
from harness.run.perceptual_hash import ASKED, PerceptualIndex, media_hashes
from harness.spec import Spec, parse
from harness.store.atomic import json_bytes, read_json, write_bytes
from harness.store.checksums import TRAINED_ON, write_later
from harness.task import Task
from harness.trainer import CHECKPOINT, Curve
from harness.trainer import CURVE as CURVE_FILE
from harness.types import Sample

VERSION = 1
GROUND_TRUTH = 2  # 1: connected parts of masks, where a benchmark tells instances apart
MANIFEST, SAMPLES = checkpoint_provenance.MANIFEST, "samples.jsonl"
COPIED = {MANIFEST: checkpoint_provenance.INSIDE, SAMPLES: "harness_samples.jsonl"}
"""Names of both files inside the checkpoint, whose folder alone lists its training samples."""
FIELDS = ("version", "method", "model", "tasks", "seed", "provenance", "config_hash")
ADAPTER = "adapter"
"""The folder of a training with LoRA that has its adapter, and the argument that names one."""
SHOWN = 3  # ids that an overlap names
SCAN = re.compile(r"(?:.*/)?(scene\d{4}_\d{2})(?:\.\w+)?")
"""A group that ends with the name of a scan of ScanNet, which its many benchmarks keep. Names of
other sources are numbers, or words that benchmarks choose alike for what is not the same."""


@dataclass(frozen=True, slots=True)
class TrainedSample:
    """One sample that was trained on, with the fields by which it is found again."""

    task: str
    split: str
    id: str
    group: str
    size: tuple[int, ...]
    """(width, height, frames) of its media, one after the other. The frames are not compared:
    their number depends on a task's arguments."""
    question: str
    """A hash of its text."""
    images: tuple[str, ...] = ()
    """Perceptual hashes of its media, several of a video (`harness.run.perceptual_hash`); none for
    images too plain to be told from others. Trainings that were made earlier have the hash of a
    video's middle frame alone, or none.
    """

    @classmethod
    def of_sample(cls, task: Task, sample: Sample) -> "TrainedSample":
        """Make the row of a sample."""
        size = tuple(number for media in sample.query.media for number in (*media.size, len(media)))
        text = hashlib.blake2b(sample.query.text.encode(), digest_size=8).hexdigest()
        return cls(task.name, task.split, sample.id, sample.group, size, text)

    @property
    def shape(self) -> tuple[int, ...]:
        """(width, height) of its media, one after the other."""
        return tuple(number for place, number in enumerate(self.size) if place % 3 < 2)

    @property
    def same_sample(self) -> tuple[object, ...]:
        """Equal for equal samples. The split does not count: two splits may share a sample. Text,
        width and height do: two splits may number theirs alike.
        """
        return self.task, self.id, self.question, self.shape

    @property
    def same_image(self) -> tuple[object, ...]:
        """Equal for questions about the same image or video of a benchmark."""
        return self.task, self.group, self.shape

    @property
    def scan(self) -> str | None:
        """The scan of ScanNet that it shows, equal in all benchmarks; None if it names none."""
        named = SCAN.fullmatch(self.group)
        return named[1] if named else None


@dataclass(frozen=True, slots=True)
class Contamination:
    """Numbers of evaluated samples that were trained on, by the way in which they match."""

    n_total: int
    samples: int
    """Samples that were trained on themselves."""
    images: int
    """Samples whose image or video was trained on, those of `samples` among them."""
    examples: tuple[str, ...]
    """Ids of a few of `samples`, or of `images`, `alike` or `scans` if there are none."""
    alike: int = 0
    """Further samples, whose image or a frame of whose video looks like one that was trained on
    under another name, with other questions."""
    scans: int = 0
    """Further samples, which show a scan of ScanNet that was trained on, in other images."""

    def __post_init__(self) -> None:
        """Refuse a number above that of all samples, or below 0.

        Raises:
            ValueError: there is one.
        """
        counts = (self.samples, self.images, self.alike, self.scans)
        if not all(0 <= count <= self.n_total for count in counts):
            raise ValueError(f"expected numbers of {self.n_total} samples, found {counts}")

    @property
    def is_any(self) -> bool:
        """Return True if any sample or image was trained on."""
        return bool(self.images or self.alike or self.scans)

    def __str__(self) -> str:
        if not self.is_any:
            return "no sample and no image of it was trained on"
        named = ", ".join(self.examples)
        more = f"; {self.alike} more look like images that were" if self.alike else ""
        more += f"; {self.scans} more show scans of ScanNet that were" if self.scans else ""
        return (
            f"{self.samples} of {counted(self.n_total, 'sample')}, and images of {self.images}, "
            f"were trained on{more} ({named}, …)"
        )


def measure_contamination(
    rows: Iterable[TrainedSample], task: Task, selection: Selection | None = None
) -> Contamination:
    """Compare the samples that were trained on with those of a task.

    Native ids are compared first. Then the images of the other samples are decoded, and compared by
    perceptual hash: the same image is found under the names of other benchmarks too, and with
    the same question it is the same sample, such as one of ReasonSeg in a training set that is
    drawn from it. A video is compared by frames of it, with other videos and with images. Last,
    samples that name the same scan of ScanNet show the same room.
    """
    known = list(rows)
    chosen = Selection(None, None) if selection is None else selection
    if not known:
        return Contamination(sum(1 for _ in chosen.samples(task)), 0, 0, ())
    seen = {row.same_sample for row in known}
    images = {row.same_image for row in known}
    n_total, same, shared = 0, [], []
    others: dict[str, TrainedSample] = {}
    for sample in chosen.samples(task):
        row = TrainedSample.of_sample(task, sample)
        n_total += 1
        if row.same_sample in seen:
            same.append(row.id)
        if row.same_sample in seen or row.same_image in images:
            shared.append(row.id)
        else:
            others[row.id] = row
    # Read again: the media of all samples would take more memory than their rows.
    media = (
        (sample.group, sample.query.media) for sample in chosen.samples(task) if sample.id in others
    )
    again, alike = _shared_images(known, list(others.values()), media)
    same, shared = [*same, *again], [*shared, *again]
    matched = {*again, *alike}
    scans = _shared_scans(known, [row for name, row in others.items() if name not in matched])
    named = tuple((same or shared or alike or scans)[:SHOWN])
    return Contamination(n_total, len(same), len(shared), named, len(alike), len(scans))


def _shared_images(
    known: Sequence[TrainedSample],
    others: Sequence[TrainedSample],
    media: Iterable[tuple[str, tuple[Media, ...]]],
) -> tuple[list[str], list[str]]:
    """Return ids of samples that show a known image: with the same question, and with others."""
    images = PerceptualIndex(digest for row in known for digest in row.images)
    if not len(images):
        return [], []
    images_by_question: dict[str, list[str]] = {}
    for row in known:
        images_by_question.setdefault(row.question, []).extend(row.images)
    again: list[str] = []
    alike: list[str] = []
    for row, hashes in zip(others, media_hashes(media, ASKED), strict=True):
        if any(digest in images for digest in hashes):
            questioned = PerceptualIndex(images_by_question.get(row.question, ()))
            matches = again if any(digest in questioned for digest in hashes) else alike
            matches.append(row.id)
    return again, alike


def _shared_scans(known: Iterable[TrainedSample], others: Iterable[TrainedSample]) -> list[str]:
    """Return ids of samples that show a scan of ScanNet which was trained on."""
    scans = {row.scan for row in known} - {None}
    return [row.id for row in others if row.scan in scans]


def with_images(rows: Iterable[TrainedSample], task: Task) -> Iterator[TrainedSample]:
    """Yield the rows of a task's samples, in order, with the perceptual hashes of their images."""
    shown = media_hashes((sample.group, sample.query.media) for sample in samples_of(task))
    for row, hashes in zip(rows, shown, strict=True):
        yield replace(row, images=hashes)


def trained_on(checkpoint: Path) -> list[TrainedSample] | None:
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


def trained_by(model: Spec | None) -> list[TrainedSample] | None:
    """Read the samples that the checkpoints in a model's SPEC were trained on; None if no lists."""
    recorded = [rows for folder in checkpoints(model) if (rows := trained_on(folder)) is not None]
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


def training_folder(adapter: Path) -> Path:
    """Return the folder of the training that an adapter's folder lies in; the same if in none.

    A training's folder stands for the adapter in it, as for the checkpoint in it.
    """
    around = adapter.resolve().parent
    inside = adapter.resolve().name == ADAPTER and (around / MANIFEST).is_file()
    return around if inside else adapter


def write_contamination(run: Path, contamination: Contamination) -> None:
    """Write the overlap of a run's samples with training samples beside its scores."""
    write_later(run, TRAINED_ON, json_bytes(asdict(contamination)))


def write_trainings(run: Path, contamination: Contamination) -> None:
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


@dataclass(frozen=True)
class Training:
    """A training folder, for reading."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> "Training":
        """Open a training folder; raise StoreError if it is none, or of another version."""
        training = cls(folder)
        assert training.manifest, "it was read and checked"
        return training

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The model, method and tasks of the training; raises StoreError for another content."""
        plain = read_fields(self.folder / MANIFEST, FIELDS)
        if plain["version"] != VERSION:
            raise StoreError(
                f"training {self.folder}",
                expected=f"version {VERSION}",
                found=repr(plain["version"])[:40],
            )
        return plain

    @property
    def is_finished(self) -> bool:
        """Return True if the training has ended, and the checkpoint is that of its last step."""
        return "result" in self.manifest

    @property
    def checkpoint(self) -> Path:
        """The trained network's folder."""
        return self.folder / CHECKPOINT

    @property
    def curve(self) -> Curve:
        """The training's curve of logged values."""
        return Curve(self.folder / CURVE_FILE)

    def samples(self) -> list[TrainedSample]:
        """Read the samples that are trained on; empty for a trainer that draws its own world."""
        return read_samples(self.folder / SAMPLES)


def write_samples(path: Path, rows: Iterable[TrainedSample]) -> None:
    """Write one object a line."""
    lines = [json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows]
    write_bytes(path, "".join(lines).encode("utf-8", "replace"))


def read_samples(path: Path) -> list[TrainedSample]:
    """Read what `write_samples` wrote.

    Raises:
        StoreError: the file is missing, or a line is something else.
    """
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    rows = []
    with raised_as(StoreError, f"file {path}", "samples, one a line", OSError, ValueError):
        lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        where = f"file {path}, line {number}"
        with raised_as(StoreError, where, "a sample that was trained on", ValueError):
            if line:
                row = from_plain(TrainedSample, json.loads(line))
                # Rows about one video share its hashes.
                rows.append(replace(row, images=known.setdefault(row.images, row.images)))
    return rows


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
