"""ReVSI: VSI-Bench's questions, with ground truth for exactly the frames that are shown.

Each question exists for videos of 16, 32 or 64 frames (the budget), or of all; its true answer may
differ. A row of `<budget>_frame/test-*.parquet` belongs to `<budget>_frame/<scene_id>.mp4`:

    {"scene_id": "scene0011_00", "num_frames": "16", "question_type": "object_counting_single",
     "question": "…", "options": null, "ground_truth": "4"}
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.metrics.averages import mean_in_order
from harness.scores import Mean, Metric, Scores
from harness.task import Task, official_and_strict, single_answer
from harness.tasks.qa.answer_text import answer_text, read_by, with_whole_responses
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import Videos, table_task
from harness.tasks.vsi_bench.task import official_value, reads_official, reads_strict, strict_value
from harness.types import AnswerForm, Prediction, Sample

DIRECTIONS = ("forward_easy", "backward_easy", "forward_hard", "backward_hard")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "object_abs_distance": (),
    "object_size_estimation": (),
    "route_planning": (),
    "object_rel_direction": tuple(f"object_rel_direction_{direction}" for direction in DIRECTIONS),
    "object_rel_distance": ("object_rel_distance_closest", "object_rel_distance_farthest"),
    "object_counting": ("object_counting_single", "object_counting_multiple"),
    "room_size_estimation": ("room_size_estimation_single", "room_size_estimation_multiple"),
}
"""Types of questions, in the order in which the official code sums them, with their kinds. A type's
score is the mean over its kinds; a type without kinds is scored by itself."""
KINDS = tuple(kind for name, kinds in GROUPS.items() for kind in kinds or (name,))
FIELDS = Fields(
    id="{scene_id}/{_index}",
    media="{scene_id}.mp4",
    answer="ground_truth",
    options="options",
    lettered=True,
    otherwise="number",
    positive=True,
    categories={"type": "question_type"},
    allowed_values={"question_type": KINDS},
)


def revsi(
    data: Path,
    *,
    split: Literal["frames16", "frames32", "frames64", "all"] = "frames16",
    protocol: str = "revsi/lmms",
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        split: Number of frames of the videos. The right answers differ between splits, so a model
            has to see all frames of its split, and there is no `frames=`.
        protocol: `revsi/lmms` or `revsi/strict`.
    """
    root = data / "revsi" / f"{split.removeprefix('frames')}_frame"
    return table_task(
        "revsi",
        root,
        "test*.parquet",
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        forms=(AnswerForm.CHOICE, AnswerForm.NUMBER),
        videos=Videos((root,)),
        arguments={},
        version=2,
    )


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Return VSI-Bench's score of the stripped response, under the name of the question's kind."""
    sample, _, prediction = single_answer(unit, predictions)
    value = strict_value if strict else official_value
    text = (answer_text(prediction) or "").strip()
    return {sample.categories["type"]: Mean(value(sample, text))}


def read(sample: Sample, text: str, *, strict: bool) -> object:
    """Return what VSI-Bench's reader finds in the stripped response; None if it finds nothing."""
    return (reads_strict if strict else reads_official)(sample, text.strip())


PROTOCOLS = official_and_strict(
    "revsi",
    score,
    reads=read_by(read),
    metrics=(
        *(Metric(kind, about="accuracy or mean relative accuracy") for kind in KINDS),
        *(
            Metric(name, inputs=kinds, derived=mean_in_order, about="mean of its kinds")
            for name, kinds in GROUPS.items()
            if kinds
        ),
        Metric("overall", inputs=tuple(GROUPS), derived=mean_in_order, about="mean of seven types"),
    ),
    headline="overall",
    published="lmms",
    official="lmms-eval: the text before the first space counts",
    strict="only a stated letter, or the only number in a response",
)
PROTOCOLS = with_whole_responses(PROTOCOLS["revsi/lmms"]) | PROTOCOLS
