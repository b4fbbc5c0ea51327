"""Video-R1-260k (Feng et al., 2025): training questions of five types about images and videos.

`Video-R1-260k.json` is one JSON list; images and videos lie beside it, in folders by source:

    {"problem_id": 2, "problem": "What appears on the screen …?", "data_type": "video",
     "problem_type": "multiple choice", "options": ["A. …", "B. …"],
     "solution": "<answer>A</answer>", "path": "./LLaVA-Video-178K/…/ytb_7nRmsEw7nsE.mp4",
     "data_source": "LLaVA-Video-178K/30_60_s_youtube_v0_1"}
"""

from pathlib import Path
from typing import Literal

from harness.layout import file, folder
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.task import Videos, question_task
from harness.tasks.training.question_set import FORMS, question_set
from harness.tasks.training.scoring import ANSWERS as PROTOCOLS
from harness.tasks.training.subsets import RandomSubset

FIX = "`harness list tasks video_r1_260k` prints the source of the data."
QUESTIONS_FILE = "Video-R1-260k.json"


def video_r1_260k(
    data: Path,
    *,
    split: Literal["train"] = "train",
    medium: Literal["all", "image", "video"] = "all",
    sample: int | None = None,
    seed: int = 0,
    frames: int | Spec | None = None,
    protocol: str = "train/answers",
) -> Task:
    """One sample per question.

    Video-STR mixes 3,000 of them into its training: `video_r1_260k(sample=3000)`.

    Args:
        medium: Questions about images, about videos, or all.
        sample: Number of questions, drawn uniformly by `seed`; by default all.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `train/answers`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "video_r1_260k", fix=FIX)
    path = file(root / QUESTIONS_FILE, expected="the questions", fix=FIX)
    videos = Videos((root,), frames)
    question_format = question_set(
        "video_r1_260k",
        path,
        videos,
        RandomSubset(sample, seed),
        is_selected=lambda question: medium in ("all", question.categories["medium"]),
    )
    return question_task(
        question_format,
        "video_r1_260k",
        version=2,
        protocol=scoring,
        split=split,
        forms=FORMS,
        arguments={
            "medium": medium,
            "sample": sample,
            "seed": seed,
            "frames": str(videos.selection),
        },
    )
