"""MVBench: twenty tasks on short videos, 200 questions each.

A record of `json/<task>.json`; it has `start` and `end`, in seconds, if a question is about a part
of the video:

    {"video": "ZS9XR.mp4", "question": "What happened after …?", "candidates": ["…", "…"],
     "answer": "…", "start": 0.0, "end": 15.3}

The hub has two releases. The branch `main` has whole videos, in archives; the branch `video`, which
lmms-eval uses, has these parts as separate files, such as `ZS9XR_0.0_15.3.mp4`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import file, folder
from harness.metrics.author_readers import is_mvbench_option
from harness.metrics.letter_readers import mvbench_choice
from harness.scores import Mean, Ratio, Scores
from harness.spec import Spec
from harness.task import Task, choose, single_answer
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.qa.letters import ACCURACY, Reading, Subtasks, any_letters, letter_protocols
from harness.tasks.qa.options import response
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.types import Prediction, Sample

FIX = "`harness list tasks mvbench` prints the source of the data."
FOLDERS = {
    "action_sequence": "star/Charades_v1_480",
    "action_prediction": "star/Charades_v1_480",
    "action_antonym": "ssv2_video",
    "fine_grained_action": "Moments_in_Time_Raw/videos",
    "unexpected_action": "FunQA_test/test",
    "object_existence": "clevrer/video_validation",
    "object_interaction": "star/Charades_v1_480",
    "object_shuffle": "perception/videos",
    "moving_direction": "clevrer/video_validation",
    "action_localization": "sta/sta_video",
    "scene_transition": "scene_qa/video",
    "action_count": "perception/videos",
    "moving_count": "clevrer/video_validation",
    "moving_attribute": "clevrer/video_validation",
    "state_change": "perception/videos",
    "fine_grained_pose": "nturgbd",
    "character_order": "perception/videos",
    "egocentric_navigation": "vlnqa",
    "episodic_reasoning": "tvqa/frames_fps3_hq",
    "counterfactual_inference": "clevrer/video_validation",
}
"""Folder of the videos of each task, below `video` (branch `main`)."""
LATER_FOLDER = "data0613"
"""Folder beside FOLDERS, from the archive of videos that were added later; it repeats their names.
"""
CUT_FOLDERS = {
    "star/Charades_v1_480": "star/Charades_segment",
    "ssv2_video": "ssv2_video_mp4",
    "sta/sta_video": "sta/sta_video_segment",
    "nturgbd": "nturgbd_convert",
    "tvqa/frames_fps3_hq": "tvqa/video_fps3_hq_segment",
}
"""Names in the branch `video` of those FOLDERS that it calls otherwise; they lie beside `json`."""
FRAMES_PER_SECOND = 3.0  # of videos that are folders of frames
FIELDS = Fields(
    id="{_file}/{_index}",
    media="{video}",
    options="candidates",
    form="option",
    clip=("start", "end"),
    categories={"task": "_file"},
    allowed_values={"_file": tuple(FOLDERS)},
)


def mvbench(
    data: Path,
    *,
    split: Literal["test"] = "test",
    clips: Literal["clipped", "whole"] = "clipped",
    frames: int | Spec | None = None,
    protocol: str = "mvbench/official",
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        clips: `clipped`: only the part of a video that a question is about, as officially; `whole`:
            the whole video, which changes scores by several points and needs the branch `main`.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `mvbench/official` or `mvbench/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "mvbench", fix=FIX)
    files = tuple(file(root / "json" / f"{name}.json", fix=FIX) for name in FOLDERS)
    is_cut = _is_cut(root)
    if is_cut and clips == "whole":
        raise UsageError(
            "mvbench(clips=whole)",
            expected="the videos of the hub's branch main, below video",
            found=f"those of its branch video, which are cut, in {root}",
        )
    video_root = root if is_cut else root / "video"
    videos = {}
    for task, name in FOLDERS.items():
        subfolder = CUT_FOLDERS.get(name, name) if is_cut else name
        videos[task] = Videos(
            (video_root / subfolder, video_root / LATER_FOLDER / subfolder),
            frames,
            frames_per_second=FRAMES_PER_SECOND,
        )

    def read() -> Iterator[Question | DataError]:
        """Yield the questions, without `clip` if the video files are cut or are shown whole."""
        for question in FIELDS.questions(files):
            if (is_cut or clips == "whole") and isinstance(question, Question):
                question = replace(question, clip=None)
            yield question

    question_format = QuestionFormat(
        files=files,
        read=read,
        open=lambda question: videos[question.categories["task"]].open(question),
        problems=lambda question: videos[question.categories["task"]].problems(question),
    )
    arguments = {"clips": clips, "frames": "all" if frames is None else str(frames)}
    if is_cut:
        arguments["branch"] = "video"
    return question_task(
        question_format, "mvbench", version=2, protocol=scoring, split=split, arguments=arguments
    )


def _is_cut(root: Path) -> bool:
    """Return True if there are videos of the branch `video`, and none of `main`."""
    names = (*FOLDERS.values(), LATER_FOLDER)
    if any((root / "video" / name).is_dir() for name in names):
        return False
    return any((root / CUT_FOLDERS.get(name, name)).is_dir() for name in names)


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the accuracy by `check_ans` of the authors' notebook.

    A prediction without a response is wrong, but `check_ans` accepts an empty response.
    """
    _, target, prediction = single_answer(unit, predictions)
    text = answer_text(prediction)
    right = text is not None and is_mvbench_option(text, target.extra["letter"])
    return {"accuracy": Mean(float(right))}


def read_option(text: str, letters: str) -> str | None:
    """Return the first letter that `check_ans` accepts for a text; None if it accepts none."""
    return next((letter for letter in letters if is_mvbench_option(text, letter)), None)


def score_lmms(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return lmms-eval's accuracy (`mvbench_aggregate_results`) without empty responses."""
    _, target, prediction = single_answer(unit, predictions)
    _, letter = response(prediction, mvbench_choice)
    weight = float(answer_text(prediction) != "")
    return {"accuracy": Ratio(float(letter == target.extra["letter"]), weight)}


PROTOCOLS = letter_protocols(
    "mvbench",
    official=Reading(
        read_option,
        "check_ans of mvbench.ipynb: the first word; the share of questions",
        score=score_official,
        headline="accuracy",
    ),
    lmms=Reading(
        any_letters(mvbench_choice),
        "lmms-eval: the first A to E, alone, in either case; empty responses are left out",
        score=score_lmms,
        accuracy=f"{ACCURACY}, of those with a response",
    ),
    subtasks=Subtasks("task", tuple(FOLDERS)),
    whole=("official",),
)
