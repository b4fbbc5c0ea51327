"""PixMo-Count and CountBench: count the objects of a kind.

Parquet files as they lie on the Hugging Face hub. VisionReasoner's copies have one row a question:

    {"image": {"bytes": …}, "text": "How many people are there in this image?",
     "image_id": "17", "ann_id": "17", "img_height": 768, "img_width": 1024, "count": 4}

The official list has addresses, and the places of what is counted, in pixels, null where there are
none:

    {"image_url": "https://…", "image_sha256": "…", "count": 2, "label": "cats",
     "points": {"x": [12.5, 80.0], "y": [40.0, 44.0]}}
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import folder, path_inside, rows
from harness.media import Media, image_or_placeholder
from harness.metrics.averages import Numbers
from harness.metrics.counting import absolute_error, exact, squared_error
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Problem, Protocol, Task, choose, single_answer
from harness.tasks.counting.captions import without_number
from harness.tasks.qa.tables import check_each, sound
from harness.tasks.refer.copies import parquet_files
from harness.types import Answer, AnswerForm, Point, Prediction, Query, Sample, Target, query_id

FIX = "`harness list tasks counting` says where the data is had."


@dataclass(frozen=True, slots=True)
class Record:
    """One question from any of the lists."""

    id: str
    text: str
    count: int
    image: bytes | Path | None
    """Image: encoded bytes, a file, or None where the list has lost it."""
    points: tuple[Point, ...] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Place of a list, and the reader of its rows."""

    folder: str
    hub_split: str
    columns: Mapping[str, str]
    """Columns to read, each with a word on its content."""
    read: Callable[[Mapping[str, object], int, Path], Record]
    """Turns a row, its number in the list and the list's folder into a record."""


def visionreasoner_row(row: Mapping[str, object], number: int, place: Path) -> Record:
    """A row of VisionReasoner's copies."""
    return Record(str(row["image_id"]), _text(row, "text"), _count(row, "count"), _bytes(row))


def countbench_row(row: Mapping[str, object], number: int, place: Path) -> Record:
    """A row of the 540 captions; the question is the caption with its number left out."""
    count = _count(row, "number")
    return Record(str(number), without_number(_text(row, "text"), count), count, _bytes(row))


def countbenchqa_row(row: Mapping[str, object], number: int, place: Path) -> Record:
    """A row of the 491 questions."""
    return Record(str(number), _text(row, "question"), _count(row, "number"), _bytes(row))


def pixmo_row(row: Mapping[str, Any], number: int, place: Path) -> Record:
    """Read a row of the official list, whose images were fetched by their address beforehand."""
    label, path = _text(row, "label"), path_inside(place / "images", row["image_sha256"])
    points = row["points"] or {"x": (), "y": ()}
    try:
        sides = zip(points["x"] or (), points["y"] or (), strict=True)
        places = tuple(Point(float(x), float(y)) for x, y in sides)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(
            "points", expected="a list x and a list y of as many numbers", found=repr(points)[:60]
        ) from error
    return Record(
        id=f"{row['image_sha256']}/{label}",
        text=f"How many {label} are there in this image?",
        count=_count(row, "count"),
        image=path if path.is_file() else None,
        points=places or None,
    )


def _text(row: Mapping[str, object], column: str) -> str:
    text = row[column]
    if not isinstance(text, str) or not text.strip():
        raise DataError(column, expected="text", found=repr(text)[:40])
    return text.strip()


def _count(row: Mapping[str, object], column: str) -> int:
    count = row[column]
    if type(count) is not int or count < 0:
        raise DataError(column, expected="a whole number ≥ 0", found=repr(count)[:40])
    return count


def _bytes(row: Mapping[str, object]) -> bytes | None:
    image = row["image"]
    return image.get("bytes") if isinstance(image, dict) else None


COPY = {"image": "image", "text": "question", "image_id": "id", "count": "ground_truth"}
CAPTIONS = {"image": "image", "text": "caption", "number": "ground_truth"}
QUESTIONS = {"image": "image", "question": "question", "number": "ground_truth"}
PLACES = {"image_sha256": "image", "count": "ground_truth", "points": "places", "label": "what"}

