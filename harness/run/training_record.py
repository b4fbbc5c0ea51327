"""The record of a training: its manifest, and the samples that it was trained on.

A training lists its samples (`TrainedSample`) in its folder and in its checkpoint's.
`harness.run.contamination` compares them with the samples of a benchmark.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import StoreError, raised_as
from harness.plain import from_plain
from harness.record import read_fields
from harness.run import checkpoint_provenance
from harness.store.atomic import write_bytes
from harness.task import Task
from harness.trainer import CHECKPOINT, Curve
from harness.trainer import CURVE as CURVE_FILE
from harness.types import Sample

VERSION = 1
GROUND_TRUTH_VERSION = 2
"""Version of the ground truth that trainings get. In version 1 the instances of a mask were its
connected parts."""
MANIFEST, SAMPLES = checkpoint_provenance.MANIFEST, "samples.jsonl"
COPIED = {MANIFEST: checkpoint_provenance.INSIDE, SAMPLES: "harness_samples.jsonl"}
"""Names of both files inside the checkpoint, so that a copied checkpoint keeps its lists."""
FIELDS = ("version", "method", "model", "tasks", "seed", "provenance", "config_hash")
ADAPTER = "adapter"
"""Name of the adapter's folder in a LoRA training, and of the model argument that names one."""
SCAN = re.compile(r"(?:.*/)?(scene\d{4}_\d{2})(?:\.\w+)?")
"""A group that ends with a scan of ScanNet, such as `scans/scene0011_00.mp4`: benchmarks made from
ScanNet keep these names. Names of other sources are not unique across benchmarks."""


@dataclass(frozen=True, slots=True)
class TrainedSample:
    """One training sample, with the fields by which it is recognised in a benchmark."""

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
    """Perceptual hashes of its media, several of a video (`harness.run.perceptual_hash`); none of
    images too uniform to be recognised. Trainings of earlier versions have the hash of a video's
    middle frame alone, or none."""

    @classmethod
    def of_sample(cls, task: Task, sample: Sample) -> "TrainedSample":
        """Return the row of a sample, without perceptual hashes (`with_images`)."""
        size = tuple(number for media in sample.query.media for number in (*media.size, len(media)))
        text = hashlib.blake2b(sample.query.text.encode(), digest_size=8).hexdigest()
        return cls(task.name, task.split, sample.id, sample.group, size, text)

    @property
    def shape(self) -> tuple[int, ...]:
        """(width, height) of its media, one after the other."""
        return tuple(number for axis, number in enumerate(self.size) if axis % 3 < 2)

    @property
    def has_image_hashes(self) -> bool:
        """True if its media are still images, at least one, and each has a hash."""
        n_media = len(self.size) // 3
        return 0 < n_media == sum(self.size[2::3]) == len(self.images)

    @property
    def same_sample(self) -> tuple[object, ...]:
        """A key that is equal for equal samples.

        It omits the split, because two splits may share a sample. It has text, width and height,
        because two splits may use the same ids for different samples.
        """
        return self.task, self.id, self.question, self.shape

    @property
    def same_image(self) -> tuple[object, ...]:
        """A key that is equal for questions about the same image or video of a benchmark."""
        return self.task, self.group, self.shape

    @property
    def scan(self) -> str | None:
        """The scan of ScanNet in its group's name, such as `scene0011_00`; None without one."""
        match = SCAN.fullmatch(self.group)
        return match[1] if match else None


def training_folder(adapter: Path) -> Path:
    """Return the training's folder that an adapter lies in, or the adapter's own folder."""
    parent = adapter.resolve().parent
    is_inside = adapter.resolve().name == ADAPTER and (parent / MANIFEST).is_file()
    return parent if is_inside else adapter


@dataclass(frozen=True)
class Training:
    """A training folder, for reading."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> "Training":
        """Open a training's folder; raise StoreError for another folder or another version."""
        training = cls(folder)
        assert training.manifest, "it was read and checked"
        return training

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The model, method and tasks of the training; raises StoreError if it is malformed."""
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
        """True if the training has ended, so that the checkpoint is that of its last step."""
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
        """Read the training samples; empty for a trainer that generates its own samples."""
        return read_samples(self.folder / SAMPLES)


def write_samples(path: Path, rows: Iterable[TrainedSample]) -> None:
    """Write training samples as JSON lines."""
    lines = [json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows]
    write_bytes(path, "".join(lines).encode("utf-8", "replace"))


def read_samples(path: Path) -> list[TrainedSample]:
    """Read what `write_samples` wrote.

    Raises:
        StoreError: the file is missing, or a line is something else.
    """
    distinct: dict[tuple[str, ...], tuple[str, ...]] = {}
    rows = []
    with raised_as(StoreError, f"file {path}", "samples, one a line", OSError, ValueError):
        lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        where = f"file {path}, line {number}"
        with raised_as(StoreError, where, "a sample that was trained on", ValueError):
            if line:
                row = from_plain(TrainedSample, json.loads(line))
                # Rows about one video share its hashes, which saves memory.
                rows.append(replace(row, images=distinct.setdefault(row.images, row.images)))
    return rows
