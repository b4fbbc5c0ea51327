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

    The model gets VisionReasoner's prompt instead of its own, and keeps its canvas. The defaults
    are those of the official code. Every setting of the GRPO engine can be given, too;
    `harness list trainers visionreasoner` lists them.

    Args:
        semantics: Accuracy as in the official code (`official`), or as the `paper` says.
        newline: Put a newline between image and prompt, as the official training does. The
            official evaluation and `pocket`'s training have none.
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
    """Return the model with VisionReasoner's prompt and its own canvas, or else the paper's."""
    prompt = model.prompt
    if not isinstance(prompt, VisionReasoner):
        prompt = VisionReasoner(resize=prompt.resize or CANVAS)
    return replace(model, prompt=replace(prompt, newline=newline))
