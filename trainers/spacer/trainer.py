"""SpaceR: GRPO with a reward for the map that an answer was read from (SG-RLVR).

harness train --method spacer --model "spacer(checkpoint=…,frames=video_r1_train)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR --set maps=shapes
"""

from dataclasses import replace
from typing import Annotated

from harness.options import Only, with_options
from harness.trainers.grpo.settings import Settings
from harness.trainers.spacer.maps import categories, maps_extra
from harness.trainers.spacer.rewards import SpacerAccuracy, SpacerReward
from harness.trainers.video_r1.rewards import TemporalReward, check_sample
from harness.trainers.video_str.trainer import PAPER_DEFAULTS, TextAnswerTrainer, answer_prompt_of


@with_options(
    TemporalReward,
    Settings,
    without=("accuracy",),
    **PAPER_DEFAULTS,
    generation_batch_size=64,
    max_completion_length=1024,
)
def spacer(
    temporal: TemporalReward,
    settings: Settings,
    *,
    maps: Annotated[str | None, Only(with_maps=True)] = None,
    with_maps: bool = True,
) -> TextAnswerTrainer:
    """SpaceR (arXiv 2504.01805): accuracy with its map, format, length, and T-GRPO's bonus.

    Args:
        temporal: Ask each question a second time with shuffled frames (T-GRPO).
        settings: Settings of GRPO.
        maps: Source of the true maps, for targets that do not carry them: `shapes` (computed again
            from the seed of generated data), or the path of the official JSON Lines file.
        with_maps: True: the reward includes the map. False: train without maps, as in the row
            "without map" of Video-STR's Table 6.
    """
    accuracy = SpacerAccuracy(maps=with_maps)
    return TextAnswerTrainer(
        name="spacer",
        settings=settings,
        reward=SpacerReward(accuracy=accuracy, temporal=replace(temporal, accuracy=accuracy)),
        usable=check_sample,
        own={**temporal.record(), "maps": maps, "with_maps": with_maps},
        with_prompt=answer_prompt_of("spacer"),
        extra=maps_extra(maps if with_maps else None),
        listed_objects=categories if with_maps else lambda sample: (),
        contrast=temporal.contrast(settings.max_completion_length),
    )
