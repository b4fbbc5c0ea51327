"""`build` makes the tasks of RVTBench and JiTBench (Shen et al., 2025): questions about videos.

Each question has a level of reasoning and a category. RVTBench's four tasks (segmentation,
grounding, VQA and summary) differ in the form of the answer, and in the function that reads the
ground truth of a record.

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

DEFAULT_MAPPING = Path(__file__).parent / "mapping.toml"


@dataclass(frozen=True, slots=True)
class Film:
    """A record's video."""

    names: tuple[str, ...]
    """Names of its frames."""
    media: Media


GroundTruthOf = Callable[[Record, Film], Target]
"""Function that reads a record's ground truth, or raises DataError."""

OptionsOf = Callable[[Record], tuple[str, ...]]
"""Function that reads the options of a record's question."""


def no_options(record: Record) -> tuple[str, ...]:
    """Return the options of a question without choices: none."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Data, mapping and readers from which the samples of a task are made."""

    root: Path
    mapping: Mapping
    task_key: str
    """Key of the task in the mapping's [tasks]."""
    form: AnswerForm
    ground_truth: GroundTruthOf
    options: OptionsOf


def build(
    data: Path,
    name: str,
    task_key: str,
    form: AnswerForm,
    ground_truth: GroundTruthOf,
    scoring: Protocol,
    *,
    split: str,
    mapping: Path | None,
    options: OptionsOf = no_options,
    benchmark: str = "rvtbench",
    default: Path = DEFAULT_MAPPING,
) -> Task:
    """Return a task of RVTBench or JiTBench.

    Args:
        data: The data root.
        name: Name of the task.
        task_key: Key of the task in the mapping's [tasks].
        form: Form of answer.
        ground_truth: Reads the ground truth of a record.
        scoring: The protocol.
        split: Name of the split.
        mapping: Mapping file for the records; None: `default`.
        options: Reads the options of a record.
        benchmark: Folder of the benchmark below `data`.
        default: The benchmark's own mapping file.

    Raises:
        DataError: the annotation file is missing.
    """
    root = folder(data / benchmark, fix="`harness list tasks NAME` prints the source of the data.")
    source = Source(
        root=root,
        mapping=read_mapping(mapping or default),
        task_key=task_key,
        form=form,
        ground_truth=ground_truth,
        options=options,
    )
    path = path_inside(root, source.mapping.file(task_key))
    if not path.is_file():
        raise DataError(
            f"file {path}",
            expected=f"the records of {task_key}",
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
    """Opens videos; consecutive records about the same video share one `Film`.

    The placeholder of a lost video has the size of the record's masks, so it is not shared.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last: tuple[list[Path], Film] | None = None

    def film_of(self, record: Record) -> Film:
        """Return the video of a record."""
        names, paths = frames_of(record, self._source.root)
        if self._last is None or self._last[0] != paths or self._last[1].media.fault:
            media = film(paths, size=lambda: mask_size(record, names))
            self._last = (paths, Film(tuple(names), media))
        return self._last[1]


def _samples(source: Source) -> Iterator[Sample]:
    """Yield the sample of each record; DataError for the first one that is invalid."""
    films = Films(source)
    for record in sound(read_records(source.root, source.mapping, source.task_key)):
        yield _sample(source, record, films.film_of(record))


def _sample(source: Source, record: Record, record_film: Film) -> Sample:
    """Return the sample of a record, whose video is `record_film`."""
    level, category = record.word("level", "levels"), record.word("category", "categories")
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id),
            text=" ".join(record.text("query").split()),
            media=(record_film.media,),
            forms=(source.form,),
            options=source.options(record),
        ),
        target=source.ground_truth(record, record_film),
        group=record.text("video"),
        categories={
            "level": level,
            "category": category,
            "level and category": f"{level} {category}",
        },
        frames=record_film.names,
    )


def _check(source: Source) -> Iterator[Problem]:
    """Yield the faults of all records, and of each video once."""
    path = str(path_inside(source.root, source.mapping.file(source.task_key)))
    films = Films(source)
    ids: set[str] = set()
    videos: set[tuple[Path, ...]] = set()

    def look(record: Record) -> Iterator[Problem]:
        yield from _check_record(source, record, films, videos)
        if record.id in ids:
            yield Problem(path, f"{record.where}: the id {record.id!r} comes twice")
        ids.add(record.id)

    return check_each(read_records(source.root, source.mapping, source.task_key), path, look)


def _check_record(
    source: Source, record: Record, films: Films, videos: set[tuple[Path, ...]]
) -> Iterator[Problem]:
    """Yield the faults of a record's video, unless it is in `videos`; raise those of the record."""
    _, images = frames_of(record, source.root)
    if tuple(images) not in videos:
        videos.add(tuple(images))
        missing = list(missing_files(images))
        yield from missing
        if not missing and (problem := uneven(images)):
            yield problem
    _sample(source, record, films.film_of(record))
