"""Supervised fine-tuning on perfect responses to the samples.

harness train --method sft --model "qwen_vl(checkpoint=…)" --train-tasks "reason_seg(split=train)"
    --data ROOT --out DIR --set learning_rate=1e-5
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from harness.options import Only, with_options
from harness.task import Task
from harness.trainer import Trainer, TrainingRun
from harness.trainers.loggers import check_loggers
from harness.trainers.network import memory_note, trainable, training_facts
from harness.trainers.settings import Range, TrainingSettings
from harness.trainers.sft.descriptions import (
    DATASET,
    Complete,
    as_written,
    fill_description,
    with_descriptions,
)
from harness.trainers.sft.examples import Reasoning


@dataclass(frozen=True, kw_only=True)
class SftSettings(TrainingSettings):
    """Every hyper-parameter of supervised fine-tuning."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        **TrainingSettings.RANGES,
        "lora_dropout": (0, 1),
    }
    LEARNING_RATES: ClassVar[Mapping[str, float]] = {"full": 1e-5, "lora": 1e-4}

    reasoning: Reasoning = "none"
    """Content of `<think>`: nothing, or a `short` text on the number of targets and their rough
    places (the sample's own rationale where its benchmark has one)."""
    text_source: Annotated[str, Only(reasoning="short") | Only(descriptions=True)] = DATASET
    """Source of `short` reasoning and descriptions: the `dataset`'s targets, or a plugin
    (`harness list text_sources`)."""
    gradient_accumulation_steps: int = 1
    """Batches that one step is made of."""
    max_length: int | None = None
    """Examples of more tokens are left out, counted and named."""
    lora_dropout: Annotated[float, Only(finetune="lora")] = 0.0
    """Share of an adapter's inputs that are dropped in training."""

    def samples_per_round(self, processes: int) -> int:
        """Return the examples of a step, over all processes."""
        return self.per_device_train_batch_size * self.accumulation_steps(processes) * processes

    def accumulation_steps(self, processes: int) -> int:
        """Return `gradient_accumulation_steps`."""
        del processes
        return self.gradient_accumulation_steps


@dataclass(frozen=True, kw_only=True)
class Sft(Trainer):
    """The trainer with its settings; see `sft`."""

    needs_model: ClassVar[bool] = True
    needs_tasks: ClassVar[bool] = True

    settings: SftSettings
    descriptions: bool = False
    complete: Complete = as_written
    """Function that completes each response beyond its answer; set by methods, not by users."""
    extended: Callable[[Task], Task] = lambda task: task
    """Function that adds to the targets of a task's samples, likewise."""
    own: Mapping[str, object] = field(default_factory=dict)
    """Settings of such a method, for the record."""
    name: str = "sft"

    def may_change(self, name: str, old: object, new: object) -> bool:
        """Return True for settings that do not alter what is learned, and for larger totals."""
        return self.settings.may_change(name, old, new)

    def describe(self) -> Mapping[str, object]:
        """Return every setting."""
        return {"descriptions": self.descriptions, **self.settings.describe(), **self.own}

    def check_installation(self) -> None:
        """Raise what `report_to` lacks: a package or a key."""
        check_loggers(self.settings.report_to)

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Check every sample, train, and write the checkpoint.

        Raises:
            UsageError: there is no model that can be trained.
            DataError: no sample is left to learn from.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        from harness.trainers.checkpoints import check_evaluated
        from harness.trainers.learner import train
        from harness.trainers.policy import accelerator_of
        from harness.trainers.session import Session, last
        from harness.trainers.sft.learner import SftLearner, prepare_examples

        model, chat = trainable("sft", run.model)
        chosen = self.settings
        check_evaluated(run, chosen)
        # Before anything is loaded: it says whether there are several processes or devices.
        accelerator = accelerator_of(chosen, chat)
        examples, dropped = prepare_examples(
            model,
            chat.processor,
            replace(run, tasks=tuple(map(self._described, run.tasks))),
            reasoning=chosen.reasoning,
            max_length=chosen.max_length,
            complete=self.complete,
        )
        learner = SftLearner(
            chat, chosen, accelerator, seed=run.seed, lora_dropout=chosen.lora_dropout
        )
        session = Session(run, learner.export, report_to=chosen.report_to, settings=self.describe())
        computes = accelerator.mixed_precision == "bf16"
        run.progress.note(memory_note(learner.network, computes_bf16=computes, reference=False))
        facts = train(learner, examples, session)
        return {
            **facts,
            "loss": last(run, "loss"),
            **training_facts(examples, dropped, learner.network),
        }

    def _described(self, task: Task) -> Task:
        return with_descriptions(self.settings.text_source, self.extended(task))


@with_options(SftSettings)
def sft(settings: SftSettings, *, descriptions: bool = False) -> Sft:
    """Supervised fine-tuning of a vision-language network on perfect responses.

    Args:
        descriptions: Fill the description that a grammar such as DR2Seg's has: with the target's
            own, else with the question.
    """
    complete = fill_description if descriptions else as_written
    return Sft(settings=settings, descriptions=descriptions, complete=complete)
