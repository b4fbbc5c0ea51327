"""VR-TTRL offline (Table 11): GRPO on training samples, rewarded by the consensus of rollouts.

harness train --method vr_ttrl --model "pocket(checkpoint=pocket-base)"
    --train-tasks "reason_seg(split=train)" --data ROOT --out DIR
"""

from functools import partial
from typing import Annotated, Literal

from harness.models.visionreasoner.scoring import THRESHOLDS, Semantics
from harness.options import with_options
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.trainer import with_prompt
from harness.trainers.vr_ttrl.rewards import ConsensusReward


@with_options(
    Settings,
    generation_batch_size=8,
    temperature=0.6,
    learning_rate=5e-7,
    beta=1e-2,
    freeze_vision=True,
)
def vr_ttrl(
    settings: Settings,
    *,
    thresholds: Annotated[Literal["loose", "base", "strict"], OF_REWARD] = "base",
    semantics: Annotated[Semantics, OF_REWARD] = "official",
) -> GrpoTrainer:
    """VR-TTRL's objective on training samples, whose targets it does not see (VR-TTRL, Table 11).

    The reward of a rollout is VisionReasoner's, with the rollout that the others agree with most in
    the place of the ground truth. One prompt a step, as at test time. Beside this, every setting of
    the GRPO engine can be given; docs/training.md lists them.

    Args:
        thresholds: Limits from which objects of two responses match.
        semantics: Accuracy of one rollout against another: `official`, as VisionReasoner's code
            has it, or the `paper`'s words.
    """
    return GrpoTrainer(
        name="vr_ttrl",
        settings=settings,
        reward=ConsensusReward(THRESHOLDS[thresholds], semantics),
        own={"thresholds": thresholds, "semantics": semantics},
        with_prompt=partial(with_prompt, newline=False),
        unlabelled=True,
    )
