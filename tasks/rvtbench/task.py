"""RVTBench (Shen et al., 2025) and JiTBench: questions of levels and categories about videos.

One record by the default mapping (ours, not official; see `mapping.toml`):

    {"id": "bear_L3_temporal_7", "task": "segmentation", "level": 3, "category": "temporal",
     "video": "bear", "frames": ["00000", "00001"], "query": "the one that moves after the other",
     "gt": {"masks": [{"frame": "00000", "rle": {"size": [480, 854], "counts": "…"}}]}}
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.layout import folder, path_inside
from harness.media import Media
from harness.task import Problem, Protocol, Task
from harness.tasks.qa.tables import check_each, sound
from harness.tasks.rvos.videos import film, missing_files, uneven
from harness.tasks.rvtbench.mapping import Mapping, read_mapping
from harness.tasks.rvtbench.records import Record, frames_of, mask_size, read_records
from harness.types import AnswerForm, Query, Sample, Target, query_id

DEFAULT = Path(__file__).parent / "mapping.toml"


@dataclass(frozen=True, slots=True)
class Film:
    """A record's video."""

    names: tuple[str, ...]
    """Names of its frames."""
    media: Media


GroundTruthOf = Callable[[Record, Film], Target]
"""Reads a record's ground truth, or raises DataError."""

OptionsOf = Callable[[Record], tuple[str, ...]]


def no_options(record: Record) -> tuple[str, ...]:
    """Return the options of a question without choices: none."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source of one task: its files, mapping and kind of questions."""

    root: Path
    mapping: Mapping
    kind: str
    """Key of the task in the mapping's [tasks]."""
    form: AnswerForm
    ground_truth: GroundTruthOf
    options: OptionsOf


def build(
    data: Path,
    name: str,
    kind: str,
    form: AnswerForm,
    ground_truth: GroundTruthOf,
    scoring: Protocol,
    *,
    split: str,
    mapping: Path | None,
    options: OptionsOf = no_options,
    benchmark: str = "rvtbench",
    default: Path = DEFAULT,
) -> Task:
    """The task of one kind of questions.

    Args:
        name: The task's name.
        kind: Key of the task in the mapping's [tasks].
        form: The form of answer.
        ground_truth: Reads a record's ground truth.
        scoring: The protocol.
        split: The split's name.
        mapping: The mapping that the records are read by; None: `default`.
        options: Reads a record's options.
        benchmark: The name of the benchmark's folder.
        default: The benchmark's own mapping.

    Raises:
        DataError: its annotation file is not there.
    """
    root = folder(data / benchmark, fix="`harness list tasks NAME` prints the source of the data.")
    source = Source(
        root=root,
        mapping=read_mapping(mapping or default),
        kind=kind,
        form=form,
        ground_truth=ground_truth,
        options=options,
    )
    path = path_inside(root, source.mapping.file(kind))
    if not path.is_file():
        raise DataError(
            f"file {path}",
            expected=f"the records of {kind}",
            found="none",
            fix=f"`harness list tasks {name}` prints the source of the data. If a release has "
            f"other file names, give {name}(mapping=FILE.toml).",
        )
    return Task(
        name=name,
        version=1,
        split=split,
        forms=(form,),
        protocol=scoring,
        samples=partial(_samples, source),
        annotations=(path, source.mapping.path),
        check=partial(_check, source),
        arguments={"split": split, "protocol": scoring.name, "mapping": source.mapping.path.name},
    )


class Films:
    """Opens videos; records of one video that follow each other share it.

    What stands in for a lost one has the size that a record's own masks have, and is not shared.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last: tuple[list[Path], Film] | None = None

    def film_of(self, record: Record) -> Film:
        """A record's video."""
        names, paths = frames_of(record, self._source.root)
        if self._last is None or self._last[0] != paths or self._last[1].media.fault:
            media = film(paths, size=lambda: mask_size(record, names))
            self._last = (paths, Film(tuple(names), media))
        return self._last[1]


def _samples(source: Source) -> Iterator[Sample]:
    films = Films(source)
    for record in sound(read_records(source.root, source.mapping, source.kind)):
        yield _sample(source, record, films.film_of(record))


def _sample(source: Source, record: Record, film: Film) -> Sample:
    level, category = record.word("level", "levels"), record.word("category", "categories")
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id),
            text=" ".join(record.text("query").split()),
            media=(film.media,),
            forms=(source.form,),
            options=source.options(record),
        ),
        target=source.ground_truth(record, film),
        group=record.text("video"),
        categories={
            "level": level,
            "category": category,
            "level and category": f"{level} {category}",
        },
        frames=film.names,
    )


def _check(source: Source) -> Iterator[Problem]:
    path = str(path_inside(source.root, source.mapping.file(source.kind)))
    films = Films(source)
    ids: set[str] = set()
    videos: set[tuple[Path, ...]] = set()

    def look(record: Record) -> Iterator[Problem]:
        yield from _check_record(source, record, films, videos)
        if record.id in ids:
            yield Problem(path, f"{record.where}: the id {record.id!r} comes twice")
        ids.add(record.id)

    return check_each(read_records(source.root, source.mapping, source.kind), path, look)


def _check_record(
    source: Source, record: Record, films: Films, videos: set[tuple[Path, ...]]
) -> Iterator[Problem]:
    _, images = frames_of(record, source.root)
    gone = list(missing_files(images))
    if tuple(images) not in videos:
        videos.add(tuple(images))
        yield from gone
        if not gone and (problem := uneven(images)):
            yield problem
    _sample(source, record, films.film_of(record))
