"""The trainer that every method with GRPO is: settings, a reward, and what else is its own.

A method's plugin function returns a `GrpoTrainer`; see `harness.trainers.visionreasoner.trainer`.
Nothing here imports torch before a training begins.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

from harness import plugins
from harness.errors import ModelError, UsageError
from harness.models.backends.transformers import TransformersChat
from harness.models.pipeline import PromptedModel
from harness.options import with_options
from harness.spec import Spec, Value
from harness.trainer import Curve, TrainingRun
from harness.trainers.grpo.examples import make_examples, prepare_examples
from harness.trainers.grpo.functions import (
    REWARDS,
    FunctionReward,
    named_reward,
    no_reward,
    reads_method_reward,
    settings_of_reward,
)
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.grpo.settings import METHOD, RANDOM, Settings
from harness.trainers.loggers import check_loggers
from harness.trainers.network import deepspeed_file, memory_note, trainable, training_facts
from harness.trainers.session import started

CHECKPOINT = "{checkpoint}"
"""Placeholder in `--eval-model` for the checkpoint of the training."""


def request_key(model: PromptedModel) -> tuple[object, ...]:
    """Return what decides how a model asks, but for a newline before the prompt and the samples
    that a graph or map is asked of: there a method's training may differ from its evaluation.
    """
    words = model.words if isinstance(model, PromptedModel) else None
    words = getattr(words, "templates", words)
    return type(model), model.prompt.render("QUESTION").lstrip("\n"), model.prompt.resize, words


def how_to_evaluate(method: str, start: Spec | None, model: PromptedModel) -> str:
    """Return the option that evaluates a checkpoint with a method's prompt.

    Empty if the method has no model of its name that loads a checkpoint.

    Args:
        method: Name of the trainer, and of the model with its prompt.
        start: The model that training starts from; its segmenter and propagator are kept.
        model: The same with the method's prompt; its canvas is kept.
    """
    arguments: dict[str, Value] = {"checkpoint": CHECKPOINT}
    if model.prompt.resize is not None:
        arguments["canvas"] = model.prompt.resize[0]
    if start is not None:
        defaults = signature(plugins.load("models", start.name)).parameters
        for part in ("segmenter", "propagator"):
            value = start.arguments.get(part, defaults[part].default if part in defaults else None)
            if value is not None:
                arguments[part] = value
    if method not in plugins.installed_plugins("models"):
        return ""
    known = {name: arguments[name] for name in arguments if plugins.accepts("models", method, name)}
    if "checkpoint" not in known:
        return ""
    return f' To evaluate with the prompt of training: --eval-model "{Spec(method, known)}"'


@dataclass(frozen=True, kw_only=True)
class GrpoTrainer(GrpoMethod):
    """A method that trains."""

    def __post_init__(self) -> None:
        self.rewarded  # noqa: B018 - a reward that is not there is refused before any work
        if self.settings.engine == "trl":
            self._refuse_for_trl()

    @cached_property
    def rewarded(self) -> "GrpoTrainer":
        """The method with the plain function that `settings.reward` names as its reward."""
        name = self.settings.reward
        if name in (METHOD, RANDOM) or isinstance(self.reward, FunctionReward):
            return self
        method = None if self.reward is no_reward else self.reward
        function = named_reward(name, method, of_environment=self.environment is not None)
        return replace(self, reward=function)

    @property
    def unused(self) -> list[str]:
        """The method's own settings that have no effect, since `reward` replaces its reward."""
        if reads_method_reward(self.settings.reward):
            return []
        return sorted(settings_of_reward(self.name) & self.own.keys())

    def describe(self) -> Mapping[str, Any]:
        """Return every setting that has an effect."""
        settings = super().describe()
        return {name: settings[name] for name in settings if name not in self.unused}

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
                f"training uses the prompt of {self.name}, evaluation that of {given.name}."
                + how_to_evaluate(self.name, run.model, model)
            )
        return self.bound(model).rewarded._train(run, model, chat)

    def _train(
        self, run: TrainingRun, model: PromptedModel, chat: TransformersChat
    ) -> Mapping[str, Any]:
        from harness.trainers.checkpoints import check_evaluated
        from harness.trainers.grpo.completions import rows_of, table_of, write_completions
        from harness.trainers.grpo.groups import RewardedRound
        from harness.trainers.grpo.loop import GrpoLearner
        from harness.trainers.grpo.rewards import ROLLOUTS, log_rollouts
        from harness.trainers.learner import train
        from harness.trainers.policy import accelerator_of
        from harness.trainers.session import Session, gather, last

        self._check(chat)
        check_evaluated(run, self.settings)
        if run.main and isinstance(self.reward, FunctionReward) and self.reward.method is not None:
            run.progress.note(self._replaced())
        if self.settings.engine == "trl":
            from harness.models.backends.torchvision_cpu import ensure_torchvision

            ensure_torchvision()  # which transformers' part of TRL's trainer imports
            from harness.trainers.grpo.trl_engine import train_by_trl

            result = train_by_trl(self, run, model, chat)
            if run.main and last(run, "reward") is None:
                self._refuse_unrewarded(run)
            return result
        settings, accelerator = self.settings, accelerator_of(self.settings, chat)
        examples, dropped = prepare_examples(self, model, chat.processor, run)
        learner = GrpoLearner(self, chat, accelerator, seed=run.seed)
        session = Session(
            run,
            learner.export,
            report_to=settings.report_to,
            settings=self.describe(),
            on_alarm=settings.alarms,
            steps_per_round=settings.steps_per_round,
        )
        log = Curve(run.out / ROLLOUTS)
        if run.main:
            log.cut(session.done)

        def keep(number: int, rewarded: RewardedRound) -> None:
            first, parse = number * settings.num_iterations + 1, model.prompt.parse
            if settings.log_completions:
                given = rewarded.prompts, rewarded.groups, rewarded.rewards, rewarded.advantages
                table = table_of(gather(rows_of(first, *given)))
                if run.main:
                    write_completions(run.out, first, table)
                    session.log_table("completions", table, first)
            if run.main:
                groups = rewarded.groups[: settings.keep_rollouts]
                log_rollouts(log, first, groups, rewarded.rewards, rewarded.advantages, parse)

        learner.log = keep
        run.progress.note(
            memory_note(
                learner.network,
                computes_bf16=accelerator.mixed_precision == "bf16",
                reference=learner.reference is not None,
            )
        )
        facts = train(learner, examples, session)
        if run.main and last(run, "reward") is None:
            self._refuse_unrewarded(run)
        return {
            **facts,
            "reward": last(run, "reward"),  # of the last step that began a round
            "alarms": [alarm.describe() for alarm in session.alarms.raised],
            **training_facts(examples, dropped, learner.network),
        }

    def _refuse_unrewarded(self, run: TrainingRun) -> None:
        """Raise ModelError if no rollout of the training had a reward."""
        from harness.trainers.session import all_of

        if not all_of(run, "reward"):
            raise ModelError(
                f"reward of {self.name}",
                expected="a number for at least one rollout",
                found="None for each in every step",
                fix="Nothing was learned: a reward of None does not apply to its sample.",
            )

    def _replaced(self) -> str:
        """Return what a plain function does to the method's own reward, for the start."""
        name = self.settings.reward
        if REWARDS in signature(plugins.load("rewards", name)).parameters:
            return f"reward={name} changes the reward of {self.name} (it reads its components)"
        if not self.unused:
            return f"reward={name} replaces the reward of {self.name}, unless it reads `rewards`"
        idle = ", ".join(self.unused)
        return f"reward={name} replaces the reward of {self.name}; without effect now: {idle}"

    def check_installation(self) -> None:
        """Raise what `report_to` lacks: a package or a key."""
        check_loggers(self.settings.report_to)

    def check(self, run: TrainingRun) -> None:
        """Raise what `train` would of settings, packages and clips; no network is loaded.

        For a method that does something long before it trains.
        """
        given, chat = trainable(self.name, run.model, self.model_kind)
        self._check(chat)
        if self.settings.images_only is not None:
            deque(make_examples(self, self.with_prompt(given), run), maxlen=0)

    def _refuse_for_trl(self) -> None:
        """Raise UsageError for what TRL's trainer, or our way of running it, does not do."""
        chosen, turns = self.settings, self.settings.num_iterations
        beyond = {
            # It could not go on from a state within a round, not even to its end.
            f"max_steps={chosen.max_steps}, not a multiple of num_iterations={turns}": bool(
                (chosen.max_steps or 0) % turns
            ),
            "rollouts of several turns (an environment)": self.environment is not None,
            "a second response to each rollout": self.second is not None,
            f"{started()} processes": started() > 1,
            f"vllm_mode={chosen.vllm_mode}": chosen.vllm_mode is not None,
            f"deepspeed={chosen.deepspeed}": chosen.deepspeed is not None,
            f"ema_decay={chosen.ema_decay}": chosen.ema_decay is not None,
            "noise=keyed": chosen.noise == "keyed",
            "generation_micro_batch_size=…": chosen.generation_micro_batch_size is not None,
            "dynamic_sampling": chosen.dynamic_sampling,
            "log_completions": chosen.log_completions,
            "alarms=stop": chosen.alarms == "stop",
        }
        if asked := [name for name, is_asked in beyond.items() if is_asked]:
            raise UsageError(
                f"engine=trl, trainer {self.name}",
                expected="one process, rollouts of one turn, and settings that TRL has",
                found=", ".join(asked),
                fix="Remove engine, or these settings.",
            )

    def _check(self, chat: TransformersChat) -> None:
        from harness.trainers.grpo import vllm

        self.settings.accumulation_steps(started())
        deepspeed_file(self.settings.deepspeed)
        vllm.check(self.settings, chat)


@with_options(Settings)
def grpo(settings: Settings) -> GrpoTrainer:
    """GRPO with a reward of your own, a plain function: `reward=NAME` (docs/plugins.md).

    The model keeps its prompt, so that `--model` is evaluated as it is trained. Every setting of
    the GRPO engine can be given.
    """
    if settings.reward == METHOD:
        raise UsageError(
            "trainer grpo",
            expected="reward=NAME, a plain function that is a plugin (harness list rewards)",
            found="none",
        )
    return GrpoTrainer(name="grpo", settings=settings, reward=no_reward)
