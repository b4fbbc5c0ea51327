"""VisionReasoner: GRPO on boxes and points of several objects, with one reward for all tasks.

harness train --method visionreasoner --model "visionreasoner(checkpoint=FOLDER)"
    --train-tasks "reason_seg(split=train)" --data ROOT --out DIR
"""

from typing import Any

from harness.trainers.grpo.settings import Settings, with_settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.objects import check
from harness.trainers.visionreasoner.rewards import Semantics, VisionReasonerReward


@with_settings(beta=1e-2, entropy_coefficient=1e-3)
def visionreasoner(*, semantics: Semantics = "official", **settings: Any) -> GrpoTrainer:
    """VisionReasoner (Liu et al. 2025) with GRPO: format, matched boxes and points, no repetition.

    The defaults are those of the official code. Beside `semantics`, every setting of the GRPO
    engine can be given; docs/training.md lists them.

    Args:
        semantics: Of the accuracy: `official`, as coded, or the `paper`'s wording.
    """
    return GrpoTrainer(
        name="visionreasoner",
        settings=Settings(**settings),
        reward=VisionReasonerReward(semantics),
        own={"semantics": semantics},
        usable=check,
    )
