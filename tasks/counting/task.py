"""PixMo-Count and CountBench: count the objects of one category in an image.

The files are Parquet tables of the Hugging Face Hub, in three layouts (`Listing`). VisionReasoner's
copies have one row per question:

    {"image": {"bytes": …}, "text": "How many people are there in this image?",
     "image_id": "17", "ann_id": "17", "img_height": 768, "img_width": 1024, "count": 4}

PixMo-Count's official list has addresses of images, and the places (x, y) of the counted objects in
pixels, or null:

    {"image_url": "https://…", "image_sha256": "…", "count": 2, "label": "cats",
     "points": {"x": [12.5, 80.0], "y": [40.0, 44.0]}}

CountBench's official lists have `image`, `number`, and a caption `text` or a `question`.
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
    """One of the benchmark's lists of questions: its folder, and the reader of its rows."""

    folder: str
    hub_split: str
    """Split in the names of its files."""
    columns: Mapping[str, str]
    """Columns to read, each with a word on its content."""
    read: Callable[[Mapping[str, object], str, Path], Question]
    """Returns the question of a row; takes the row, its position for errors, and the list's folder.
    The question has no media if its image is lost, and no id if its index in the list is the id."""


def visionreasoner_row(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of a row of VisionReasoner's copies."""
    return _with_image(row, where, text(row, "text", where), "count", id=str(row["image_id"]))


def countbench_row(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of a row of CountBench's 540 captions: the caption without its number."""
    caption = without_number(text(row, "text", where).strip(), _count(row, "number", where))
    return _with_image(row, where, caption, "number")


def countbenchqa_row(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of a row of CountBenchQA's 491 questions."""
    return _with_image(row, where, text(row, "question", where), "number")


def pixmo_row(row: Mapping[str, Any], where: str, root: Path) -> Question:
    """Return the question of a row of PixMo-Count, whose images were downloaded before."""
    label = text(row, "label", where).strip()
    path = path_inside(root / "images", row["image_sha256"])
    points = row["points"] or {"x": (), "y": ()}
    try:
        pairs = zip(points["x"] or (), points["y"] or (), strict=True)
        true_points = tuple(Point(float(x), float(y)) for x, y in pairs)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(
            f"{where}: 'points'",
            expected="a list x and a list y of as many numbers",
            found=repr(points)[:60],
        ) from error
    answer = Answer(count=_count(row, "count", where), points=true_points or None)
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
    """Return a question about the image in a row; `column` has the true count."""
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
    """Return the whole number in a column, or raise DataError."""
    count = row[column]
    if type(count) is not int or count < 0:
        raise DataError(
            f"{where}: {column!r}", expected="a whole number ≥ 0", found=repr(count)[:40]
        )
    return count


COPY_COLUMNS = {"image": "image", "text": "question", "image_id": "id", "count": "ground_truth"}
CAPTION_COLUMNS = {"image": "image", "text": "caption", "number": "ground_truth"}
QUESTION_COLUMNS = {"image": "image", "question": "question", "number": "ground_truth"}
PIXMO_COLUMNS = {
    "image_sha256": "image",
    "count": "ground_truth",
    "points": "places",
    "label": "what",
}
"""Columns of the lists, each with a word on its content."""

LISTS = {
    "pixmo_train": Listing("pixmo-count", "train", PIXMO_COLUMNS, pixmo_row),
    "pixmo_val": Listing("counting_pixmo_validation", "test", COPY_COLUMNS, visionreasoner_row),
    "pixmo_test": Listing("counting_pixmo_test", "test", COPY_COLUMNS, visionreasoner_row),
    "pixmo_val_official": Listing("pixmo-count", "validation", PIXMO_COLUMNS, pixmo_row),
    "pixmo_test_official": Listing("pixmo-count", "test", PIXMO_COLUMNS, pixmo_row),
    "countbench": Listing("countbench", "train", CAPTION_COLUMNS, countbench_row),
    "countbenchqa": Listing("CountBenchQA", "test", QUESTION_COLUMNS, countbenchqa_row),
    "countbench_visionreasoner": Listing(
        "counting_countbench", "test", COPY_COLUMNS, visionreasoner_row
    ),
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
    """One sample per question.

    Args:
        split: One of the lists of questions, which the card describes.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    listing = LISTS[split]
    root = folder(data / "counting" / listing.folder, fix=FIX)
    files = parquet_files(root, listing.hub_split, fix=FIX)
    results = partial(_questions, files, listing, root)  # with the questions of lost images
    question_format = QuestionFormat(
        files=files,
        read=lambda: (
            result for result in results() if isinstance(result, DataError) or result.media
        ),
        open=open_images,
        problems=image_problems,
    )
    return question_task(
        question_format,
        "counting",
        protocol=scoring,
        split=split,
        forms=(AnswerForm.COUNT,),
        arguments={"without_image": lost_images(results)},
    )


def lost_images(results: Callable[[], Iterable[Question | DataError]]) -> int | None:
    """Count questions without an image; None if a file cannot be read, which `check` reports."""
    try:
        return sum(isinstance(result, Question) and not result.media for result in results())
    except DataError:
        return None


def _questions(
    files: Sequence[Path], listing: Listing, root: Path
) -> Iterator[Question | DataError]:
    """Yield the question of each row in order, or its error."""
    results = read_records(
        files, listing.columns, lambda row, where: listing.read(row, where, root)
    )
    for number, question in enumerate(results):
        if isinstance(question, Question) and not question.id:
            question = replace(question, id=str(number))
        yield question


def predicted_count(answer: Answer | None) -> int:
    """Return the count that an answer states, or else its number of boxes or points."""
    if answer is None or answer.no_target:
        return 0
    if answer.count is not None:
        return answer.count
    objects = answer.boxes if answer.boxes is not None else answer.points
    return len(objects or ())


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return a sample's accuracy and errors as calculate_counting.py (VisionReasoner, a455092)."""
    _, target, prediction = single_answer(unit, predictions)
    assert target.answer.count is not None, "every `Listing.read` sets it"
    ground_truth, predicted = target.answer.count, predicted_count(prediction.answer)
    return {
        "accuracy": Mean(exact(ground_truth, predicted)),
        "MAE": Mean(absolute_error(ground_truth, predicted)),
        "MSE": Mean(squared_error(ground_truth, predicted)),
    }


def root_mean_square(mean_square: Numbers) -> Numbers:
    """Return the RMSE from the final mean of squared errors."""
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
            Metric(
                "RMSE",
                better="lower",
                inputs=("MSE",),
                derived=root_mean_square,
                about="root of MSE",
            ),
        ),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="VisionReasoner's calculate_counting.py; the number of boxes is a count",
    )
}
