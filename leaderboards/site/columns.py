"""The samples of one table as columns, with their ground truth, images and thumbnails."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, counted
from harness.leaderboards.ranked_table import Entry
from harness.leaderboards.runs import task_of
from harness.leaderboards.site import details
from harness.media import Media
from harness.plugins import plugin_errors
from harness.record import Run
from harness.run.batching import samples_of
from harness.scores import UnitScore
from harness.types import Sample

CHUNK = 250  # samples whose details stand in one file


@dataclass
class Columns:
    """The samples of a table, in the task's order."""

    id: list[str] = field(default_factory=list)
    question: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    unit: list[int] = field(default_factory=list)
    """Each sample's place in `units`."""
    units: list[str] = field(default_factory=list)
    categories: list[Mapping[str, str]] = field(default_factory=list)
    media: list[list[int]] = field(default_factory=list)
    mediums: list[Mapping[str, object]] = field(default_factory=list)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    note: str = ""
    """Reason why questions, ground truth or images are missing."""

    def to_json(self) -> dict[str, object]:
        """The value of `samples.js`."""
        alone = len(self.units) == len(self.unit)
        names = dict.fromkeys(name for categories in self.categories for name in categories)
        return {
            "id": self.id,
            "question": self.question,
            "group": self.group,
            "unit": None if alone else self.unit,
            "categories": {name: self._category(name) for name in names},
            "media": self.media,
            "mediums": self.mediums,
            "runs": self.runs,
            "note": self.note,
        }

    def _category(self, name: str) -> dict[str, object]:
        values = list(dict.fromkeys(categories.get(name, "") for categories in self.categories))
        values.sort(key=lambda text: (not text.isdecimal(), int(text) if text.isdecimal() else 0))
        places = {value: place for place, value in enumerate(values)}
        return {
            "values": values,
            "at": [places[categories.get(name, "")] for categories in self.categories],
        }

    def add_run(
        self, name: str, entry: Entry, predictions: Iterable[Mapping[str, Any] | None]
    ) -> None:
        """Add the columns of a run; `predictions` are one a sample, in the samples' order."""
        values, sizes = entry.unit_values, Counter(self.unit)
        letters, cut, tokens = [], [], []
        for place, plain in enumerate(predictions):
            unit = self.unit[place]
            failed = entry.unit_failures.get(self.units[unit])
            letters.append(details.failure_letter(plain, failed, sizes[unit]))
            tokens.append(0 if plain is None else plain["usage"][1])
            if plain is not None and details.is_cut(plain):
                cut.append(place)
        self.runs[name] = {
            "score": [_rounded(values.get(self.units[unit])) for unit in self.unit],
            "failure": "".join(letters),
            "cut": cut,
            "tokens": tokens,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """Functions that keep what is read of a table's samples."""

    medium: Callable[[Media], Mapping[str, object]]
    """Keeps a medium and returns its description."""
    thumbnail: Callable[[Media | None], None]
    """Keeps the next sample's thumbnail: of its first medium, None if it has none."""
    targets: Callable[[int, Sequence[Mapping[str, Any]]], None]
    """Keeps the ground truth of a chunk, by its number."""


def read_samples(
    run: Run, ids: Mapping[str, UnitScore | None], data_root: Path | None, sinks: Sinks
) -> Columns:
    """Read the samples of a table from its benchmark, one chunk at a time.

    Where the benchmark is not there, or does not hold a sample any more, the sample's row has what
    the run's own record says.

    `ids` are official, in the task's order, with the unit that each was scored in, if any.
    """
    columns = Columns()
    left = dict(ids)
    units: dict[str, int] = {}
    chunk: list[Mapping[str, Any]] = []
    known: dict[str, int] = {}

    def add(sample: Sample | None, name: str, unit: UnitScore | None) -> None:
        shown = sample.unit if sample else unit.unit if unit else name
        columns.id.append(name)
        columns.question.append(sample.query.text if sample else "")
        columns.group.append(sample.group if sample else unit.group if unit else name)
        if shown not in units:
            units[shown] = len(units)
            columns.units.append(shown)
        columns.unit.append(units[shown])
        categories = sample.categories if sample else unit.categories if unit else {}
        columns.categories.append({str(key): str(value) for key, value in categories.items()})
        columns.media.append(_add_media(columns, sample, known, sinks))
        chunk.append(details.target(sample) if sample else {"text": ""})
        if len(chunk) == CHUNK:
            flush()

    def flush() -> None:
        if chunk:
            sinks.targets((len(columns.id) - 1) // CHUNK, chunk)
            chunk.clear()

    try:
        for sample in _samples(run, data_root):
            if sample.id in left:
                add(sample, sample.id, left.pop(sample.id))
                if not left:
                    break
    except HarnessError as error:
        columns.note = f"The benchmark cannot be read here: no images and no ground truth. {error}"
    else:
        if left:
            verb = "is" if len(left) == 1 else "are"
            columns.note = (
                f"{counted(len(left), 'sample')} {verb} not in the benchmark as it is here."
            )
    for name, unit in left.items():
        add(None, name, unit)
    flush()
    return columns


def _samples(run: Run, data_root: Path | None) -> Iterator[Sample]:
    task = task_of(run, data_root)
    with plugin_errors(f"the samples of {task.name}"):
        yield from samples_of(task)


def _add_media(
    columns: Columns, sample: Sample | None, known: dict[str, int], sinks: Sinks
) -> list[int]:
    """Add a sample's media, each once a table, and its thumbnail; return their places."""
    places: list[int] = []
    small: Media | None = None
    for media in sample.query.media if sample else ():
        try:
            with plugin_errors("an image"):
                if media.id not in known:
                    columns.mediums.append(sinks.medium(media))
                    known[media.id] = len(columns.mediums) - 1
                small = small or media
                places.append(known[media.id])
        except HarnessError as error:
            columns.note = columns.note or f"An image cannot be read. {error}"
            places.append(len(columns.mediums))
            columns.mediums.append(
                {"file": None, "width": media.size[0], "height": media.size[1], "frames": 1}
            )
    sinks.thumbnail(small)
    return places
