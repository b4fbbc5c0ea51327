"""The supervised baseline of Video-STR: `trainers/sft` on its samples, answers alone.

harness train --method video_str_sft --model "video_str(checkpoint=…,graph=off)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR

With `graphs=…` responses also draw up the true graph, where the model's prompt asks for one: a
start for `video_str` with a network that has never seen a graph.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Literal

from harness.errors import UsageError
from harness.trainer import TrainingRun
from harness.trainers.sft.descriptions import DATASET
from harness.trainers.sft.examples import Reasoning
from harness.trainers.sft.trainer import Sft, sft
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import extend_task, named_or_drawn
from harness.trainers.video_str_sft.graphs import with_graph


@dataclass(frozen=True, kw_only=True)
class GraphSft(Sft):
    """`Sft` on responses with graphs, of the objects that the reinforced training lists."""

    graphs: str
    """Source of graphs, as in the setting of `video_str`."""
    graph_in_reasoning: bool

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train as `Sft.train`, on samples with their graphs."""
        extra = extra_of(self.graphs)
        tasks = tuple(extend_task(task, extra, listed=named_or_drawn) for task in run.tasks)
        return Sft.train(self, replace(run, tasks=tasks))


def video_str_sft(
    *,
    finetune: Literal["full", "lora"] = "full",
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    bf16: bool = False,
    learning_rate: float = 1e-6,
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "cosine",
    warmup_steps: int = 0,
    weight_decay: float = 0.01,
    max_grad_norm: float = 5.0,
    per_device_train_batch_size: int = 1,
    gradient_accumulation_steps: int = 1,
    num_train_epochs: float = 1.0,
    max_steps: int | None = None,
    max_length: int | None = None,
    freeze_vision: bool = False,
    gradient_checkpointing: bool = False,
    lora_r: int = 16,
    lora_alpha: int = 32,
    lora_layers: Literal["language", "all"] = "language",
    save_steps: int = 100,
    dataloader_num_workers: int = 0,
    deepspeed: str | None = None,
    graphs: str | None = None,
    graph_in_reasoning: bool = False,
    reasoning: Reasoning = "none",
    text_source: str = DATASET,
    report_to: str | None = "auto",
) -> Sft:
    """Supervised fine-tuning on right answers without reasoning, Video-STR's baseline.

    The paper does not describe it; these are its samples, one pass, its learning rate, decay and
    limit of the gradient. See `sft` for a trainer with other defaults.

    Args:
        finetune: All weights, or an adapter that is merged into them at the end.
        dtype: Of the weights while training; `auto` is what the checkpoint was saved in.
        bf16: Compute in bfloat16 whatever the weights' type is.
        learning_rate: Peak.
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
        lora_layers: Linear layers of the language model, or of the vision tower too.
        save_steps: Steps between states that a training can go on from.
        dataloader_num_workers: Processes that decode and encode ahead.
        deepspeed: `zero3`, or the path of a DeepSpeed configuration.
        graphs: Where true graphs are that responses draw up, as for `video_str`; none: no graphs.
        graph_in_reasoning: Graphs come before the reasoning, which can then use them, and not after
            it.
        reasoning: As for `sft`; the baseline has none.
        text_source: As for `sft`.
        report_to: As for `sft`.
    """
    trainer = sft(
        finetune=finetune,
        reasoning=reasoning,
        dtype=dtype,
        bf16=bf16,
        learning_rate=learning_rate,
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
        lora_layers=lora_layers,
        save_steps=save_steps,
        dataloader_num_workers=dataloader_num_workers,
        deepspeed=deepspeed,
        text_source=text_source,
        report_to=report_to,
    )
    trainer = replace(trainer, name="video_str_sft")
    if graphs is None:
        if graph_in_reasoning:
            raise UsageError(
                "video_str_sft(graph_in_reasoning=true)",
                expected="graphs=…, where true graphs are",
                found="none",
            )
        return trainer
    extra_of(graphs)  # a file that is not there is found before anything is loaded
    given = {one.name: getattr(trainer, one.name) for one in fields(trainer)}
    complete = partial(with_graph, in_reasoning=graph_in_reasoning)
    return GraphSft(
        **{
            **given,
            "complete": complete,
            "graphs": graphs,
            "graph_in_reasoning": graph_in_reasoning,
        }
    )
