"""PixMo-Count and CountBench: count the objects of a kind.

Parquet files as they lie on the Hugging Face hub. VisionReasoner's copies have one row a question:

    {"image": {"bytes": …}, "text": "How many people are there in this image?",
     "image_id": "17", "ann_id": "17", "img_height": 768, "img_width": 1024, "count": 4}

The official list has addresses, and the places of what is counted, in pixels, null where there are
none:

    {"image_url": "https://…", "image_sha256": "…", "count": 2, "label": "cats",
     "points": {"x": [12.5, 80.0], "y": [40.0, 44.0]}}
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import folder, path_inside
from harness.metrics.averages import Numbers
from harness.metrics.counting import absolute_error, exact, squared_error
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, Task, choose, single_answer
from harness.tasks.counting.captions import without_number
from harness.tasks.qa.images import image_problems, open_images
from harness.tasks.qa.questions import Question, read_records
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import QuestionFormat, question_task
from harness.tasks.refer.copies import parquet_files
from harness.types import Answer, AnswerForm, Point, Prediction, Sample

FIX = "`harness list tasks counting` prints the source of the data."


@dataclass(frozen=True, slots=True)
class Listing:
    """Place of a list, and the reader of its rows."""

    folder: str
    hub_split: str
    columns: Mapping[str, str]
    """Columns to read, each with a word on its content."""
    read: Callable[[Mapping[str, object], str, Path], Question]
    """Makes a question of a row, where it stands, and the list's folder. One without an image has
    lost it; one without an id has its number in the list for an id."""


def visionreasoner_row(row: Mapping[str, object], where: str, place: Path) -> Question:
    """A row of VisionReasoner's copies."""
    return _with_image(row, where, text(row, "text", where), "count", id=str(row["image_id"]))


def countbench_row(row: Mapping[str, object], where: str, place: Path) -> Question:
    """A row of the 540 captions; the question is the caption with its number left out."""
    caption = without_number(text(row, "text", where).strip(), _count(row, "number", where))
    return _with_image(row, where, caption, "number")


def countbenchqa_row(row: Mapping[str, object], where: str, place: Path) -> Question:
    """A row of the 491 questions."""
    return _with_image(row, where, text(row, "question", where), "number")


def pixmo_row(row: Mapping[str, Any], where: str, place: Path) -> Question:
    """Read a row of the official list, whose images were fetched by their address beforehand."""
    label = text(row, "label", where).strip()
    path = path_inside(place / "images", row["image_sha256"])
    points = row["points"] or {"x": (), "y": ()}
    try:
        sides = zip(points["x"] or (), points["y"] or (), strict=True)
        places = tuple(Point(float(x), float(y)) for x, y in sides)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(
            f"{where}: 'points'",
            expected="a list x and a list y of as many numbers",
            found=repr(points)[:60],
        ) from error
    answer = Answer(count=_count(row, "count", where), points=places or None)
    return Question(
        id=f"{row['image_sha256']}/{label}",
        text=f"How many {label} are there in this image?",
        media=(path,) if path.is_file() else (),
        answer=answer,
        categories={"count": str(answer.count)},
    )


def _with_image(
    row: Mapping[str, object], where: str, wording: str, column: str, *, id: str = ""
) -> Question:
    cell = row["image"]
    image = cell.get("bytes") if isinstance(cell, dict) else None
    count = _count(row, column, where)
    return Question(
        id=id,
        text=wording.strip(),
        media=() if image is None else (image,),
        answer=Answer(count=count),
        categories={"count": str(count)},
    )


def _count(row: Mapping[str, object], column: str, where: str) -> int:
    count = row[column]
    if type(count) is not int or count < 0:
        raise DataError(
            f"{where}: {column!r}", expected="a whole number ≥ 0", found=repr(count)[:40]
        )
    return count


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
    every = partial(_questions, files, listing, place)
    layout = QuestionFormat(
        files=files,
        read=lambda: (
            question for question in every() if isinstance(question, DataError) or question.media
        ),
        open=open_images,
        problems=image_problems,
    )
    return question_task(
        layout,
        "counting",
        protocol=scoring,
        split=split,
        forms=(AnswerForm.COUNT,),
        arguments={"without_image": lost_images(every)},
    )


def lost_images(every: Callable[[], Iterable[Question | DataError]]) -> int | None:
    """Count the rows without an image; None if a file cannot be read, which `check` reports."""
    try:
        return sum(isinstance(question, Question) and not question.media for question in every())
    except DataError:
        return None


def _questions(
    files: Sequence[Path], listing: Listing, place: Path
) -> Iterator[Question | DataError]:
    """Yield every row in order: its question, or the error that it has."""
    every = read_records(files, listing.columns, lambda row, where: listing.read(row, where, place))
    for number, question in enumerate(every):
        if isinstance(question, Question) and not question.id:
            question = replace(question, id=str(number))
        yield question


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
