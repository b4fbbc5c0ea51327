"""Charades-STA: find the interval of a video, in seconds, that a sentence describes.

A row of `test-*.parquet`, and the video `Charades_v1_480/<video>`:

    {"video": "3MSZA.mp4", "caption": "person turn a light on", "timestamp": [24.3, 30.4]}

The hub's table has the seconds as `float16`: 24.296875 to 30.40625.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.metrics.interval_readers import charades_interval, json_interval
from harness.metrics.intervals import temporal_iou_of_hull
from harness.scores import Mean, Metric, Scores
from harness.spec import Spec
from harness.task import Ceiling, Protocol, Task, single_answer
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.task import Videos, table_task
from harness.types import Answer, AnswerForm, Interval, Prediction, Sample

FIELDS = Fields(
    id="{video}/{_index}",
    media="{video}",
    question="caption",
    answer="",
    others={"timestamp": "any"},
)
THRESHOLDS = (0.3, 0.5, 0.7)  # of the IoU of intervals


def charades_sta(
    data: Path,
    *,
    split: Literal["test"] = "test",
    frames: int | Spec | None = None,
    protocol: str = "charades/interval",
) -> Task:
    """One sample per sentence; statistics cluster by video. `protocol` is `charades/interval`."""
    root = data / "charades_sta"
    return table_task(
        "charades_sta",
        root,
        f"**/{split}-*.parquet",
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        read=_question,
        forms=(AnswerForm.INTERVAL,),
        videos=Videos((root / "Charades_v1_480",), frames),
        version=2,
    )


def _question(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of a row, with its true interval."""
    question = FIELDS.read_record(row, where)
    return replace(
        question,
        text=f"When does this happen: {question.text.strip()}",
        answer=Answer(interval=_true_interval(row["timestamp"], f"{where}: 'timestamp'")),
    )


def _true_interval(value: object, where: str) -> Interval:
    """Return an interval in seconds: a list of two numbers, or such a list as JSON text."""
    try:
        plain = json.loads(value) if isinstance(value, str) else value
        start, end = map(float, plain)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        start, end = 0.0, 0.0
    if not 0 <= start < end < float("inf"):
        raise DataError(where, expected="0 ≤ start < end", found=repr(value)[:60])
    return Interval(start, end)


def predicted_interval(_: Sample, prediction: Prediction) -> Interval | None:
    """Return the predicted interval in seconds; None if none can be read.

    Three readers are tried in turn: lmms-eval's, one of intervals in JSON (which lmms-eval does not
    read), and the model's own grammar. Start and end are swapped if the end comes first.
    """
    text = answer_text(prediction) if prediction.responses else None
    interval = None if text is None else charades_interval(text) or json_interval(text)
    if interval is None and prediction.answer is not None:
        interval = prediction.answer.interval
    return None if interval is None else Interval(*sorted(interval))


def interval_protocol(
    name: str, read: Callable[[Sample, Prediction], Interval | None], about: str
) -> dict[str, Protocol]:
    """Return {name: protocol}, which scores the IoU of the intervals that `read` returns.

    Metrics are the mean IoU and the shares of IoUs at or above THRESHOLDS. A response without an
    interval scores 0.
    """
    protocol = Protocol(
        name=name,
        score=partial(_score, read=read),
        metrics=(
            Metric("mIoU", about="mean IoU of the intervals"),
            *(
                Metric(f"R1@{threshold}", about=f"share of IoU ≥ {threshold}")
                for threshold in THRESHOLDS
            ),
        ),
        headline="mIoU",
        ceiling=Ceiling(value=1.0),
        about=about,
        beside=("R1@0.5",),
        reads=read,
    )
    return {name: protocol}


def _score(
    unit: Sequence[Sample],
    predictions: Sequence[Prediction],
    *,
    read: Callable[[Sample, Prediction], Interval | None],
) -> Scores:
    """Return the IoU, and 1 or 0 for each threshold that it reaches."""
    sample, target, prediction = single_answer(unit, predictions)
    assert target.answer.interval is not None, "`_question` sets it"
    iou = temporal_iou_of_hull(target.answer.interval, read(sample, prediction))
    return {
        "mIoU": Mean(iou),
        **{f"R1@{threshold}": Mean(float(iou >= threshold)) for threshold in THRESHOLDS},
    }


PROTOCOLS = interval_protocol(
    "charades/interval",
    predicted_interval,
    "lmms-eval's reader, mean IoU and shares above thresholds; else the model's own form",
)
