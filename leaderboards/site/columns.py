"""Read the samples of one table from its benchmark, and collect them as columns for the front end.

`read_samples` hands ground truth, media and thumbnails on to `Sinks`, because a table's images do
not fit into memory. Position n of each column is the table's sample n, in the task's order.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, counted
from harness.leaderboards.ranked_table import Entry
from harness.leaderboards.runs import task_of
from harness.leaderboards.sample_changes import rounded
from harness.leaderboards.site import details
from harness.media import Media
from harness.plugins import plugin_errors
from harness.record import Run
from harness.run.batching import samples_of
from harness.scores import UnitScore
from harness.types import Sample

CHUNK = 250  # samples whose details are in one file


@dataclass
class Columns:
    """The samples of a table, in the task's order."""

    id: list[str] = field(default_factory=list)
    question: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    unit: list[int] = field(default_factory=list)
    """Index in `units` of each sample's unit."""
    units: list[str] = field(default_factory=list)
    categories: list[Mapping[str, str]] = field(default_factory=list)
    media: list[list[int]] = field(default_factory=list)
    """Indices in `mediums` of each sample's media."""
    mediums: list[Mapping[str, object]] = field(default_factory=list)
    """Description of each medium; each medium once."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Columns of each run's scores and responses, by the run's name (`r0`, `r1`, …)."""
    note: str = ""
    """Reason why questions, ground truth or images are missing."""

    def to_json(self) -> dict[str, object]:
        """Return the value of `samples.js`."""
        is_unit_sample = len(self.units) == len(self.unit)
        names = dict.fromkeys(name for categories in self.categories for name in categories)
        return {
            "id": self.id,
            "question": self.question,
            "group": self.group,
            "unit": None if is_unit_sample else self.unit,
            "categories": {name: self._category(name) for name in names},
            "media": self.media,
            "mediums": self.mediums,
            "runs": self.runs,
            "note": self.note,
        }

    def _category(self, name: str) -> dict[str, object]:
        """Return a category's distinct values, numbers sorted, and each sample's index in them."""
        values = list(dict.fromkeys(categories.get(name, "") for categories in self.categories))
        values.sort(key=lambda text: (not text.isdecimal(), int(text) if text.isdecimal() else 0))
        index_of_value = {value: index for index, value in enumerate(values)}
        return {
            "values": values,
            "at": [index_of_value[categories.get(name, "")] for categories in self.categories],
        }

    def state(self) -> str:
        """Return a hash of the inputs of a run's `responses` and chunks other than the run."""
        used = json.dumps([self.id, self.question, self.unit, self.units])
        return hashlib.blake2b(used.encode(), digest_size=16).hexdigest()

    def responses(
        self, entry: Entry, predictions: Iterable[Mapping[str, Any] | None]
    ) -> dict[str, Any]:
        """Return the columns of a run's responses: failure letters, cut samples, tokens.

        `predictions` are plain data in the samples' order; None: the run has none.
        """
        sizes = Counter(self.unit)
        letters, cut, tokens = [], [], []
        for index, plain in enumerate(predictions):
            unit = self.unit[index]
            failed = entry.unit_failures.get(self.units[unit])
            letters.append(details.failure_letter(plain, failed, sizes[unit]))
            tokens.append(0 if plain is None else plain["usage"][1])
            if plain is not None and details.is_cut(plain):
                cut.append(index)
        return {"failure": "".join(letters), "cut": cut, "tokens": tokens}

    def add_run(self, name: str, entry: Entry, responses: Mapping[str, Any]) -> None:
        """Add a run's columns: its scores and the columns of `responses`."""
        values = entry.unit_values
        scores = [rounded(values.get(self.units[unit])) for unit in self.unit]
        self.runs[name] = {"score": scores, **responses}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """Functions that store what is read of a table's samples."""

    medium: Callable[[Media], Mapping[str, object]]
    """Stores a medium and returns its description."""
    thumbnail: Callable[[Media | None], None]
    """Stores the next sample's thumbnail, of its first medium; None: it has no medium."""
    targets: Callable[[int, Sequence[Mapping[str, Any]]], None]
    """Stores the ground truth of a chunk, by the chunk's number."""


def read_samples(
    run: Run, ids: Mapping[str, UnitScore | None], data_root: Path | None, sinks: Sinks
) -> Columns:
    """Read the samples of a table from its benchmark, one chunk at a time.

    A sample that the benchmark lacks (or all, if it is not there) has only what the run recorded.

    Args:
        run: A run of the table, which names the benchmark.
        ids: The table's samples by official id, in the task's order, each with the unit in which it
            was scored, if it was.
        data_root: Where the benchmark lies now, if not where the run read it.
        sinks: Receive ground truth, media and thumbnails.
    """
    columns = Columns()
    remaining = dict(ids)
    units: dict[str, int] = {}
    chunk: list[Mapping[str, Any]] = []
    index_of_medium: dict[str, int] = {}

    def add(sample: Sample | None, name: str, unit: UnitScore | None) -> None:
        """Add one row, from the sample or else from what the run recorded of its unit."""
        unit_name = sample.unit if sample else unit.unit if unit else name
        columns.id.append(name)
        columns.question.append(sample.query.text if sample else "")
        columns.group.append(sample.group if sample else unit.group if unit else name)
        if unit_name not in units:
            units[unit_name] = len(units)
            columns.units.append(unit_name)
        columns.unit.append(units[unit_name])
        categories = sample.categories if sample else unit.categories if unit else {}
        columns.categories.append({str(key): str(value) for key, value in categories.items()})
        columns.media.append(_add_media(columns, sample, index_of_medium, sinks))
        chunk.append(details.target(sample) if sample else {"text": ""})
        if len(chunk) == CHUNK:
            flush()

    def flush() -> None:
        """Store the ground truth of the current chunk."""
        if chunk:
            sinks.targets((len(columns.id) - 1) // CHUNK, chunk)
            chunk.clear()

    try:
        for sample in _samples(run, data_root):
            if sample.id in remaining:
                add(sample, sample.id, remaining.pop(sample.id))
                if not remaining:
                    break
    except HarnessError as error:
        columns.note = f"The benchmark cannot be read here: no images and no ground truth. {error}"
    else:
        if remaining:
            verb = "is" if len(remaining) == 1 else "are"
            columns.note = (
                f"{counted(len(remaining), 'sample')} {verb} not in the benchmark as it is here."
            )
    for name, unit in remaining.items():
        add(None, name, unit)
    flush()
    return columns


def _samples(run: Run, data_root: Path | None) -> Iterator[Sample]:
    task = task_of(run, data_root)
    with plugin_errors(f"the samples of {task.name}"):
        yield from samples_of(task)


def _add_media(
    columns: Columns, sample: Sample | None, index_of_medium: dict[str, int], sinks: Sinks
) -> list[int]:
    """Store a sample's media and thumbnail, and return the media's indices in `Columns.mediums`.

    `index_of_medium` has the indices of the media of earlier samples of the table, by id.
    """
    indices: list[int] = []
    readable: Media | None = None
    for media in sample.query.media if sample else ():
        try:
            with plugin_errors("an image"):
                if media.id not in index_of_medium:
                    columns.mediums.append(sinks.medium(media))
                    index_of_medium[media.id] = len(columns.mediums) - 1
                readable = readable or media
                indices.append(index_of_medium[media.id])
        except HarnessError as error:
            columns.note = columns.note or f"An image cannot be read. {error}"
            indices.append(len(columns.mediums))
            columns.mediums.append(
                {"file": None, "width": media.size[0], "height": media.size[1], "frames": 1}
            )
    sinks.thumbnail(readable)
    return indices
