"""The trainer that every method with GRPO is: settings, a reward, and what else is its own.

A method's plugin function returns a `GrpoTrainer`; see `harness.trainers.visionreasoner.trainer`.
Nothing here imports torch before a training begins.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.models.backends.transformers import TransformersChat
from harness.models.pipeline import PromptedModel
from harness.trainer import Curve, TrainingRun
from harness.trainers.grpo.examples import make_examples, prepare_examples
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.loggers import check_loggers
from harness.trainers.network import deepspeed_file, memory_note, trainable, training_facts


def request_key(model: PromptedModel) -> tuple[object, ...]:
    """Return what decides how a model asks, but for a newline before the prompt and the samples
    that a graph or map is asked of: there a method's training may differ from its evaluation.
    """
    words = model.words if isinstance(model, PromptedModel) else None
    words = getattr(words, "templates", words)
    return type(model), model.prompt.render("QUESTION").lstrip("\n"), model.prompt.resize, words


@dataclass(frozen=True, kw_only=True)
class GrpoTrainer(GrpoMethod):
    """A method that trains."""

    def bound(self, model: PromptedModel) -> "GrpoTrainer":
        """Return the method with what it makes of the model, such as a second pass."""
        del model
        return self

    def train(self, run: TrainingRun) -> Mapping[str, Any]:
        """Check every prompt, train, and write the checkpoint.

        Raises:
            UsageError: there is no model that can be trained, or vLLM is to write what it cannot.
            DataError: no sample is left to learn from.
            ModelError: the reward fails.
        """
        given, chat = trainable(self.name, run.model, self.model_kind)
        model = self.with_prompt(given)
        if run.main and request_key(model) != request_key(given):
            run.progress.note(
                f"{run.model} is trained with the prompt of {self.name}, and has another by "
                f"itself. Give {self.name}(checkpoint=…) as the model, or "
                f'--eval-model "{self.name}(checkpoint={{checkpoint}})", so that it is evaluated '
                "as it was trained"
            )
        return self.bound(model)._train(run, model, chat)

    def _train(
        self, run: TrainingRun, model: PromptedModel, chat: TransformersChat
    ) -> Mapping[str, Any]:
        from harness.trainers.grpo.completions import rows_of, table_of, write_completions
        from harness.trainers.grpo.groups import RewardedRound
        from harness.trainers.grpo.loop import GrpoLearner
        from harness.trainers.grpo.rewards import ROLLOUTS, log_rollouts
        from harness.trainers.learner import train
        from harness.trainers.policy import accelerator_of
        from harness.trainers.session import Session, gather, last

        self._check(chat)
        settings, accelerator = self.settings, accelerator_of(self.settings, chat)
        examples, dropped = prepare_examples(self, model, chat.processor, run)
        learner = GrpoLearner(self, chat, accelerator, seed=run.seed)
        session = Session(
            run,
            learner.export,
            report_to=settings.report_to,
            settings=self.describe(),
            on_alarm=settings.alarms,
        )
        log = Curve(run.out / ROLLOUTS)
        if run.main:
            log.cut(session.done)

        def keep(number: int, made: RewardedRound) -> None:
            first, parse = number * settings.num_iterations + 1, model.prompt.parse
            if settings.log_completions:
                given = made.prompts, made.groups, made.rewards, made.advantages
                table = table_of(gather(rows_of(first, *given)))
                if run.main:
                    write_completions(run.out, first, table)
                    session.log_table("completions", table, first)
            if run.main:
                groups = made.groups[: settings.keep_rollouts]
                log_rollouts(log, first, groups, made.rewards, made.advantages, parse)

        learner.log = keep
        run.progress.note(
            memory_note(
                learner.network,
                computes_bf16=accelerator.mixed_precision == "bf16",
                reference=learner.reference is not None,
            )
        )
        facts = train(learner, examples, session)
        return {
            **facts,
            "reward": last(run, "reward"),  # of the last step that began a round
            "alarms": [alarm.describe() for alarm in session.alarms.raised],
            **training_facts(examples, dropped, learner.network),
        }

    def check_installation(self) -> None:
        """Raise what `report_to` lacks: a package or a key."""
        check_loggers(self.settings.report_to)

    def check(self, run: TrainingRun) -> None:
        """Raise what `train` would of settings, packages and clips; no network is loaded.

        For a method that does something long before it trains.
        """
        given, chat = trainable(self.name, run.model, self.model_kind)
        self._check(chat)
        if self.settings.vllm_mode is not None:
            deque(make_examples(self, self.with_prompt(given), run), maxlen=0)

    def _check(self, chat: TransformersChat) -> None:
        from harness.trainers.grpo import vllm
        from harness.trainers.session import started

        self.settings.accumulation_steps(started())
        deepspeed_file(self.settings.deepspeed)
        vllm.check(self.settings, chat)
