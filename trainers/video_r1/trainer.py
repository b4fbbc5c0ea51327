"""Video-R1: GRPO with T-GRPO's contrast between frames in order and shuffled.

harness train --method video_r1 --model "video_r1(checkpoint=…,frames=video_r1_train)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR
"""

from dataclasses import replace
from typing import Annotated

from harness.options import with_options
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.settings import Settings
from harness.trainers.video_r1.rewards import (
    Numbers,
    TemporalReward,
    VideoR1Accuracy,
    check_sample,
)
from harness.trainers.video_str.trainer import PAPER_DEFAULTS, TextAnswerTrainer, answer_prompt_of


@with_options(
    TemporalReward,
    Settings,
    without=("accuracy",),
    **PAPER_DEFAULTS,
    generation_batch_size=32,
    max_completion_length=768,
)
def video_r1(
    temporal: TemporalReward,
    settings: Settings,
    *,
    numbers: Annotated[Numbers, OF_REWARD] = "regression",
) -> TextAnswerTrainer:
    """Video-R1 (arXiv 2503.21776): accuracy, format, length, and a bonus where the order helps.

    Args:
        temporal: True: ask each question a second time with shuffled frames (T-GRPO). False: GRPO.
        settings: Settings of GRPO.
        numbers: Scoring of a number if its sample does not say: by its relative error
            (`regression`), or 1 only if two decimals agree (`numerical`).
    """
    return TextAnswerTrainer(
        name="video_r1",
        settings=settings,
        reward=replace(temporal, accuracy=VideoR1Accuracy(numbers)),
        usable=check_sample,
        own={**temporal.record(), "numbers": numbers},
        with_prompt=answer_prompt_of("video_r1", aid="off"),
        listed_objects=lambda sample: (),
        contrast=temporal.contrast(settings.max_completion_length),
    )
