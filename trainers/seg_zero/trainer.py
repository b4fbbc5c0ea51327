"""Seg-Zero: GRPO on the box and two points of one object.

harness train --method seg_zero --model "seg_zero(checkpoint=FOLDER)"
    --train-tasks "refcocog(split=train)" --data ROOT --out DIR
"""

from dataclasses import replace
from typing import Annotated

from harness.models.pipeline import PromptedModel
from harness.models.prompts import wording_of
from harness.models.seg_zero.grammar import SegZero
from harness.options import with_options
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.seg_zero.rewards import SegZeroReward, Semantics, ground_truth


@with_options(
    Settings,
    beta=5e-3,
    entropy_coef=1e-3,
    max_completion_length=1300,
    per_device_train_batch_size=1,
)
def seg_zero(
    settings: Settings, *, semantics: Annotated[Semantics, OF_REWARD] = "strict"
) -> GrpoTrainer:
    """Seg-Zero (Liu et al. 2025) with GRPO: format, box and two points of one object.

    The model gets Seg-Zero's prompt instead of its own; its canvas stays. Beside `semantics`, every
    setting of the GRPO engine can be given; `harness list trainers seg_zero` lists them.

    Args:
        semantics: Rule for keys and values of the answer: `soft`, or `strict`, the paper's best.
    """
    return GrpoTrainer(
        name="seg_zero",
        settings=settings,
        reward=SegZeroReward(semantics),
        own={"semantics": semantics},
        with_prompt=with_prompt,
        usable=ground_truth,
    )


def with_prompt(model: PromptedModel) -> PromptedModel:
    """Return the model with Seg-Zero's prompt, on its own canvas."""
    prompt = SegZero(resize=model.prompt.resize, wording=wording_of(model.prompt))
    return replace(model, prompt=prompt)
