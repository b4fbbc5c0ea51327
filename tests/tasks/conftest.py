"""The three tasks, built from the generated world, from their examples, or from rows by hand."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from harness import plugins
from harness.media import Media, pixels
from harness.scores import Totals
from harness.spec import parse
from harness.task import Protocol, Task
from harness.types import Answer, AnswerForm, Failure, FailureKind, Prediction, Query, Sample
from harness.world.encode import encode_png

REPOSITORY = Path(__file__).resolve().parents[2]

Build: TypeAlias = Callable[[str, Path], Task]


@pytest.fixture(scope="session")
def build() -> Build:
    """A task from its SPEC and a data root."""
    return lambda spec, root: plugins.build("tasks", parse(spec), root)


@pytest.fixture(scope="session")
def example() -> Callable[[str], Path]:
    """The data root that is committed beside a task."""
    return lambda name: REPOSITORY / "tasks" / name / "example"


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """What official readers make of a benchmark, by the benchmark's name."""
    place = REPOSITORY / "tests" / "golden" / "readers"
    return lambda name: json.loads((place / f"{name}.json").read_text(encoding="utf-8"))


def blank(size: tuple[int, int], frames: int = 1) -> Media:
    """A black image, or video, of (height, width)."""
    black = np.zeros((*size, 3), np.uint8)
    return pixels([black] * frames, times=range(frames), is_video=frames > 1, id="black")


@pytest.fixture(scope="session")
def query() -> Callable[..., Query]:
    """A question about a black image or video."""

    def made(number: int, form: AnswerForm, *, size: tuple[int, int], frames: int = 1) -> Query:
        return Query(id=f"q{number}", text="?", media=(blank(size, frames),), forms=(form,))

    return made


@pytest.fixture(scope="session")
def numbers() -> Callable[..., Mapping[str, float | None]]:
    """Score (sample, answer) pairs by a protocol; None for an answer is a failure."""

    def scored(
        protocol: Protocol, pairs: Sequence[tuple[Sample, Answer | None]]
    ) -> Mapping[str, float | None]:
        totals = Totals(protocol.metrics)
        for sample, answer in pairs:
            failure = None if answer else Failure(FailureKind.PARSE, "unreadable")
            output = Prediction(query_id=sample.query.id, answer=answer, failure=failure)
            totals.add(protocol.score([sample], [output]))
        return totals.values()

    return scored


@pytest.fixture(scope="session")
def image() -> Callable[[int], bytes]:
    """An encoded image, another one for each number."""
    return lambda number: encode_png(np.full((8 + number, 12, 3), 20 * number, np.uint8))


@pytest.fixture
def table() -> Callable[..., None]:
    """Write rows as a Parquet file of a list below a data root."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        "points": pa.struct([("x", pa.list_(pa.float32())), ("y", pa.list_(pa.float32()))]),
    }

    def written(root: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        path = root / "counting" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = pa.Table.from_pylist(list(rows))
        for key in set(columns) & set(whole.column_names):
            place = whole.column_names.index(key)
            values = pa.array([row[key] for row in rows], columns[key])
            whole = whole.set_column(place, key, values)
        parquet.write_table(whole, path)

    return written


@pytest.fixture
def copied(shapes: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one benchmark's folder of the generated world, to be spoiled."""

    def copy(name: str) -> Path:
        shutil.copytree(shapes / name, tmp_path / "data" / name)
        return tmp_path / "data"

    return copy
