"""PixMo-Count and CountBench: how many are there?

Parquet files as they lie on the Hugging Face hub. VisionReasoner's copies have one row a question:

    {"image": {"bytes": …}, "text": "How many people are there in this image?",
     "image_id": "17", "ann_id": "17", "img_height": 768, "img_width": 1024, "count": 4}
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import folder, inside, rows
from harness.media import Media, image, image_bytes
from harness.metrics.counting import absolute_error, exact, squared_error
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Problem, Protocol, Task, choose
from harness.tasks.counting.captions import without_number
from harness.types import Answer, AnswerForm, Point, Prediction, Query, Sample, Target, query_id

FIX = "`harness list tasks counting` says where the data is had."


@dataclass(frozen=True, slots=True)
class Record:
    """One question, whichever list it comes from."""

    id: str
    text: str
    count: int
    picture: Any
    """Encoded bytes, a path, or None where the list has lost it."""
    points: tuple[Point, ...] | None = None


Read = Callable[[Path], Iterator[Record]]


def visionreasoner_rows(path: Path) -> Iterator[Record]:
    """Rows of VisionReasoner's copies."""
    columns = {"image": "picture", "text": "question", "image_id": "id", "count": "truth"}
    for row in rows(path, columns):
        yield Record(str(row["image_id"]), row["text"], row["count"], _bytes(row["image"]))


def countbench_rows(path: Path) -> Iterator[Record]:
    """Rows of the 540 captions; the question is the caption with its number left out."""
    columns = {"text": "caption", "number": "truth", "image": "picture"}
    for index, row in enumerate(rows(path, columns)):
        text = without_number(row["text"], row["number"])
        yield Record(str(index), text, row["number"], _bytes(row["image"]))


def countbenchqa_rows(path: Path) -> Iterator[Record]:
    """Rows of the 491 questions."""
    columns = {"question": "question", "number": "truth", "image": "picture"}
    for index, row in enumerate(rows(path, columns)):
        yield Record(str(index), row["question"], row["number"], _bytes(row["image"]))


def pixmo_rows(path: Path) -> Iterator[Record]:
    """Rows of the official list, whose pictures were fetched by their address beforehand."""
    pictures = path.parent.parent / "images"
    columns = {"image_sha256": "picture", "count": "truth", "points": "places", "label": "what"}
    for row in rows(path, columns):
        points = tuple(Point(float(point["x"]), float(point["y"])) for point in row["points"] or ())
        yield Record(
            id=f"{row['image_sha256']}/{row['label']}",
            text=f"How many {row['label']} are there in this image?",
            count=row["count"],
            picture=inside(pictures, row["image_sha256"]),
            points=points or None,
        )


def _bytes(picture: Any) -> bytes | None:
    return picture.get("bytes") if isinstance(picture, dict) else None


LISTS: dict[str, tuple[str, str, Read]] = {
    "pixmo_val": ("counting_pixmo_validation", "test", visionreasoner_rows),
    "pixmo_test": ("counting_pixmo_test", "test", visionreasoner_rows),
    "pixmo_train": ("pixmo-count", "train", pixmo_rows),
    "pixmo_val_official": ("pixmo-count", "validation", pixmo_rows),
    "pixmo_test_official": ("pixmo-count", "test", pixmo_rows),
    "countbench": ("countbench", "train", countbench_rows),
    "countbenchqa": ("CountBenchQA", "test", countbenchqa_rows),
    "countbench_visionreasoner": ("counting_countbench", "test", visionreasoner_rows),
}
"""Folder, split on the hub, and reader, by the name that `split=` takes."""


