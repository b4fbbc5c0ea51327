"""`GrpoTrainer`: the trainer of every method that learns by GRPO.

The plugin function of a method returns one, made of settings and a reward
(`harness.trainers.visionreasoner.trainer` is the shortest example). `train` takes a `TrainingRun`,
checks every prompt, trains by our loop or by TRL's, and returns facts for the manifest.
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
    """Return a key that is equal for two models if they send the same requests.

    Two differences between training and evaluation are allowed, and are not in the key: a newline
    before the prompt, and which samples are asked for a graph or a map.
    """
    wording = model.words if isinstance(model, PromptedModel) else None
    # Without the choice of samples that want a graph.
    wording = getattr(wording, "templates", wording)
    return type(model), model.prompt.render("QUESTION").lstrip("\n"), model.prompt.resize, wording


def how_to_evaluate(method: str, start: Spec | None, model: PromptedModel) -> str:
    """Return a sentence with the option that evaluates a checkpoint with the prompt of a method.

    Empty if no model plugin has the method's name and loads a checkpoint.

    Args:
        method: Name of the trainer, and of the model with its prompt.
        start: The model that training starts from; its segmenter and propagator are kept.
        model: The same model with the method's prompt; its canvas is kept.
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
    accepted = {
        name: value for name, value in arguments.items() if plugins.accepts("models", method, name)
    }
    if "checkpoint" not in accepted:
        return ""
    return f' To evaluate with the prompt of training: --eval-model "{Spec(method, accepted)}"'


