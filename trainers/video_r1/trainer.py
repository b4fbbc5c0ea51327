"""Video-R1: GRPO with T-GRPO's contrast between frames in order and shuffled.

harness train --method video_r1 --model "video_r1(checkpoint=…,frames=video_r1_train)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR
"""

from dataclasses import asdict

from harness.options import with_options
from harness.trainers.grpo.settings import Settings, refuse_unused
from harness.trainers.video_r1.rewards import (
    Numbers,
    TemporalReward,
    VideoR1Accuracy,
    check_sample,
)
from harness.trainers.video_r1.shuffled import ShuffledFrames
from harness.trainers.video_str.trainer import SpokenTrainer, in_words_of


@with_options(
    Settings,
    num_generations=8,
    generation_batch_size=32,
    per_device_train_batch_size=1,
    max_completion_length=768,
    loss_type="grpo",
    beta=0.04,
    lr_scheduler_type="cosine",
    weight_decay=0.01,
    max_grad_norm=5.0,
    top_p=0.95,
)
def video_r1(
    settings: Settings,
    *,
    temporal: bool = True,
    alpha: float = 0.3,
    mu: float = 0.8,
    length: bool = True,
    omega: float = 0.2,
    shortest: int = 320,
    longest: int = 512,
    numbers: Numbers = "regression",
    order_seed: int = 0,
) -> SpokenTrainer:
    """Video-R1 (arXiv 2503.21776): accuracy, format, length, and a bonus where the order helps.

    Args:
        temporal: Ask each question a second time with shuffled frames (T-GRPO); without, GRPO.
        alpha: The bonus.
        mu: How much of the shuffled frames' accuracy the ordered ones' has to reach.
        length: Reward the length of right answers.
        omega: How much.
        shortest: Fewest completion tokens that are rewarded.
        longest: Most completion tokens that are rewarded.
        numbers: How a number is scored whose sample does not say: by its relative error, or only
            if two decimals agree.
        order_seed: Of the shuffled orders.
    """
    if not temporal:
        refuse_unused(
            "video_r1",
            "temporal=false",
            alpha=(alpha, 0.3),
            mu=(mu, 0.8),
            order_seed=(order_seed, 0),
        )
    accuracy = VideoR1Accuracy(numbers=numbers)
    reward = TemporalReward(
        accuracy=accuracy,
        alpha=alpha,
        mu=mu,
        omega=omega if length else 0.0,
        shortest=shortest,
        longest=longest,
    )
    own = {name: value for name, value in asdict(reward).items() if name != "accuracy"}
    return SpokenTrainer(
        name="video_r1",
        settings=settings,
        reward=reward,
        usable=check_sample,
        own={**own, "temporal": temporal, "numbers": numbers, "order_seed": order_seed},
        with_prompt=in_words_of("video_r1", aid="off"),
        listed_objects=lambda sample: (),
        contrast=(lambda model: ShuffledFrames(model, order_seed, settings.max_completion_length))
        if temporal
        else None,
    )
