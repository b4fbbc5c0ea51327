"""VisionReasoner: GRPO on boxes and points of several objects, with one reward for all tasks.

harness train --method visionreasoner --model "visionreasoner(checkpoint=FOLDER)"
    --train-tasks "reason_seg(split=train)" --data ROOT --out DIR
"""

from dataclasses import replace
from typing import Any

from harness.models.compose import PromptedModel
from harness.models.visionreasoner.grammar import CANVAS, VisionReasoner
from harness.trainers.grpo.settings import Settings, with_settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.objects import check
from harness.trainers.visionreasoner.rewards import Semantics, VisionReasonerReward


@with_settings(beta=1e-2, entropy_coefficient=1e-3)
def visionreasoner(*, semantics: Semantics = "official", **settings: Any) -> GrpoTrainer:
    """VisionReasoner (Liu et al. 2025) with GRPO: format, matched boxes and points, no repetition.

    The model is asked with VisionReasoner's prompt, whatever its own is; its canvas stays. The
    defaults are those of the official code. Beside `semantics`, every setting of the GRPO engine
    can be given; docs/training.md lists them.

    Args:
        semantics: Of the accuracy: `official`, as coded, or the `paper`'s wording.
    """
    return GrpoTrainer(
        name="visionreasoner",
        settings=Settings(**settings),
        reward=VisionReasonerReward(semantics),
        own={"semantics": semantics},
        fitted=fitted,
        usable=check,
    )


def fitted(model: PromptedModel) -> PromptedModel:
    """The model with VisionReasoner's prompt, on its own canvas or, if it has none, the paper's."""
    if isinstance(model.prompt, VisionReasoner):
        return model
    return replace(model, prompt=VisionReasoner(resize=model.prompt.resize or CANVAS))
