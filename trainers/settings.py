"""`TrainingSettings`: hyper-parameters that GRPO and supervised fine-tuning share.

Each has a subclass with its own; `with_options(Settings)` offers them as options of a trainer.
Nothing here imports torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import ceil, inf
from typing import Annotated, ClassVar, Literal

from harness.errors import UsageError
from harness.options import Only

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(ABC):
    """Hyper-parameters, named as in transformers and PEFT where those have them."""

    RANGES: ClassVar[Mapping[str, Range]] = {"warmup_steps": (0, inf)}
    """(smallest, largest) value of a setting. Of settings that are not listed, whole numbers are at
    least 1, and other numbers at least 0."""
    FREE: ClassVar[tuple[str, ...]] = (
        *("save_steps", "save_total_limit", "report_to", "gradient_checkpointing"),
        *("metric_for_best_model", "greater_is_better", "load_best_model_at_end"),
    )
    """Settings that a resumed training may change: they do not affect what is learned."""
    GROWING: ClassVar[tuple[str, ...]] = ("max_steps", "num_train_epochs")
    """Settings that may be larger in a resumed training."""
    LEARNING_RATES: ClassVar[Mapping[str, float]]
    """Usual learning rates by `finetune`; an adapter wants 10 to 100 times more."""

    per_device_train_batch_size: int = 1
    """Examples on each device that gradients are computed for at once."""
    learning_rate: float | None = None
    """Peak of the learning rate; None: the usual one of all weights, or of an adapter."""
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "cosine"
    """Course of the learning rate after the warm-up."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises from 0."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient; 0: no limit."""
    num_train_epochs: float = 1.0
    """Passes over the samples."""
    max_steps: int | None = None
    """Number of optimiser steps; if given, `num_train_epochs` is ignored."""

    finetune: Literal["full", "lora"] = "full"
    """`full`: train all weights. `lora`: train an adapter that is merged into them at the end."""
    lora_r: Annotated[int, Only(finetune="lora")] = 16
    """Rank of the adapter's matrices."""
    lora_alpha: Annotated[int, Only(finetune="lora")] = 32
    """Scale of the adapter, divided by its rank."""
    lora_layers: Annotated[Literal["language", "all"], Only(finetune="lora")] = "language"
    """Linear layers of the language model, or of the vision tower too."""
    freeze_vision: Annotated[bool, Only(finetune="full") | Only(lora_layers="all")] = False
    """Train only the language model and the layers that merge patches for it."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights while training; `auto`: the type that the checkpoint was saved in."""
    bf16: bool = False
    """Compute in bfloat16 whatever the weights' type is."""
    gradient_checkpointing: bool = False
    """Compute activations a second time instead of keeping them in memory."""
    deepspeed: str | None = None
    """`zero2`, `zero3`, or the path of a DeepSpeed configuration."""

    save_steps: int = 100
    """Steps between states that a training can go on from; the last step is one."""
    save_total_limit: int = 1
    """States that are kept, the last ones. With more than 1, or a metric_for_best_model, the
    checkpoint of each of their steps is kept too, in `checkpoints/`, and the best one."""
    metric_for_best_model: str | None = None
    """Number of the curve, such as `reward` or `eval/<task>/<metric>`, by which a step is best."""
    greater_is_better: bool | None = None
    """True: the largest number is the best; None: unless the metric's name ends with `loss`."""
    load_best_model_at_end: bool = False
    """Make the best checkpoint the training's, in the place of the last."""
    report_to: str | None = "auto"
    """`tensorboard`, `wandb` or `tensorboard+wandb`; `auto`: TensorBoard if it is installed."""

    def may_change(self, name: str, old: object, new: object) -> bool:
        """Return True if a resumed training may have another value of a setting."""
        if name in self.GROWING:
            if not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
                return False
            # A total that ended within a round: the rest of that round cannot be made any more.
            return old <= new and (name != "max_steps" or old % self.steps_per_round == 0)
        return name in self.FREE

    @property
    def is_greater_better(self) -> bool:
        """`greater_is_better`; if it is None, True unless the metric's name ends with `loss`."""
        if self.greater_is_better is not None:
            return self.greater_is_better
        return not (self.metric_for_best_model or "").endswith("loss")

    def __post_init__(self) -> None:
        wants_best = self.load_best_model_at_end or self.greater_is_better is not None
        if wants_best and self.metric_for_best_model is None:
            raise UsageError(
                "load_best_model_at_end and greater_is_better",
                expected="metric_for_best_model=NAME, such as reward",
                found="none",
            )
        for field in fields(self):
            value, bounds = getattr(self, field.name), self.RANGES.get(field.name)
            if bounds is None:
                # The origin of `Annotated[int, …]` is int.
                field_type = getattr(field.type, "__origin__", field.type)
                bounds = (1, inf) if field_type in (int, int | None) else (0, inf)
            if not isinstance(value, (int, float)) or bounds[0] <= value <= bounds[1]:
                continue
            expected = f"at least {bounds[0]}" if bounds[1] == inf else "{} to {}".format(*bounds)
            raise UsageError(f"{field.name}=…", expected=expected, found=str(value))
        if self.finetune == "lora" and self.freeze_vision and self.lora_layers == "all":
            raise UsageError(
                "finetune=lora and freeze_vision",
                expected="lora_layers=language, where the vision tower is not adapted",
                found="lora_layers=all",
            )

    @property
    def peak_learning_rate(self) -> float:
        """`learning_rate`; if it is None, the usual one of `finetune`."""
        default = self.LEARNING_RATES[self.finetune]
        return default if self.learning_rate is None else self.learning_rate

    @property
    def steps_per_round(self) -> int:
        """Number of optimiser steps on the samples that a round draws."""
        return 1

    @abstractmethod
    def samples_per_round(self, processes: int) -> int:
        """Return the number of samples that a round draws, over all processes."""

    @abstractmethod
    def accumulation_steps(self, processes: int) -> int:
        """Return the number of batches of a step on each device.

        Raises:
            UsageError: a round does not divide evenly.
        """

    def steps(self, samples: int, processes: int = 1) -> int:
        """Return the number of optimiser steps of a training; its last round is always full."""
        if self.max_steps is not None:
            return self.max_steps
        rounds = ceil(self.num_train_epochs * samples / self.samples_per_round(processes))
        return max(1, rounds) * self.steps_per_round

    def describe(self) -> dict[str, object]:
        """Return every setting, with the learning rate that is used."""
        return {**asdict(self), "learning_rate": self.peak_learning_rate}