LISTS = {
    "pixmo_train": Listing("pixmo-count", "train", PLACES, pixmo_row),
    "pixmo_val": Listing("counting_pixmo_validation", "test", COPY, visionreasoner_row),
    "pixmo_test": Listing("counting_pixmo_test", "test", COPY, visionreasoner_row),
    "pixmo_val_official": Listing("pixmo-count", "validation", PLACES, pixmo_row),
    "pixmo_test_official": Listing("pixmo-count", "test", PLACES, pixmo_row),
    "countbench": Listing("countbench", "train", CAPTIONS, countbench_row),
    "countbenchqa": Listing("CountBenchQA", "test", QUESTIONS, countbenchqa_row),
    "countbench_visionreasoner": Listing("counting_countbench", "test", COPY, visionreasoner_row),
}
"""Lists by the name that `split=` takes."""


def counting(
    data: Path,
    *,
    split: Literal[
        "pixmo_train",
        "pixmo_val",
        "pixmo_test",
        "pixmo_val_official",
        "pixmo_test_official",
        "countbench",
        "countbenchqa",
        "countbench_visionreasoner",
    ] = "pixmo_val",
    protocol: str = "count/exact",
) -> Task:
    """One sample a question.

    Args:
        split: Which list; the card tells them apart.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    listing = LISTS[split]
    place = folder(data / "counting" / listing.folder, fix=FIX)
    files = parquet_files(place, listing.hub_split, fix=FIX)
    return Task(
        name="counting",
        version=1,
        split=split,
        forms=(AnswerForm.COUNT,),
        protocol=scoring,
        samples=partial(_samples, files, listing),
        annotations=tuple(files),
        check=partial(_check, files, listing),
        arguments={
            "split": split,
            "protocol": protocol,
            "without_image": lost_images(files, listing),
        },
    )


def lost_images(files: Sequence[Path], listing: Listing) -> int | None:
    """Count the rows without an image; None if a file cannot be read, which `check` reports."""
    try:
        return sum(
            isinstance(record, Record) and record.image is None
            for record in _records(files, listing)
        )
    except DataError:
        return None


def _records(files: Sequence[Path], listing: Listing) -> Iterator[Record | DataError]:
    """Yield every row in order: its record, or the error that it has."""
    number = 0
    for path in files:
        for row in rows(path, dict(listing.columns)):
            try:
                yield listing.read(row, number, path.parent.parent)
            except DataError as error:
                yield DataError(f"{path}, row {number}: {error}")
            number += 1


def _media(record: Record) -> Media:
    assert record.image is not None, "rows without an image are left out"
    return image_or_placeholder(record.image, f"of record {record.id!r}")


def _samples(files: Sequence[Path], listing: Listing) -> Iterator[Sample]:
    for record in sound(_records(files, listing)):
        if record.image is None:
            continue
        media = _media(record)
        yield Sample(
            id=record.id,
            query=Query(
                id=query_id(record.id),
                text=record.text,
                media=(media,),
                forms=(AnswerForm.COUNT,),
            ),
            target=Target(answer=Answer(count=record.count, points=record.points)),
            group=media.id,  # an image may be asked about under several labels
            categories={"count": str(record.count)},
        )


def _check(files: Sequence[Path], listing: Listing) -> Iterator[Problem]:
    def look(record: Record) -> Iterator[Problem]:
        if record.image is not None and (fault := _media(record).fault):
            yield Problem(f"record {record.id!r}", fault)

    return check_each(_records(files, listing), str(files[0].parent), look)


def predicted_count(answer: Answer | None) -> int:
    """Return the number in an answer, or of its boxes or points; 0 where there is none."""
    if answer is None or answer.no_target:
        return 0
    if answer.count is not None:
        return answer.count
    shown = answer.boxes if answer.boxes is not None else answer.points
    return len(shown or ())


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Accuracy, MAE and mean squared error of calculate_counting.py (VisionReasoner, a455092)."""
    _, target, prediction = single_answer(unit, predictions)
    assert target.answer.count is not None, "the readers give one"
    ground_truth, predicted = target.answer.count, predicted_count(prediction.answer)
    return {
        "accuracy": Mean(exact(ground_truth, predicted)),
        "MAE": Mean(absolute_error(ground_truth, predicted)),
        "MSE": Mean(squared_error(ground_truth, predicted)),
    }


def root(mean_square: Numbers) -> Numbers:
    """RMSE of the final mean."""
    mean: Numbers = mean_square**0.5
    return mean


PROTOCOLS = {
    "count/exact": Protocol(
        name="count/exact",
        score=score,
        metrics=(
            Metric("accuracy", about="share of samples with the right number"),
            Metric("MAE", better="lower", about="mean absolute error"),
            Metric("MSE", better="lower", about="mean squared error"),
            Metric("RMSE", better="lower", inputs=("MSE",), derived=root, about="root of MSE"),
        ),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="VisionReasoner's calculate_counting.py; the number of boxes is a count",
    )
}