@dataclass(frozen=True, kw_only=True)
class GrpoTrainer(GrpoMethod):
    """A GRPO method that can be trained: `GrpoMethod` with checks and `train`."""

    def __post_init__(self) -> None:
        self.rewarded  # noqa: B018 - a reward that is not installed is refused before any work
        if self.settings.engine == "trl":
            self._refuse_for_trl()

    @cached_property
    def rewarded(self) -> "GrpoTrainer":
        """A copy with the plain function that `settings.reward` names, if any, as its reward."""
        name = self.settings.reward
        if name in (METHOD, RANDOM) or isinstance(self.reward, FunctionReward):
            return self
        method = None if self.reward is no_reward else self.reward
        function = named_reward(name, method, of_environment=self.environment is not None)
        return replace(self, reward=function)

    @property
    def unused(self) -> list[str]:
        """Names of the method's own settings without effect: `reward=NAME` replaces its reward."""
        if reads_method_reward(self.settings.reward):
            return []
        return sorted(settings_of_reward(self.name) & self.own.keys())

    def describe(self) -> Mapping[str, Any]:
        """Return every setting that has an effect."""
        settings = super().describe()
        return {name: settings[name] for name in settings if name not in self.unused}

    def bound(self, model: PromptedModel) -> "GrpoTrainer":
        """Return this method with the parts that depend on the model, such as a second pass."""
        del model  # a method without such parts returns itself
        return self

    def train(self, run: TrainingRun) -> Mapping[str, Any]:
        """Check every prompt, train, and write the checkpoint.

        Raises:
            UsageError: the model cannot be trained, or vLLM cannot write such rollouts.
            DataError: no sample is left to learn from.
            ModelError: the reward fails.
        """
        start, chat = trainable(self.name, run.model, self.model_kind)
        model = self.with_prompt(start)
        if run.main and request_key(model) != request_key(start):
            run.progress.note(
                f"training uses the prompt of {self.name}, evaluation that of {start.name}."
                + how_to_evaluate(self.name, run.model, model)
            )
        return self.bound(model).rewarded._train_by_engine(run, model, chat)

    def _train_by_engine(
        self, run: TrainingRun, model: PromptedModel, chat: TransformersChat
    ) -> Mapping[str, Any]:
        """Train by the chosen engine; `self.reward` is the final one, `model` has our prompt."""
        from harness.trainers.checkpoints import check_evaluated
        from harness.trainers.session import last

        self._check_batches(chat)
        check_evaluated(run, self.settings)
        if run.main and isinstance(self.reward, FunctionReward) and self.reward.method is not None:
            run.progress.note(self._replaced())
        if self.settings.engine == "trl":
            from harness.models.backends.torchvision_cpu import ensure_torchvision

            ensure_torchvision()  # TRL's trainer makes transformers import it
            from harness.trainers.grpo.trl_engine import train_by_trl

            result = train_by_trl(self, run, model, chat)
        else:
            result = self._train_by_harness(run, model, chat)
        if run.main and last(run, "reward") is None:
            self._refuse_unrewarded(run)
        return result

    def _train_by_harness(
        self, run: TrainingRun, model: PromptedModel, chat: TransformersChat
    ) -> Mapping[str, Any]:
        """Train by our own loop; return the facts about the training for its record."""
        from harness.trainers.grpo.completions import rows_of, table_of, write_completions
        from harness.trainers.grpo.groups import RewardedRound
        from harness.trainers.grpo.loop import GrpoLearner
        from harness.trainers.grpo.rewards import ROLLOUTS, log_rollouts
        from harness.trainers.learner import train
        from harness.trainers.policy import accelerator_of
        from harness.trainers.session import Session, gather, last

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

        def log_round(number: int, rewarded: RewardedRound) -> None:
            """Log the rollouts of a round under its first step."""
            first, parse = number * settings.num_iterations + 1, model.prompt.parse
            if settings.log_completions:
                rows = rows_of(
                    first, rewarded.prompts, rewarded.groups, rewarded.rewards, rewarded.advantages
                )
                table = table_of(gather(rows))
                if run.main:
                    write_completions(run.out, first, table)
                    session.log_table("completions", table, first)
            if run.main:
                groups = rewarded.groups[: settings.keep_rollouts]
                log_rollouts(log, first, groups, rewarded.rewards, rewarded.advantages, parse)

        learner.log = log_round
        run.progress.note(
            memory_note(
                learner.network,
                computes_bf16=accelerator.mixed_precision == "bf16",
                reference=learner.reference is not None,
            )
        )
        return {
            **train(learner, examples, session),
            "reward": last(run, "reward"),  # the mean reward of the last round
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
        """Return a note for the user: what a plain function does to the method's own reward."""
        name = self.settings.reward
        if REWARDS in signature(plugins.load("rewards", name)).parameters:
            return f"reward={name} changes the reward of {self.name} (it reads its components)"
        if not self.unused:
            return f"reward={name} replaces the reward of {self.name}, unless it reads `rewards`"
        idle = ", ".join(self.unused)
        return f"reward={name} replaces the reward of {self.name}; without effect now: {idle}"

    def check_installation(self) -> None:
        """Raise an error if a logger of `report_to` lacks its package or its key."""
        check_loggers(self.settings.report_to)

    def check(self, run: TrainingRun) -> None:
        """Raise the errors of settings, packages and clips that `train` would, without a network.

        VideoSeg-R1 calls this before it rates its samples, which takes long.
        """
        from harness.trainers.checkpoints import check_evaluated

        start, chat = trainable(self.name, run.model, self.model_kind)
        self._check_batches(chat)
        check_evaluated(run, self.settings)
        if self.settings.images_only is not None:
            # Only for its errors: `make_examples` refuses clips.
            deque(make_examples(self, self.with_prompt(start), run), maxlen=0)

    def _refuse_for_trl(self) -> None:
        """Raise UsageError for settings that TRL's trainer, as we run it, does not support."""
        settings, iterations = self.settings, self.settings.num_iterations
        unsupported = {
            # TRL cannot resume from a state in the middle of a round.
            f"max_steps={settings.max_steps}, not a multiple of num_iterations={iterations}": bool(
                (settings.max_steps or 0) % iterations
            ),
            "rollouts of several turns (an environment)": self.environment is not None,
            "a second response to each rollout": self.second is not None,
            f"{started()} processes": started() > 1,
            f"vllm_mode={settings.vllm_mode}": settings.vllm_mode is not None,
            f"deepspeed={settings.deepspeed}": settings.deepspeed is not None,
            f"ema_decay={settings.ema_decay}": settings.ema_decay is not None,
            "noise=keyed": settings.noise == "keyed",
            "generation_micro_batch_size=…": settings.generation_micro_batch_size is not None,
            "dynamic_sampling": settings.dynamic_sampling,
            "log_completions": settings.log_completions,
            "alarms=stop": settings.alarms == "stop",
        }
        wanted = [name for name, is_wanted in unsupported.items() if is_wanted]
        if wanted:
            raise UsageError(
                f"engine=trl, trainer {self.name}",
                expected="one process, rollouts of one turn, and settings that TRL has",
                found=", ".join(wanted),
                fix="Remove engine, or these settings.",
            )

    def _check_batches(self, chat: TransformersChat) -> None:
        """Raise the errors of batch sizes, of the DeepSpeed file and of vLLM."""
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
