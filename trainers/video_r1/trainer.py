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
from harness.trainers.video_str.trainer import RUNS, SpokenTrainer, in_words_of


@with_options(
    TemporalReward,
    Settings,
    without=("accuracy",),
    **RUNS,
    generation_batch_size=32,
    max_completion_length=768,
)
def video_r1(
    temporal: TemporalReward,
    settings: Settings,
    *,
    numbers: Annotated[Numbers, OF_REWARD] = "regression",
) -> SpokenTrainer:
    """Video-R1 (arXiv 2503.21776): accuracy, format, length, and a bonus where the order helps.

    Args:
        temporal: Ask each question a second time with shuffled frames (T-GRPO); without, GRPO.
        settings: Of the engine.
        numbers: How a number is scored whose sample does not say: by its relative error, or only
            if two decimals agree.
    """
    return SpokenTrainer(
        name="video_r1",
        settings=settings,
        reward=replace(temporal, accuracy=VideoR1Accuracy(numbers)),
        usable=check_sample,
        own={**temporal.record(), "numbers": numbers},
        with_prompt=in_words_of("video_r1", aid="off"),
        listed_objects=lambda sample: (),
        contrast=temporal.contrast(settings.max_completion_length),
    )
