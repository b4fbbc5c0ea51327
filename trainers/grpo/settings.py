"""Settings of every training with GRPO; `with_options(Settings)` offers them with a method."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar, Literal

from harness.errors import UsageError
from harness.models.learning.loss_types import Level, LossType, Scale
from harness.options import Only
from harness.trainers.alarms import OnAlarm
from harness.trainers.settings import Range, TrainingSettings

METHOD, RANDOM = "method", "random"
"""Values of `reward` that are not names of plugins."""


@dataclass(frozen=True, kw_only=True)
class Settings(TrainingSettings):
    """Every hyper-parameter; what TRL, transformers, PEFT or vLLM has too is called as there.

    One round: `generation_batch_size` rollouts, `num_generations` of each prompt, one reward a
    rollout; then `num_iterations` optimiser steps on them.
    """

    RANGES: ClassVar[Mapping[str, Range]] = {
        **TrainingSettings.RANGES,
        "num_generations": (2, inf),
        "keep_rollouts": (0, inf),
        "revisit_probability": (1e-6, 1),
        "temperature": (1e-6, 100),
        "top_p": (1e-6, 1),
        "ema_decay": (0, 1),
        "infrastructure_limit": (0, 1),
        "reward_error_limit": (0, 1),
    }
    FREE = (
        *TrainingSettings.FREE,
        *("reward_errors", "reward_error_limit", "infrastructure_limit", "alarms"),
        *("generation_micro_batch_size", "keep_rollouts", "log_completions"),
    )
    LEARNING_RATES: ClassVar[Mapping[str, float]] = {"full": 1e-6, "lora": 2e-5}

    engine: Literal["harness", "trl"] = "harness"
    """`trl`: rollouts and steps by TRL's own trainer: one turn, images, one process."""
    num_generations: int = 8
    """Number of rollouts of a prompt."""
    generation_batch_size: int = 128
    """Rollouts a round, over all devices: a multiple of `num_generations`."""
    per_device_train_batch_size: int = 4
    """Rollouts on each device that gradients are computed for at once."""
    generation_micro_batch_size: Annotated[int | None, Only(vllm_mode=None)] = None
    """Rollouts on each device that are generated at once (not by vLLM); None: all of a round."""
    num_iterations: int = 1
    """Optimiser steps a round."""
    max_completion_length: int = 2000
    """Longest rollout, in tokens."""
    temperature: float = 1.0
    """Temperature of rollouts."""
    top_p: float = 1.0
    """Tokens are drawn from the likeliest that hold this share of the probability."""
    noise: Annotated[Literal["auto", "keyed", "torch"], Only(vllm_mode=None)] = "auto"
    """`keyed`: a token depends on seed, round, prompt, rollout and position alone; `torch`: drawn
    by PyTorch, which is faster on a GPU. `auto`: `keyed` on a CPU. Not with vLLM."""
    dynamic_sampling: bool = False
    """Write groups of further prompts in the place of those whose rewards are all equal, from which
    nothing is learned (DAPO)."""
    max_num_gen_batches: Annotated[int, Only(dynamic_sampling=True)] = 4
    """Largest number of times that a round generates, the first included. After that, groups of
    equal rewards fill it up."""
    revisit_probability: Annotated[float, Only(dynamic_sampling=True)] = 0.5
    """Chance that a prompt is shown again for each group in a row whose rewards were all equal
    (GRESO); 1: no prompt is skipped."""
    reward: str = "method"
    """`method`: the method's own; `random`, the control of an experiment: a uniform number in its
    place; else the name of a plugin (`harness list rewards`)."""

    loss_type: LossType = "bnpo"
    """Averaging of the tokens' losses."""
    importance_sampling_level: Level = "token"
    """Ratio of each token, or of a whole rollout (GSPO)."""
    mask_truncated_completions: bool = False
    """Leave rollouts that were cut out of the loss."""
    beta: float = 0.0
    """Weight of the divergence from the network that training began with."""
    epsilon: float = 0.2
    """Range below 1 in which the ratio of new to old probability counts."""
    epsilon_high: float | None = None
    """Range above 1 in which the ratio counts; None: `epsilon`. `cispo` wants the largest ratio
    itself, such as 5 (ScaleRL)."""
    scale_rewards: Annotated[Scale, Only(ema_decay=None)] = "group"
    """Divisor of advantages: the standard deviation of their group, of all, or 1 for None."""
    ema_decay: float | None = None
    """EMA-GRPO: the divisor is the standard deviation of a form of answer's rewards, by moving
    averages that keep this share in each round (OneThinker: 0.99). None: see `scale_rewards`."""
    entropy_coef: float = 0.0
    """Weight of the tokens' entropy in the loss; a larger one keeps the entropy higher."""

    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "constant_with_warmup"
    weight_decay: float = 0.01
    lora_r: Annotated[int, Only(finetune="lora")] = 64
    lora_alpha: Annotated[int, Only(finetune="lora")] = 128

    max_prompt_length: int | None = None
    """Largest number of tokens of a prompt; longer ones are left out, counted and named."""

    vllm_mode: Literal["colocate", "server"] | None = None
    """Rollouts by vLLM, on the same devices or by a server of TRL's (`trl vllm-serve`)."""

    infrastructure_limit: float = 0.05
    """Share of a round's rollouts that nodes, sandboxes, servers and judges may lose; above it the
    training stops before it learns from them."""
    reward_errors: Literal["stop", "drop"] = "stop"
    """A reward that raises, or gives no finite number, ends the training with a saved state; or its
    sample is left out of the round, noted, and counted as `frac_reward_errors`."""
    reward_error_limit: Annotated[float, Only(reward_errors="drop")] = 0.05
    """Share of the last 100 prompts that may be left out so; above it the training ends with a
    saved state."""
    alarms: OnAlarm = "note"
    """Action if a training goes nowhere: none, a note, or `stop` with a saved state."""
    log_completions: bool = False
    """Keep the prompts, completions, rewards and advantages that a round learns from as a table: in
    `completions/*.parquet`, and in W&B if `report_to` names it."""
    keep_rollouts: int = 2
    """Prompts a round whose rollouts are kept in rollouts.jsonl; 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.accumulation_steps(1)
        if self.loss_type == "cispo" and (self.epsilon_high is None or self.epsilon_high < 1):
            raise UsageError(
                f"loss_type=cispo and epsilon_high={self.epsilon_high}",
                expected="the largest ratio of new to old probability, at least 1",
                found="none" if self.epsilon_high is None else "a limit that all tokens are beyond",
                fix="epsilon_high=5, as in ScaleRL (arXiv:2510.13786).",
            )

    @property
    def images_only(self) -> str | None:
        """The setting, as `NAME=VALUE`, because of which TRL sees images only; None: no setting."""
        if self.vllm_mode is not None:
            return f"vllm_mode={self.vllm_mode}"
        return "engine=trl" if self.engine == "trl" else None

    @property
    def steps_per_round(self) -> int:
        """`num_iterations`."""
        return self.num_iterations

    def samples_per_round(self, processes: int = 1) -> int:
        """Return the number of prompts that a round draws, over all processes."""
        del processes  # `generation_batch_size` is over all
        return self.generation_batch_size // self.num_generations

    def accumulation_steps(self, processes: int) -> int:
        """Return the number of batches of a round on each device.

        Raises:
            UsageError: a round does not divide into whole groups and batches for each process.
        """
        n_rollouts, size = self.generation_batch_size // processes, self.per_device_train_batch_size
        divisor = processes * self.num_generations
        if self.generation_batch_size % divisor or n_rollouts % size:
            raise UsageError(
                f"generation_batch_size={self.generation_batch_size}",
                expected=f"a multiple of {divisor}, num_generations={self.num_generations} times "
                f"{processes} processes, whose share per_device_train_batch_size={size} divides",
                found=f"{n_rollouts} rollouts for each process",
                fix="Change generation_batch_size, or lower per_device_train_batch_size with it.",
            )
        return n_rollouts // size
