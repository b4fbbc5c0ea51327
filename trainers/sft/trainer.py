"""Supervised fine-tuning with TRL, on perfect responses to the samples.

harness train --method sft --model "qwen_vl(checkpoint=…)" --train-tasks "reason_seg(split=train)"
    --data ROOT --out DIR --set learning_rate=1e-5
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from harness.errors import UsageError
from harness.models.backends.transformers import TransformersChat
from harness.models.learning import weights
from harness.trainer import Trainer, TrainingRun
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

LEARNING_RATES = {"full": 1e-5, "lora": 1e-4}
"""Default learning rates; an adapter wants about ten times more."""
OWN = ("name", "complete", "report_to")  # what a method sets, or changes nothing that is learned


@dataclass(frozen=True, kw_only=True)
class Sft(Trainer):
    """The trainer with its settings; see `sft`."""

    needs_model: ClassVar[bool] = True
    needs_tasks: ClassVar[bool] = True

    finetune: Literal["full", "lora"]
    reasoning: Reasoning
    dtype: Literal["auto", "float32", "bfloat16"]
    bf16: bool
    learning_rate: float
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"]
    warmup_steps: int
    weight_decay: float
    max_grad_norm: float
    per_device_train_batch_size: int
    gradient_accumulation_steps: int
    num_train_epochs: float
    max_steps: int | None
    max_length: int | None
    freeze_vision: bool
    gradient_checkpointing: bool
    lora_r: int
    lora_alpha: int
    lora_dropout: float
    lora_layers: Literal["language", "all"]
    save_steps: int
    dataloader_num_workers: int
    deepspeed: str | None
    text_source: str = DATASET
    descriptions: bool = False
    report_to: str | None = "auto"
    complete: Complete = as_written
    """Function that completes each response beyond its answer; set by methods, not by users."""
    name: str = "sft"

    def describe(self) -> Mapping[str, object]:
        """Every setting."""
        return {key: value for key, value in asdict(self).items() if key not in OWN}

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
        # Before anything is loaded: it says whether there are several processes or devices.
        arguments = self._arguments(run, chat)
        info = replace(
            run, tasks=tuple(with_descriptions(self.text_source, task) for task in run.tasks)
        )
        examples, dropped = prepare_examples(
            model,
            chat.processor,
            info,
            reasoning=self.reasoning,
            max_length=self.max_length,
            complete=self.complete,
        )
        trainer = self._trainer(chat, examples, arguments)
        snapshot = partial(self._export, chat, trainer)
        train_to_end(
            trainer, Session(run, snapshot, report_to=self.report_to, settings=self.describe())
        )
        snapshot(run.checkpoint)
        if run.main and self.finetune == "lora":
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

        # Without CUDA it has to be said, or several processes do not find each other.
        cpu = chat.device == "cpu" or not torch.cuda.is_available()
        steps = {"max_steps": self.max_steps} if self.max_steps is not None else {}
        arguments: transformers.TrainingArguments = configuration(
            output_dir=str(run.state),
            seed=run.seed,
            data_seed=run.seed,
            use_cpu=cpu,
            per_device_train_batch_size=self.per_device_train_batch_size,
            gradient_accumulation_steps=self.gradient_accumulation_steps,
            num_train_epochs=self.num_train_epochs,
            **steps,
            learning_rate=self.learning_rate,
            lr_scheduler_type=self.lr_scheduler_type,
            warmup_steps=self.warmup_steps,
            weight_decay=self.weight_decay,
            max_grad_norm=self.max_grad_norm,
            optim="adamw_torch",
            bf16=self.bf16 or self.dtype == "bfloat16",
            gradient_checkpointing=self.gradient_checkpointing,
            dataloader_num_workers=self.dataloader_num_workers,
            save_steps=self.save_steps,
            deepspeed=deepspeed_file(self.deepspeed),
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

        network = networks.load(chat, dtype=self.dtype)
        if self.freeze_vision:
            weights.freeze_vision(network)
        adapter = (
            weights.adapter(
                r=self.lora_r,
                lora_alpha=self.lora_alpha,
                lora_dropout=self.lora_dropout,
                layers=self.lora_layers,
            )
            if self.finetune == "lora"
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


def sft(
    *,
    finetune: Literal["full", "lora"] = "full",
    reasoning: Literal["none", "short"] = "none",
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    bf16: bool = False,
    learning_rate: float | None = None,
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "cosine",
    warmup_steps: int = 0,
    weight_decay: float = 0.0,
    max_grad_norm: float = 1.0,
    per_device_train_batch_size: int = 1,
    gradient_accumulation_steps: int = 1,
    num_train_epochs: float = 1.0,
    max_steps: int | None = None,
    max_length: int | None = None,
    freeze_vision: bool = False,
    gradient_checkpointing: bool = False,
    lora_r: int = 16,
    lora_alpha: int = 32,
    lora_dropout: float = 0.0,
    lora_layers: Literal["language", "all"] = "language",
    save_steps: int = 100,
    dataloader_num_workers: int = 0,
    deepspeed: str | None = None,
    text_source: str = DATASET,
    descriptions: bool = False,
    report_to: str | None = "auto",
) -> Sft:
    """Supervised fine-tuning of a vision-language network on perfect responses, with TRL.

    Args:
        finetune: All weights (`full`), or an adapter that is merged into them at the end (`lora`).
        reasoning: Content of `<think>`: nothing, or a `short` text on the number of targets and
            their rough places (the sample's own rationale where its benchmark has one).
        dtype: Of the weights while training; `auto` is what the checkpoint was saved in.
        bf16: Compute in bfloat16 whatever the weights' type is.
        learning_rate: Peak; None: 1e-5, or 1e-4 for an adapter.
        lr_scheduler_type: What follows the warm-up.
        warmup_steps: Steps in which the learning rate rises from 0.
        weight_decay: Of AdamW.
        max_grad_norm: Largest norm of the gradient; 0: no limit.
        per_device_train_batch_size: Examples at once on each device.
        gradient_accumulation_steps: Batches that one step is made of.
        num_train_epochs: Passes over the examples.
        max_steps: Steps, whatever `num_train_epochs` says.
        max_length: Examples of more tokens are left out, counted and named.
        freeze_vision: Train the language model, and the layers that merge patches for it.
        gradient_checkpointing: Compute activations twice to keep fewer.
        lora_r: Rank of the adapter's matrices.
        lora_alpha: The adapter is scaled by this over its rank.
        lora_dropout: Before the adapter.
        lora_layers: Linear layers of the language model, or of the vision tower too.
        save_steps: Steps between states that a training can go on from; the last step is one.
        dataloader_num_workers: Processes that decode and encode ahead.
        deepspeed: `zero3`, or the path of a DeepSpeed configuration.
        text_source: Source of `short` reasoning and descriptions: the `dataset`'s targets, or a
            plugin (`harness list text_sources`).
        descriptions: Fill the description that a grammar such as DR2Seg's has: with the target's
            own, else with the question.
        report_to: Names joined by `+`, of `tensorboard`, `wandb`; `auto`: TensorBoard if it is
            installed; None: none.

    Raises:
        UsageError: a number is out of range, or two settings exclude each other.
    """
    _at_least(
        1,
        per_device_train_batch_size=per_device_train_batch_size,
        gradient_accumulation_steps=gradient_accumulation_steps,
        save_steps=save_steps,
        lora_r=lora_r,
        max_steps=max_steps,
        max_length=max_length,
    )
    _at_least(
        0,
        warmup_steps=warmup_steps,
        dataloader_num_workers=dataloader_num_workers,
        learning_rate=learning_rate,
        num_train_epochs=num_train_epochs,
        max_grad_norm=max_grad_norm,
        weight_decay=weight_decay,
        lora_dropout=lora_dropout,
    )
    if finetune == "lora" and (deepspeed is not None or freeze_vision):
        other = "deepspeed" if deepspeed is not None else "freeze_vision"
        raise UsageError(
            f"sft(finetune=lora,{other}=…)",
            expected="one of the two",
            found="both",
            fix="lora_layers says which layers are adapted." if other == "freeze_vision" else "",
        )
    return Sft(
        finetune=finetune,
        reasoning=reasoning,
        dtype=dtype,
        bf16=bf16,
        learning_rate=LEARNING_RATES[finetune] if learning_rate is None else learning_rate,
        lr_scheduler_type=lr_scheduler_type,
        warmup_steps=warmup_steps,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        per_device_train_batch_size=per_device_train_batch_size,
        gradient_accumulation_steps=gradient_accumulation_steps,
        num_train_epochs=num_train_epochs,
        max_steps=max_steps,
        max_length=max_length,
        freeze_vision=freeze_vision,
        gradient_checkpointing=gradient_checkpointing,
        lora_r=lora_r,
        lora_alpha=lora_alpha,
        lora_dropout=lora_dropout,
        lora_layers=lora_layers,
        save_steps=save_steps,
        dataloader_num_workers=dataloader_num_workers,
        deepspeed=deepspeed,
        text_source=text_source,
        descriptions=descriptions,
        report_to=report_to,
        complete=fill_description if descriptions else as_written,
    )


def _at_least(minimum: int, **numbers: float | None) -> None:
    for name, number in numbers.items():
        if number is not None and not number >= minimum:
            raise UsageError(f"sft({name}=…)", expected=f"at least {minimum}", found=str(number))
