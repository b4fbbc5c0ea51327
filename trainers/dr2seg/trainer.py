"""DR2Seg: GRPO that also rewards short reasoning and self-contained descriptions.

harness train --method dr2seg --config qwen2_5_vl_7b_few_shot --model "dr2seg(checkpoint=DIR)"
    --train-tasks "reason_seg(split=train)" --data ROOT --out DIR
"""

from dataclasses import dataclass, replace

from harness.models.dr2seg.grammar import CANVAS, DR2Seg, Form
from harness.models.pipeline import PromptedModel
from harness.models.prompts import wording_of
from harness.options import with_options
from harness.trainers.dr2seg.masks import MaskAccuracy, true_masks
from harness.trainers.dr2seg.rewards import DR2SegReward
from harness.trainers.dr2seg.second_pass import SecondPassPrompt
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.objects import check


@dataclass(frozen=True, kw_only=True)
class DR2SegTrainer(GrpoTrainer):
    """GRPO with a second pass; the prompt of the trained model builds its requests."""

    reward: DR2SegReward

    def bound(self, model: PromptedModel) -> "DR2SegTrainer":
        """Return the method with a second pass and a reward that use the model's prompt."""
        reward = self.reward
        if reward.form == "sam3":
            strict_model = with_prompt(model, reward.form, strict=True)
            reward = replace(reward, accuracy=MaskAccuracy(strict_model))
        second_prompt = SecondPassPrompt(
            model=model,
            form=reward.form,
            max_new_tokens=self.settings.max_completion_length,
            longest=reward.longest_description,
        )
        needs_second = reward.r_desc or reward.r_len
        return replace(
            self,
            reward=reward,
            second=second_prompt if needs_second else None,
            second_tokens=reward.longest_description,  # in the place of the question
        )


@with_options(DR2SegReward, Settings, without=("accuracy",), beta=1e-2, entropy_coef=1e-3)
def dr2seg(reward_settings: DR2SegReward, settings: Settings) -> DR2SegTrainer:
    """DR2Seg (He et al. 2026) with GRPO: VisionReasoner's rewards, and two of the model's own.

    The defaults are the paper's few-shot setting. Settings that it does not state (divergence,
    temperature, clipping, entropy) are those of VisionReasoner's official code. Every setting of
    the GRPO engine can be given, too; `harness list trainers dr2seg` lists them.
    """
    return DR2SegTrainer(
        name="dr2seg",
        settings=settings,
        second_temperature=reward_settings.second_temperature,
        reward=reward_settings,
        own={name: value for name, value in vars(reward_settings).items() if name != "accuracy"},
        with_prompt=lambda model: with_prompt(model, reward_settings.form),
        usable=true_masks if reward_settings.form == "sam3" else check,
    )


def with_prompt(model: PromptedModel, form: Form, *, strict: bool = False) -> PromptedModel:
    """Return the model with DR2Seg's prompt and its own canvas, or else the paper's.

    A newline precedes the paper's prompt, as in VisionReasoner's training code, which DR2Seg uses.
    """
    canvas, wording = model.prompt.resize or CANVAS, wording_of(model.prompt)
    prompt = DR2Seg(form, canvas, strict, wording, newline=wording == "paper")
    return replace(model, prompt=prompt)
