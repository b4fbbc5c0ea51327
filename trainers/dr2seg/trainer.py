"""DR2Seg: GRPO that also rewards short reasoning and self-contained descriptions.

harness train --method dr2seg --config qwen2_5_vl_7b_few_shot --model "dr2seg(checkpoint=DIR)"
    --train-tasks "reason_seg(split=train)" --data ROOT --out DIR
"""

from dataclasses import asdict, dataclass, replace

from harness.errors import UsageError
from harness.models.dr2seg.grammar import CANVAS, DR2Seg, Form
from harness.models.pipeline import PromptedModel
from harness.models.prompts import wording_of
from harness.models.visionreasoner.scoring import Semantics
from harness.options import with_options
from harness.trainers.dr2seg.masks import Masks, true_masks
from harness.trainers.dr2seg.rewards import ANCHOR, GAMMA, DR2SegReward, LocationAccuracy
from harness.trainers.dr2seg.second_pass import LONGEST, SecondPassPrompt
from harness.trainers.grpo.settings import Settings, refuse_unused
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.visionreasoner.objects import check


@dataclass(frozen=True, kw_only=True)
class DR2SegTrainer(GrpoTrainer):
    """GRPO with a second pass, which is worded by the model that is trained."""

    reward: DR2SegReward

    def bound(self, model: PromptedModel) -> "DR2SegTrainer":
        """Return the method with a second pass and a reward that use the model's prompt."""
        reward = self.reward
        if reward.form == "sam3":
            repaired = with_prompt(model, reward.form, strict=True)
            reward = replace(reward, accuracy=Masks(repaired))
        again = SecondPassPrompt(
            model=model,
            form=reward.form,
            max_new_tokens=self.settings.max_completion_length,
            longest=reward.longest,
        )
        needed = reward.describes or reward.shortens
        return replace(self, reward=reward, second=again if needed else None)


@dataclass(frozen=True, kw_only=True)
class DR2SegOptions:
    """Options of the rewards."""

    form: Form = "sam2"
    """`sam2`: rewards of boxes and points. `sam3`: of the mask that the model's segmenter makes of
    boxes and description."""
    r_desc: bool = True
    """Reward descriptions from which the same model finds the objects again."""
    r_len: bool = True
    """Multiply by the reward of short reasoning. The paper's zero-shot setting does not."""
    n0: int = ANCHOR
    """Tokens of reasoning that cost nothing."""
    gamma: float = GAMMA
    """Cost of each further token."""
    gate_threshold: float = 0.0
    """The length counts only in groups where some accuracy is above this. The paper's is 0, which
    in the `sam3` form one overlapping pixel passes; 0.5 is sensible."""
    len_floor: float = 0.0
    """The least that length leaves of a reward. The paper's is 0; more than that is a deviation,
    for models whose reasoning begins at N0 + 1 / γ tokens or more."""
    longest_description: int = LONGEST
    """Tokens; a longer one earns nothing."""
    second_temperature: float | None = None
    """Temperature of the second pass; 0 is greedy, which halves the noise of its reward. None: as
    the first pass, which keeps that reward a chance."""
    semantics: Semantics = "official"
    """Metric of the accuracy in the `sam2` form, as of `visionreasoner`."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, (int, float)) and not value >= 0:
                raise UsageError(f"dr2seg({name}=…)", expected="at least 0", found=str(value))
        if self.len_floor > 1:
            raise UsageError("dr2seg(len_floor=…)", expected="at most 1", found=str(self.len_floor))
        if self.form == "sam3":
            refuse_unused("dr2seg", "form=sam3", semantics=(self.semantics, "official"))


@with_options(DR2SegOptions, Settings, beta=1e-2, entropy_coef=1e-3)
def dr2seg(options: DR2SegOptions, settings: Settings) -> DR2SegTrainer:
    """DR2Seg (He et al. 2026) with GRPO: VisionReasoner's rewards, and two of the model's own.

    The defaults are the paper's few-shot setting. Settings that it does not state (divergence,
    temperature, clipping, entropy) are as in VisionReasoner's official code. Beside these, every
    setting of the GRPO engine can be given; `harness list trainers dr2seg` lists them.
    """
    reward = DR2SegReward(
        form=options.form,
        accuracy=LocationAccuracy(options.semantics),
        describes=options.r_desc,
        shortens=options.r_len,
        anchor=options.n0,
        gamma=options.gamma,
        gate_threshold=options.gate_threshold,
        len_floor=options.len_floor,
        longest=options.longest_description,
    )
    return DR2SegTrainer(
        name="dr2seg",
        settings=settings,
        second_temperature=options.second_temperature,
        reward=reward,
        own=asdict(options),
        with_prompt=lambda model: with_prompt(model, options.form),
        usable=true_masks if options.form == "sam3" else check,
    )


def with_prompt(model: PromptedModel, form: Form, *, strict: bool = False) -> PromptedModel:
    """The model with DR2Seg's prompt, on its own canvas or, if it has none, the paper's.

    The paper's words follow a newline: they are trained by VisionReasoner's code, which has it.
    """
    canvas, wording = model.prompt.resize or CANVAS, wording_of(model.prompt)
    prompt = DR2Seg(form, canvas, strict, wording, newline=wording == "paper")
    return replace(model, prompt=prompt)
