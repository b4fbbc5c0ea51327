"""`Sft`, the trainer of supervised fine-tuning on perfect responses, and its settings.

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
    """Number of batches of one optimiser step."""
    max_length: int | None = None
    """Largest number of tokens of an example; longer ones are left out, counted and named."""
    lora_dropout: Annotated[float, Only(finetune="lora")] = 0.0
    """Share of an adapter's inputs that are dropped in training."""

    def samples_per_round(self, processes: int) -> int:
        """Return the number of examples of a step, over all processes."""
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
    """Adds texts to each response; set by methods such as `video_str_sft`, not by users."""
    extended: Callable[[Task], Task] = lambda task: task
    """Adds data, such as graphs, to the targets of a task's samples; set by such methods, too."""
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
        """Raise an error if a logger of `report_to` lacks its package or its key."""
        check_loggers(self.settings.report_to)

    def check(self, run: TrainingRun) -> None:
        """Raise the errors of the model and of settings that `train` would, without a network."""
        from harness.trainers.checkpoints import check_evaluated

        trainable("sft", run.model)
        check_evaluated(run, self.settings)

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Check every sample, train, and write the checkpoint.

        Raises:
            UsageError: the model cannot be trained.
            DataError: no sample is left to learn from.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        from harness.trainers.checkpoints import check_evaluated
        from harness.trainers.learner import train
        from harness.trainers.policy import accelerator_of
        from harness.trainers.session import Session, last
        from harness.trainers.sft.learner import SftLearner, prepare_examples

        model, chat = trainable("sft", run.model)
        settings = self.settings
        check_evaluated(run, settings)
        # Before anything is loaded, because it connects the processes.
        accelerator = accelerator_of(settings, chat)
        examples, dropped = prepare_examples(
            model,
            chat.processor,
            replace(run, tasks=tuple(map(self._described, run.tasks))),
            reasoning=settings.reasoning,
            max_length=settings.max_length,
            complete=self.complete,
        )
        learner = SftLearner(
            chat, settings, accelerator, seed=run.seed, lora_dropout=settings.lora_dropout
        )
        report_to, described = settings.report_to, self.describe()
        session = Session(run, learner.export, report_to=report_to, settings=described)
        bf16 = accelerator.mixed_precision == "bf16"
        run.progress.note(memory_note(learner.network, computes_bf16=bf16, reference=False))
        facts = train(learner, examples, session)
        return {
            **facts,
            "loss": last(run, "loss"),
            **training_facts(examples, dropped, learner.network),
        }

    def _described(self, task: Task) -> Task:
        """Return the task with the data and texts that responses need in its targets."""
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
