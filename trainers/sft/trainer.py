"""Supervised fine-tuning with TRL, on perfect responses to the samples.

harness train --method sft --model "qwen_vl(checkpoint=…)" --train-tasks "reason_seg(split=train)"
    --data ROOT --out DIR --set learning_rate=1e-5
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.errors import UsageError
from harness.models.backends.transformers import TransformersChat
from harness.models.learning import weights
from harness.options import with_options
from harness.trainer import Trainer, TrainingRun
from harness.trainers.settings import Range, TrainingSettings
from harness.trainers.sft.descriptions import (
    DATASET,
    Complete,
    as_written,
    fill_description,
    with_descriptions,
)
from harness.trainers.sft.examples import Example, Reasoning
from harness.trainers.sft.network import deepspeed_file, trainable, training_facts
from harness.trainers.sft.prepare import prepare_examples

if TYPE_CHECKING:
    import transformers


@dataclass(frozen=True, kw_only=True)
class SftSettings(TrainingSettings):
    """Every hyper-parameter of supervised fine-tuning."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        **TrainingSettings.RANGES,
        **{"dataloader_num_workers": (0, inf), "lora_dropout": (0, 1)},
    }
    LEARNING_RATES: ClassVar[Mapping[str, float]] = {"full": 1e-5, "lora": 1e-4}

    reasoning: Reasoning = "none"
    """Content of `<think>`: nothing, or a `short` text on the number of targets and their rough
    places (the sample's own rationale where its benchmark has one)."""
    text_source: str = DATASET
    """Source of `short` reasoning and descriptions: the `dataset`'s targets, or a plugin
    (`harness list text_sources`)."""
    gradient_accumulation_steps: int = 1
    """Batches that one step is made of."""
    max_length: int | None = None
    """Examples of more tokens are left out, counted and named."""
    lora_dropout: float = 0.0
    """Share of an adapter's inputs that are dropped in training."""
    dataloader_num_workers: int = 0
    """Processes that decode and encode ahead."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.finetune == "lora" and self.deepspeed is not None:
            raise UsageError("finetune=lora,deepspeed=…", expected="one of the two", found="both")


@dataclass(frozen=True, kw_only=True)
class Sft(Trainer):
    """The trainer with its settings; see `sft`."""

    needs_model: ClassVar[bool] = True
    needs_tasks: ClassVar[bool] = True

    settings: SftSettings
    descriptions: bool = False
    complete: Complete = as_written
    """Function that completes each response beyond its answer; set by methods, not by users."""
    name: str = "sft"

    def describe(self) -> Mapping[str, object]:
        """Return every setting."""
        return {"descriptions": self.descriptions, **self.settings.describe()}

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Check every sample, train, and write the checkpoint.

        Raises:
            UsageError: there is no model that can be trained.
            DataError: no sample is left to learn from.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        from harness.trainers.session import Session, finite
        from harness.trainers.sft.engine import train_to_end

        model, chat = trainable("sft", run.model)
        chosen = self.settings
        # Before anything is loaded: it says whether there are several processes or devices.
        arguments = self._arguments(run, chat)
        info = replace(
            run, tasks=tuple(with_descriptions(chosen.text_source, task) for task in run.tasks)
        )
        examples, dropped = prepare_examples(
            model,
            chat.processor,
            info,
            reasoning=chosen.reasoning,
            max_length=chosen.max_length,
            complete=self.complete,
        )
        trainer = self._trainer(chat, examples, arguments)
        snapshot = partial(self._export, chat, trainer)
        train_to_end(
            trainer, Session(run, snapshot, report_to=chosen.report_to, settings=self.describe())
        )
        snapshot(run.checkpoint)
        if run.main and chosen.finetune == "lora":
            trainer.model.save_pretrained(run.out / "adapter", save_embedding_layers=False)
        last = run.curve.read()[-1:] if run.main else []
        return {
            "steps": int(trainer.state.global_step),
            "epochs": finite(trainer.state.epoch or 0),
            "loss": finite(last[0]["loss"]) if last else None,
            **training_facts(examples, dropped, trainer.model),
        }

    def _arguments(
        self, run: TrainingRun, chat: TransformersChat
    ) -> "transformers.TrainingArguments":
        import torch

        from harness.trainers.sft.engine import configuration

        chosen = self.settings
        # Without CUDA it has to be said, or several processes do not find each other.
        cpu = chat.device == "cpu" or not torch.cuda.is_available()
        steps = {"max_steps": chosen.max_steps} if chosen.max_steps is not None else {}
        arguments: transformers.TrainingArguments = configuration(
            output_dir=str(run.state),
            seed=run.seed,
            data_seed=run.seed,
            use_cpu=cpu,
            per_device_train_batch_size=chosen.per_device_train_batch_size,
            gradient_accumulation_steps=chosen.gradient_accumulation_steps,
            num_train_epochs=chosen.num_train_epochs,
            **steps,
            learning_rate=chosen.peak_learning_rate,
            lr_scheduler_type=chosen.lr_scheduler_type,
            warmup_steps=chosen.warmup_steps,
            weight_decay=chosen.weight_decay,
            max_grad_norm=chosen.max_grad_norm,
            optim="adamw_torch",
            bf16=chosen.bf16 or chosen.dtype == "bfloat16",
            gradient_checkpointing=chosen.gradient_checkpointing,
            dataloader_num_workers=chosen.dataloader_num_workers,
            save_steps=chosen.save_steps,
            deepspeed=deepspeed_file(chosen.deepspeed),
            # What a row is, and which part of it is learned, is the collator's business.
            max_length=None,
            packing=False,
            shuffle_dataset=False,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
        return arguments

    def _trainer(
        self,
        chat: TransformersChat,
        examples: Sequence[Example],
        arguments: "transformers.TrainingArguments",
    ) -> "transformers.Trainer":
        from harness.trainers.sft import network as networks
        from harness.trainers.sft.batches import Collator
        from harness.trainers.sft.engine import ResumableTrainer, rows

        chosen = self.settings
        network = networks.load(chat, dtype=chosen.dtype)
        if chosen.freeze_vision:
            weights.freeze_vision(network)
        adapter = (
            weights.adapter(
                r=chosen.lora_r,
                lora_alpha=chosen.lora_alpha,
                lora_dropout=chosen.lora_dropout,
                layers=chosen.lora_layers,
            )
            if chosen.finetune == "lora"
            else None
        )
        trainer: transformers.Trainer = ResumableTrainer(
            model=network,
            args=arguments,
            train_dataset=rows(len(examples)),
            data_collator=Collator(chat.processor, examples),
            processing_class=chat.processor,
            peft_config=adapter,
        )
        return trainer

    def _export(
        self, chat: TransformersChat, trainer: "transformers.Trainer", folder: Path
    ) -> None:
        """Write the network as it is now; called in every process."""
        from harness.trainers.sft.network import export, whole_weights

        tensors = whole_weights(trainer)
        if trainer.accelerator.is_main_process:
            export(trainer.model, chat.folder, folder, tensors=tensors)
        trainer.accelerator.wait_for_everyone()


@with_options(SftSettings)
def sft(settings: SftSettings, *, descriptions: bool = False) -> Sft:
    """Supervised fine-tuning of a vision-language network on perfect responses, with TRL.

    Args:
        descriptions: Fill the description that a grammar such as DR2Seg's has: with the target's
            own, else with the question.
    """
    complete = fill_description if descriptions else as_written
    return Sft(settings=settings, descriptions=descriptions, complete=complete)
