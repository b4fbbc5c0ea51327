"""What can be set of every training with GRPO, and how a method's plugin function offers it."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypeVar

from harness.errors import UsageError
from harness.trainers.grpo.loss import UNCLIPPED, LossType

Scheduler: TypeAlias = Literal["constant_with_warmup", "linear", "cosine"]
LEARNING_RATES: Mapping[str, float] = {"full": 1e-6, "lora": 2e-5}
"""Learning rates where none is given; an adapter wants 20 to 100 times more."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every hyper-parameter of a training with GRPO.

    One round: `generation_batch_size` rollouts, `num_generations` of each prompt, one reward a
    rollout; then `num_iterations` optimiser steps on them. What TRL, transformers, PEFT or vLLM has
    too is called as there.
    """

    num_generations: int = 8
    """Rollouts of a prompt."""
    generation_batch_size: int = 128
    """Rollouts a round, over all devices: a multiple of `num_generations`."""
    per_device_train_batch_size: int = 4
    """Rollouts on each device that gradients are computed for at once."""
    generation_micro_batch_size: int | None = None
    """Rollouts on each device that are written at once; None: all of a round. vLLM decides that
    by itself."""
    num_iterations: int = 1
    """Optimiser steps a round."""
    max_completion_length: int = 2000
    """Longest rollout, in tokens."""
    temperature: float = 1.0
    """Of rollouts."""
    top_p: float = 1.0
    """Tokens are drawn from the likeliest that hold this share of the probability."""
    noise: Literal["auto", "keyed", "torch"] = "auto"
    """`keyed`: a token depends on seed, round, prompt, rollout and position alone, in whatever
    batch or process it is drawn; `torch`: drawn by PyTorch, which is faster on a GPU. `auto`:
    `keyed` on a CPU. Not with vLLM, which draws by itself."""
    reward: Literal["method", "random"] = "method"
    """`random` is the control of an experiment: a uniform number takes the reward's place."""

    loss_type: LossType = "bnpo"
    """How tokens are weighed and averaged; see `harness.trainers.grpo.loss`."""
    beta: float = 0.0
    """Weight of the divergence from the network that training began with."""
    epsilon: float = 0.2
    """How far below 1 the ratio of new to old probability counts. Not of `sapo` and `vespo`; of
    `cispo` only as `epsilon_high`, where that is not given."""
    epsilon_high: float | None = None
    """How far above 1 it does, also of `cispo`, where TRL takes the largest ratio itself; None: as
    far as below. Not of `sapo` and `vespo`."""
    scale_rewards: Literal["group", "batch"] | None = "group"
    """What advantages are divided by: the standard deviation of their group, of all, or nothing."""
    entropy_coef: float = 0.0
    """Weight of the entropy of tokens, which is kept high."""

    learning_rate: float | None = None
    """Peak; None: 1e-6, or 2e-5 for an adapter."""
    lr_scheduler_type: Scheduler = "constant_with_warmup"
    """What follows the warm-up."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises from 0."""
    weight_decay: float = 0.01
    """Of AdamW."""
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
    """Of the weights while training; `auto` is what the checkpoint was saved in."""
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
    """Names joined by `+`, of `tensorboard`, `wandb`, `trackio`; `auto`: TensorBoard if it is
    installed; None: none."""

    def __post_init__(self) -> None:
        least = {
            1: (
                "per_device_train_batch_size",
                "generation_micro_batch_size",
                "num_iterations",
                "max_completion_length",
                "max_steps",
                "max_prompt_length",
                "lora_r",
                "save_steps",
            ),
            2: ("num_generations",),
            0: (
                "beta",
                "epsilon",
                "epsilon_high",
                "entropy_coef",
                "learning_rate",
                "warmup_steps",
                "weight_decay",
                "max_grad_norm",
                "num_train_epochs",
                "keep_rollouts",
            ),
        }
        for bound, names in least.items():
            for name in names:
                value = getattr(self, name)
                if value is not None and not value >= bound:
                    raise UsageError(f"{name}=…", expected=f"at least {bound}", found=str(value))
        if not 0 < self.temperature <= 100:
            raise UsageError(
                "temperature=…", expected="more than 0, at most 100", found=str(self.temperature)
            )
        if not 0 < self.top_p <= 1:
            raise UsageError("top_p=…", expected="more than 0, at most 1", found=str(self.top_p))
        self._check_groups()
        self._check_adapter()
        self._check_used()

    def _check_groups(self) -> None:
        if self.generation_batch_size < 1 or self.generation_batch_size % self.num_generations:
            raise UsageError(
                "generation_batch_size=…",
                found=str(self.generation_batch_size),
                expected=f"a multiple of num_generations={self.num_generations}: whole groups",
            )

    def _check_adapter(self) -> None:
        if self.finetune == "full":
            return
        if self.deepspeed is not None or self.freeze_vision:
            other = "deepspeed" if self.deepspeed is not None else "freeze_vision"
            raise UsageError(
                f"finetune=lora and {other}",
                expected="one of the two",
                found="both",
                fix="lora_layers says which layers are adapted."
                if other == "freeze_vision"
                else "",
            )

    def _check_used(self) -> None:
        """Refuse what differs from its default and would change nothing."""
        idle = ["epsilon", "epsilon_high"] if self.loss_type in UNCLIPPED else []
        if self.loss_type == "cispo" and self.epsilon_high is not None:
            idle = ["epsilon"]  # which `cispo` takes where `epsilon_high` is not given
        usual = {one.name: one.default for one in fields(self)}
        unused = [name for name in idle if getattr(self, name) != usual[name]]
        if unused:
            raise UsageError(
                f"{' and '.join(f'{name}={getattr(self, name)}' for name in unused)} with "
                f"loss_type={self.loss_type}",
                expected="settings that this loss uses",
                found="a range of ratios that it does not clip to",
                fix=f"Leave {' and '.join(unused)} out, or take another loss_type.",
            )
        if self.vllm_mode is not None and self.noise != "auto":
            raise UsageError(
                f"noise={self.noise} with vllm_mode={self.vllm_mode}",
                expected="noise=auto",
                found="a way to draw tokens, which vLLM does by itself",
                fix="Leave noise out, or vllm_mode.",
            )

    @property
    def prompts_per_round(self) -> int:
        """Prompts that a round draws, over all devices."""
        return self.generation_batch_size // self.num_generations

    @property
    def peak_learning_rate(self) -> float:
        """`learning_rate`, or what `finetune` has where none is given."""
        return LEARNING_RATES[self.finetune] if self.learning_rate is None else self.learning_rate

    def describe(self) -> dict[str, Any]:
        """Every setting as resolved; those that change nothing of what is learned are left out."""
        aside = {"generation_micro_batch_size", "keep_rollouts", "report_to"}
        plain = {name: value for name, value in asdict(self).items() if name not in aside}
        return {**plain, "learning_rate": self.peak_learning_rate}

    def accumulated(self, processes: int) -> int:
        """Batches on each device that a round is made of.

        Raises:
            UsageError: a round cannot be shared evenly among the devices, whole groups to each.
        """
        if self.prompts_per_round % processes:
            raise UsageError(
                f"generation_batch_size={self.generation_batch_size}",
                expected=f"a multiple of {processes * self.num_generations}: num_generations="
                f"{self.num_generations} times the {processes} processes, each of which rewards "
                "whole groups",
                found=str(self.generation_batch_size),
            )
        own = self.generation_batch_size // processes
        if own % self.per_device_train_batch_size:
            raise UsageError(
                f"per_device_train_batch_size={self.per_device_train_batch_size}",
                expected=f"a divisor of the {own} rollouts a round on each device",
                found=str(self.per_device_train_batch_size),
            )
        return own // self.per_device_train_batch_size

    def steps(self, samples: int) -> int:
        """Optimiser steps for so many samples; a part of a round at the end is a whole one."""
        if self.max_steps is not None:
            return self.max_steps
        rounds = -(-self.num_train_epochs * samples // self.prompts_per_round)
        return max(1, int(rounds)) * self.num_iterations


def refuse_unused(method: str, why: str, **given: tuple[object, object]) -> None:
    """Refuse a method's own settings that differ from their defaults and would change nothing.

    Args:
        method: Its name.
        why: The setting that makes them idle, such as `temporal=false`.
        given: What was given and the default, by name.

    Raises:
        UsageError: there are some.
    """
    idle = [f"{name}={value}" for name, (value, usual) in given.items() if value != usual]
    if idle:
        raise UsageError(
            f"{method} with {why}",
            expected="settings that change something",
            found=", ".join(idle),
            fix=f"Leave {' and '.join(idle)} out, or {why}.",
        )


Plugin = TypeVar("Plugin", bound=Callable[..., Any])


def with_settings(**defaults: Any) -> Callable[[Plugin], Plugin]:
    """Let a method's plugin function offer every field of `Settings` beside its own parameters.

    The function takes them as `**settings`, and builds `Settings(**settings)`: what was given,
    and these defaults of the method for the rest.
    """
    Settings(**defaults)  # a wrong default is found when the module is imported
    known = replace(Settings(), **defaults)

    def offered(function: Plugin) -> Plugin:
        own = inspect.signature(function)
        kept = [one for one in own.parameters.values() if one.kind is one.KEYWORD_ONLY]
        hints = typing.get_type_hints(Settings)
        shared = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=getattr(known, field.name),
                annotation=hints[field.name],
            )
            for field in fields(Settings)
        ]

        def built(**given: Any) -> Any:
            return function(**{**defaults, **given})

        built.__doc__, built.__name__ = function.__doc__, function.__name__
        built.__module__, built.__qualname__ = function.__module__, function.__qualname__
        built.__signature__ = inspect.Signature([*kept, *shared])  # type: ignore[attr-defined]
        named = typing.get_type_hints(function)
        built.__annotations__ = {
            **{one.name: named[one.name] for one in kept},
            **{one.name: one.annotation for one in shared},
        }
        return typing.cast(Plugin, built)

    return offered