def counting(
    data: Path,
    *,
    split: Literal[
        "pixmo_train", "pixmo_val", "pixmo_test", "pixmo_val_official", "pixmo_test_official",
        "countbench", "countbenchqa", "countbench_visionreasoner",
    ] = "pixmo_val",
    protocol: str = "count/exact",
) -> Task:  # fmt: skip
    """One sample a question.

    Args:
        data: The folder that holds one folder a benchmark.
        split: Which list; the card tells them apart.
        protocol: `count/exact`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    name, hub_split, read = LISTS[split]
    place = folder(data / "counting" / name, fix=FIX)
    files = sorted((place / "data").glob(f"{hub_split}-*.parquet"))
    if not files:
        raise DataError(f"folder {place / 'data'}", expected=f"{hub_split}-*.parquet",
                        found="no such file", fix=FIX)  # fmt: skip
    return Task(
        name="counting",
        version=1,
        split=split,
        forms=(AnswerForm.COUNT,),
        protocol=scoring,
        samples=partial(_samples, files, read),
        annotations=tuple(files),
        check=partial(_check, files, read),
        arguments={
            "split": split,
            "protocol": protocol,
            **({"without_picture": lost_pictures(files, read)} if split == "countbench" else {}),
        },
    )


def lost_pictures(files: Sequence[Path], read: Read) -> int:
    """How many rows of a list have no picture."""
    return sum(record.picture is None for record in _records(files, read))


def _records(files: Sequence[Path], read: Read) -> Iterator[Record]:
    for path in files:
        for record in read(path):
            _check_record(record, path)
            yield record


def _check_record(record: Record, path: Path) -> None:
    where = f"{path}, record {record.id!r}"
    if type(record.count) is not int or record.count < 0:
        raise DataError(f"{where}: the count", expected="a whole number ≥ 0",
                        found=repr(record.count)[:40])  # fmt: skip
    if not isinstance(record.text, str) or not record.text.strip():
        raise DataError(f"{where}: the question", expected="text", found=repr(record.text)[:40])


def _media(record: Record) -> Media:
    if isinstance(record.picture, Path):
        return image(record.picture)
    return image_bytes(record.picture, f"of record {record.id!r}")


def _samples(files: Sequence[Path], read: Read) -> Iterator[Sample]:
    for record in _records(files, read):
        if record.picture is None:
            continue
        yield Sample(
            id=record.id,
            query=Query(
                id=query_id(record.id), text=record.text, media=(_media(record),),
                forms=(AnswerForm.COUNT,),
            ),
            target=Target(answer=Answer(count=record.count, points=record.points)),
            categories={"count": str(record.count)},
        )  # fmt: skip


def _check(files: Sequence[Path], read: Read) -> Iterator[Problem]:
    try:
        for record in _records(files, read):
            try:
                if record.picture is not None:
                    _media(record)
            except DataError as error:
                yield Problem(record.id, str(error))
    except DataError as error:
        yield Problem(str(files[0].parent), str(error))


def said_count(answer: Answer | None) -> int:
    """The number that an answer says, or shows by its boxes or points; 0 where there is none."""
    if answer is None or answer.no_target:
        return 0
    if answer.count is not None:
        return answer.count
    shown = answer.boxes if answer.boxes is not None else answer.points
    return len(shown or ())


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Accuracy, MAE and mean squared error of calculate_counting.py (VisionReasoner, a455092)."""
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None and sample.target.answer.count is not None
    truth, said = sample.target.answer.count, said_count(prediction.answer)
    return {
        "accuracy": Mean(exact(truth, said)),
        "MAE": Mean(absolute_error(truth, said)),
        "MSE": Mean(squared_error(truth, said)),
    }


def root(mean_square: Any) -> Any:
    """RMSE of the final mean."""
    return mean_square**0.5


PROTOCOLS = {
    "count/exact": Protocol(
        name="count/exact",
        score=score,
        metrics=(
            Metric("accuracy", about="share of samples with the right number"),
            Metric("MAE", better="lower", about="mean absolute error"),
            Metric("MSE", better="lower", about="mean squared error"),
            Metric("RMSE", better="lower", of=("MSE",), derived=root, about="root of MSE"),
        ),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="VisionReasoner's calculate_counting.py; the number of boxes is a count",
    )
}
