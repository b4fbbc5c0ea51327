"""Settings of every training with GRPO; `with_options(Settings)` offers them with a method."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any, Literal

from harness.errors import UsageError
from harness.models.learning.loss_types import LossType, Scale

RANGES: Mapping[object, tuple[float, float]] = {
    **{"num_generations": (2, inf), "warmup_steps": (0, inf), "keep_rollouts": (0, inf)},
    **{"temperature": (1e-6, 100), "top_p": (1e-6, 1), "ema_decay": (0, 1)},
    **{int: (1, inf), int | None: (1, inf), float: (0, inf), float | None: (0, inf)},
}
"""Least and greatest value of a setting, by its name or else its type."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every hyper-parameter; what TRL, transformers, PEFT or vLLM has too is called as there.

    One round: `generation_batch_size` rollouts, `num_generations` of each prompt, one reward a
    rollout; then `num_iterations` optimiser steps on them.
    """

    num_generations: int = 8
    """Number of rollouts of a prompt."""
    generation_batch_size: int = 128
    """Rollouts a round, over all devices: a multiple of `num_generations`."""
    per_device_train_batch_size: int = 4
    """Rollouts on each device that gradients are computed for at once."""
    generation_micro_batch_size: int | None = None
    """Rollouts on each device that are written at once, but by vLLM; None: all of a round."""
    num_iterations: int = 1
    """Optimiser steps a round."""
    max_completion_length: int = 2000
    """Longest rollout, in tokens."""
    temperature: float = 1.0
    """Temperature of rollouts."""
    top_p: float = 1.0
    """Tokens are drawn from the likeliest that hold this share of the probability."""
    noise: Literal["auto", "keyed", "torch"] = "auto"
    """`keyed`: a token depends on seed, round, prompt, rollout and position alone; `torch`: drawn
    by PyTorch, which is faster on a GPU. `auto`: `keyed` on a CPU. Not with vLLM."""
    reward: Literal["method", "random"] = "method"
    """`random` is the control of an experiment: a uniform number takes the reward's place."""

    loss_type: LossType = "bnpo"
    """Averaging of tokens."""
    beta: float = 0.0
    """Weight of the divergence from the network that training began with."""
    epsilon: float = 0.2
    """Range below 1 in which the ratio of new to old probability counts."""
    epsilon_high: float | None = None
    """Range above 1 in which the ratio counts; None: `epsilon`."""
    scale_rewards: Scale = "group"
    """Divisor of advantages: the standard deviation of their group, of all, or 1 for None."""
    ema_decay: float | None = None
    """EMA-GRPO: the divisor is the standard deviation of a form of answer's rewards, by moving
    averages that keep this share a round (OneThinker: 0.99). None: `scale_rewards` says it."""
    entropy_coef: float = 0.0
    """Weight of the entropy of tokens, which is kept high."""

    learning_rate: float | None = None
    """Peak of the learning rate; None: 1e-6, or 2e-5 for an adapter."""
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "constant_with_warmup"
    """Course of the learning rate after the warm-up."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises from 0."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient; 0: no limit."""
    num_train_epochs: float = 1.0
    """Passes over the samples."""
    max_steps: int | None = None
    """Optimiser steps, whatever `num_train_epochs` says."""
    max_prompt_length: int | None = None
    """Prompts of more tokens are left out, counted and named."""

    finetune: Literal["full", "lora"] = "full"
    """All weights, or an adapter that is merged into them at the end."""
    lora_r: int = 64
    """Rank of the adapter's matrices."""
    lora_alpha: int = 128
    """The adapter is scaled by this over its rank."""
    lora_layers: Literal["language", "all"] = "language"
    """Linear layers of the language model, or of the vision tower too."""
    freeze_vision: bool = False
    """Train the language model, and the layers that merge patches for it."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights while training; `auto`: the type that the checkpoint was saved in."""
    bf16: bool = False
    """Compute in bfloat16 whatever the weights' type is."""
    gradient_checkpointing: bool = False
    """Compute activations twice to keep fewer."""
    deepspeed: str | None = None
    """`zero3`, or the path of a DeepSpeed configuration."""
    vllm_mode: Literal["colocate", "server"] | None = None
    """Rollouts by vLLM, on the same devices or by a server of TRL's (`trl vllm-serve`)."""

    save_steps: int = 100
    """Steps between states that a training can go on from; the last step is one."""
    keep_rollouts: int = 2
    """Prompts a round whose rollouts are kept in rollouts.jsonl; 0: none."""
    report_to: str | None = "auto"
    """`tensorboard`, `wandb` or `tensorboard+wandb`; `auto`: TensorBoard if it is installed."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value, bounds = getattr(self, one.name), RANGES.get(one.name, RANGES.get(one.type))
            if value is not None and bounds is not None and not bounds[0] <= value <= bounds[1]:
                expected = "{} to {}".format(*bounds)
                raise UsageError(f"{one.name}=…", expected=expected, found=str(value))
        self.accumulation_steps(1)
        if self.finetune == "lora" and self.freeze_vision and self.lora_layers == "all":
            raise UsageError(
                "finetune=lora and freeze_vision",
                expected="lora_layers=language, where the vision tower is not adapted",
                found="lora_layers=all",
            )
        if self.ema_decay is not None:
            refuse_unused("GRPO", "ema_decay", scale_rewards=(self.scale_rewards, "group"))
        if self.vllm_mode is not None:  # which draws tokens by itself
            refuse_unused("GRPO", f"vllm_mode={self.vllm_mode}", noise=(self.noise, "auto"))

    @property
    def prompts_per_round(self) -> int:
        """Prompts that a round draws, over all devices."""
        return self.generation_batch_size // self.num_generations

    @property
    def peak_learning_rate(self) -> float:
        """`learning_rate`, or that of `finetune`; an adapter wants 20 to 100 times more."""
        usual = 2e-5 if self.finetune == "lora" else 1e-6
        return usual if self.learning_rate is None else self.learning_rate

    def describe(self) -> dict[str, Any]:
        """Return every setting as resolved, but those that change nothing of what is learned."""
        aside = ("generation_micro_batch_size", "keep_rollouts", "report_to")
        plain = {name: value for name, value in asdict(self).items() if name not in aside}
        return {**plain, "learning_rate": self.peak_learning_rate}

    def accumulation_steps(self, processes: int) -> int:
        """Return the batches of a round on each device; UsageError if it does not divide."""
        own, each = self.generation_batch_size // processes, self.per_device_train_batch_size
        whole = processes * self.num_generations
        if self.generation_batch_size % whole or own % each:
            raise UsageError(
                f"generation_batch_size={self.generation_batch_size}",
                expected=f"a multiple of {whole}, num_generations={self.num_generations} times "
                f"{processes} processes, whose share per_device_train_batch_size={each} divides",
                found=f"{own} rollouts for each process",
                fix="Change generation_batch_size, or lower per_device_train_batch_size with it.",
            )
        return own // each

    def steps(self, samples: int) -> int:
        """Return optimiser steps for so many samples; a part of a round at the end is a whole."""
        if self.max_steps is not None:
            return self.max_steps
        rounds = -(-self.num_train_epochs * samples // self.prompts_per_round)
        return max(1, int(rounds)) * self.num_iterations


def refuse_unused(method: str, why: str, **given: tuple[object, object]) -> None:
    """Raise UsageError for settings, (given, default) by name, that `why` makes idle."""
    idle = [f"{name}={value}" for name, (value, usual) in given.items() if value != usual]
    if idle:
        raise UsageError(
            f"{method} with {why}",
            expected="settings that change something",
            found=", ".join(idle),
            fix=f"Leave {' and '.join(idle)} out, or {why}.",
        )
