"""What a checkpoint was trained on, and whether it is evaluated on the same."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.run.plan import Selection, samples_of
from harness.store.atomic import read_json, write_bytes
from harness.task import Task
from harness.trainer import CHECKPOINT, Curve
from harness.trainer import CURVE as CURVE_FILE
from harness.types import Sample

VERSION = 1
MANIFEST, SAMPLES = "manifest.json", "samples.jsonl"
COPIED = {MANIFEST: "harness.json", SAMPLES: "harness_samples.jsonl"}
"""What they are called inside the checkpoint, which knows by itself what it was trained on."""
FIELDS = ("version", "method", "model", "tasks", "seed", "provenance", "config_hash")
SHOWN = 3  # ids that an overlap names


@dataclass(frozen=True, slots=True)
class Trained:
    """One sample that was trained on, as far as it must be known again."""

    task: str
    split: str
    id: str
    group: str
    size: tuple[int, ...]
    """(width, height, frames) of its media, one after the other."""
    question: str
    """A hash of its text."""

    @classmethod
    def of(cls, task: Task, sample: Sample) -> "Trained":
        """The row of a sample."""
        size = tuple(number for media in sample.query.media for number in (*media.size, len(media)))
        text = hashlib.blake2b(sample.query.text.encode(), digest_size=8).hexdigest()
        return cls(task.name, task.split, sample.id, sample.group, size, text)

    @property
    def same_sample(self) -> tuple[Any, ...]:
        """Equal for equal samples. The split is no part: two splits may share a sample; text and
        size are: two splits may number theirs alike.
        """
        return self.task, self.id, self.question, self.size

    @property
    def same_picture(self) -> tuple[Any, ...]:
        """Equal for questions about the same picture or video of a benchmark."""
        return self.task, self.group, self.size


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of what is evaluated was trained on."""

    n_total: int
    samples: int
    """Samples that were trained on themselves."""
    pictures: int
    """Samples whose picture or video was trained on, those of `samples` among them."""
    examples: tuple[str, ...]
    """Some ids of `samples`, or of `pictures` if there are none."""

    def __str__(self) -> str:
        if not self.pictures:
            return "no sample and no picture of it was trained on"
        named = ", ".join(self.examples)
        return (f"{self.samples} of {self.n_total} samples, and pictures of {self.pictures}, were "
                f"trained on ({named}, …)")  # fmt: skip


def overlap(rows: Iterable[Trained], task: Task, selection: Selection | None = None) -> Overlap:
    """Compare what was trained on with the samples of a task, by their native ids.

    The same picture under the names of two benchmarks is not found.
    """
    known = list(rows)
    seen = {row.same_sample for row in known}
    pictured = {row.same_picture for row in known}
    chosen = samples_of(task) if selection is None else selection.samples(task)
    n_total, same, shared = 0, [], []
    for sample in chosen:
        row = Trained.of(task, sample)
        n_total += 1
        if row.same_sample in seen:
            same.append(row.id)
        if row.same_sample in seen or row.same_picture in pictured:
            shared.append(row.id)
    return Overlap(n_total, len(same), len(shared), tuple((same or shared)[:SHOWN]))


def trained_on(checkpoint: Path) -> list[Trained] | None:
    """The samples of a training folder, or of a checkpoint's own; None if it does not say."""
    for path in (checkpoint / SAMPLES, checkpoint / COPIED[SAMPLES],
                 checkpoint / CHECKPOINT / COPIED[SAMPLES]):  # fmt: skip
        if path.is_file():
            return read_samples(path)
    return None


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
        """What was trained, how, and on what; raises StoreError if it is not what we write."""
        path = self.folder / MANIFEST
        plain = read_json(path)
        for name in FIELDS:
            if not isinstance(plain, dict) or name not in plain:
                raise StoreError(f"file {path}", expected=f"the field {name} of a training",
                                 found="none")  # fmt: skip
        if plain["version"] != VERSION:
            raise StoreError(f"training {self.folder}", expected=f"version {VERSION}",
                             found=repr(plain["version"])[:40])  # fmt: skip
        assert isinstance(plain, dict), "it has fields"
        return plain

    @property
    def finished(self) -> bool:
        """Whether the checkpoint is the one of the last step."""
        return "result" in self.manifest

    @property
    def checkpoint(self) -> Path:
        """The trained network's folder."""
        return self.folder / CHECKPOINT

    @property
    def curve(self) -> Curve:
        """What was logged."""
        return Curve(self.folder / CURVE_FILE)

    def samples(self) -> list[Trained]:
        """What it is trained on; empty for a trainer that draws its own world."""
        return read_samples(self.folder / SAMPLES)


def write_samples(path: Path, rows: Iterable[Trained]) -> None:
    """Write one object a line."""
    lines = [json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows]
    write_bytes(path, "".join(lines).encode("utf-8", "replace"))


def read_samples(path: Path) -> list[Trained]:
    """Read what `write_samples` wrote.

    Raises:
        StoreError: the file is missing, or a line is something else.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"file {path}", expected="samples, one a line",
                         found=str(error)) from error  # fmt: skip
    return [_row(line, f"file {path}, line {number}")
            for number, line in enumerate(lines, start=1) if line]  # fmt: skip


def _row(line: str, where: str) -> Trained:
    try:
        plain = json.loads(line)
        row = Trained(**{**plain, "size": tuple(map(int, plain["size"]))})
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(where, expected="a sample that was trained on",
                         found=f"{type(error).__name__}: {error}") from error  # fmt: skip
    texts = (row.task, row.split, row.id, row.group, row.question)
    if not all(isinstance(text, str) for text in texts):
        raise StoreError(where, expected="texts", found=line[:60])
    return row
