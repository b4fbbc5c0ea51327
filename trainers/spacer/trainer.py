"""SpaceR: GRPO with a reward for the map that an answer was read from (SG-RLVR).

harness train --method spacer --model "spacer(checkpoint=…,frames=video_r1_train)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR --set maps=shapes
"""

from dataclasses import asdict

from harness.options import with_options
from harness.trainers.grpo.settings import Settings, refuse_unused
from harness.trainers.spacer.maps import categories, maps_extra
from harness.trainers.spacer.rewards import SpacerAccuracy, SpacerReward
from harness.trainers.video_r1.rewards import TemporalReward, check_sample
from harness.trainers.video_r1.shuffled import ShuffledFrames
from harness.trainers.video_str.trainer import SpokenTrainer, in_words_of


@with_options(
    Settings,
    num_generations=8,
    generation_batch_size=64,
    per_device_train_batch_size=1,
    max_completion_length=1024,
    loss_type="grpo",
    beta=0.04,
    lr_scheduler_type="cosine",
    weight_decay=0.01,
    max_grad_norm=5.0,
    top_p=0.95,
)
def spacer(
    settings: Settings,
    *,
    maps: str | None = None,
    with_maps: bool = True,
    temporal: bool = True,
    alpha: float = 0.3,
    mu: float = 0.8,
    length: bool = True,
    omega: float = 0.2,
    shortest: int = 320,
    longest: int = 512,
    order_seed: int = 0,
) -> SpokenTrainer:
    """SpaceR (arXiv 2504.01805): accuracy with its map, format, length, and T-GRPO's bonus.

    Args:
        maps: Where true maps are that targets do not carry: `shapes` (drawn again from the seed of
            generated data), or the official file of lines.
        with_maps: Score maps; without, the samples of Video-STR's Table 6 ("without map").
        temporal: Ask each question a second time with shuffled frames (T-GRPO).
        alpha: The bonus where the order of frames is of use.
        mu: How much of the shuffled frames' accuracy the ordered ones' has to reach.
        length: Reward the length of right answers.
        omega: How much.
        shortest: Fewest completion tokens that are rewarded.
        longest: Most completion tokens that are rewarded.
        order_seed: Of the shuffled orders.
    """
    if not temporal:
        refuse_unused(
            "spacer", "temporal=false", alpha=(alpha, 0.3), mu=(mu, 0.8), order_seed=(order_seed, 0)
        )
    accuracy = SpacerAccuracy(maps=with_maps)
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
        name="spacer",
        settings=settings,
        reward=SpacerReward(accuracy=accuracy, temporal=reward),
        usable=check_sample,
        own={
            **own,
            "maps": maps,
            "with_maps": with_maps,
            "temporal": temporal,
            "order_seed": order_seed,
        },
        with_prompt=in_words_of("spacer"),
        extra=maps_extra(maps if with_maps else None),
        listed_objects=categories if with_maps else lambda sample: (),
        contrast=(lambda model: ShuffledFrames(model, order_seed, settings.max_completion_length))
        if temporal
        else None,
    )
