"""VisionReasoner: GRPO on boxes and points of several objects, with one reward for all tasks.

harness train --method visionreasoner --model "visionreasoner(checkpoint=FOLDER)"
    --train-tasks "reason_seg(split=train)" --data ROOT --out DIR
"""

from dataclasses import replace
from functools import partial
from typing import Annotated

from harness.models.pipeline import PromptedModel
from harness.models.visionreasoner.grammar import CANVAS, VisionReasoner
from harness.models.visionreasoner.scoring import Semantics
from harness.options import with_options
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.objects import check
from harness.trainers.visionreasoner.rewards import VisionReasonerReward


@with_options(Settings, beta=1e-2, entropy_coef=1e-3)
def visionreasoner(
    settings: Settings,
    *,
    semantics: Annotated[Semantics, OF_REWARD] = "official",
    newline: bool = True,
) -> GrpoTrainer:
    """VisionReasoner (Liu et al. 2025) with GRPO: format, matched boxes and points, no repetition.

    The model gets VisionReasoner's prompt instead of its own; its canvas stays. The defaults are
    those of the official code. Beside these, every setting of the GRPO engine can be given;
    `harness list trainers visionreasoner` lists them.

    Args:
        semantics: Of the accuracy: `official`, as coded, or the `paper`'s wording.
        newline: Between image and prompt, as in the official training, whose checkpoints are
            evaluated without. `pocket` was taught without.
    """
    return GrpoTrainer(
        name="visionreasoner",
        settings=settings,
        reward=VisionReasonerReward(semantics),
        own={"semantics": semantics, "newline": newline},
        with_prompt=partial(with_prompt, newline=newline),
        usable=check,
    )


def with_prompt(model: PromptedModel, *, newline: bool) -> PromptedModel:
    """The model with VisionReasoner's prompt, on its own canvas or, if it has none, the paper's."""
    own = model.prompt
    if not isinstance(own, VisionReasoner):
        own = VisionReasoner(resize=own.resize or CANVAS)
    return replace(model, prompt=replace(own, newline=newline))
