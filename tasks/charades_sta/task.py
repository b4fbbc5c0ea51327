"""Charades-STA: find the stretch of a video, in seconds, in which a sentence is true.

A row of `test-*.parquet`, and the video `Charades_v1_480/<video>`:

    {"video": "3MSZA.mp4", "caption": "person turn a light on", "timestamp": [24.3, 30.4]}
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.metrics.intervals import temporal_iou_of_hull
from harness.scores import Mean, Metric, Scores
from harness.spec import Spec
from harness.task import Ceiling, Protocol, Task, choose
from harness.tasks.qa.images import parts
from harness.tasks.qa.questions import Question, read_records
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.types import Answer, AnswerForm, Interval, Prediction, Sample

FIX = "`harness list tasks charades_sta` says where the data is had."
COLUMNS = {"video": "video", "caption": "sentence", "timestamp": "start and end, in seconds"}
THRESHOLDS = (0.3, 0.5, 0.7)


def charades_sta(
    data: Path,
    *,
    split: Literal["test"] = "test",
    frames: int | Spec | None = None,
    protocol: str = "charades/interval",
) -> Task:
    """One sample a sentence; statistics cluster by video.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        frames: A rule for the frames that a video consists of; all, without.
        protocol: `charades/interval`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "charades_sta"
    files = parts(place, f"**/{split}-*.parquet", fix=FIX)
    videos = Videos((place / "Charades_v1_480",), frames)
    layout = QuestionFormat(
        files=files,
        read=partial(read_records, files, COLUMNS, _question),
        open=videos.open,
        problems=videos.problems,
    )
    return question_task(
        layout,
        "charades_sta",
        protocol=scoring,
        split=split,
        forms=(AnswerForm.INTERVAL,),
        arguments={"frames": str(videos.selection)},
    )


def _question(row: Mapping[str, object], where: str) -> Question:
    video, caption = text(row, "video", where), text(row, "caption", where).strip()
    return Question(
        id=f"{video}/{row['_index']}",
        text=f"When does this happen: {caption}",
        media=video,
        group=video,
        answer=Answer(interval=_interval(row["timestamp"], f"{where}: 'timestamp'")),
    )


def _interval(value: object, where: str) -> Interval:
    """A list of two numbers, or the text of one."""
    try:
        plain = json.loads(value) if isinstance(value, str) else value
        start, end = map(float, plain)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        start, end = 0.0, 0.0
    if not 0 <= start < end < float("inf"):
        raise DataError(where, expected="0 ≤ start < end", found=repr(value)[:60])
    return Interval(start, end)


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """IoU of the stretch, and whether it reaches each threshold; none scores 0.

    A stretch that ends before it begins is turned round, as lmms-eval does.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None and sample.target.answer.interval is not None
    said = prediction.answer.interval if prediction.answer else None
    turned = None if said is None else Interval(*sorted(said))
    iou = temporal_iou_of_hull(sample.target.answer.interval, turned)
    return {"mIoU": Mean(iou), **{f"R1@{one}": Mean(float(iou >= one)) for one in THRESHOLDS}}


PROTOCOLS = {
    "charades/interval": Protocol(
        name="charades/interval",
        score=score,
        metrics=(
            Metric("mIoU", about="mean IoU of the stretches"),
            *(Metric(f"R1@{one}", about=f"share of IoU ≥ {one}") for one in THRESHOLDS),
        ),
        headline="mIoU",
        ceiling=Ceiling(value=1.0),
        about="mean IoU and shares above thresholds, of the stretch that the model's parser reads",
        beside=("R1@0.5",),
    )
}
